"""The tokens of a delta rule's window taken in one after the other: what each errs by, and what of it later tokens still see."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ...formats.arrays import unit
from ...policy import Path, Policy
from ...recurrences.batched.delta import DeltaTerms
from ..units import accumulator_unit, product_error, storage_error, tiny
from .gates import DeltaErrors, held_unit
from .reading import Reading, Taken, dot, read_carried, read_rebuilt

__all__ = ["DeltaRun"]


@dataclass(kw_only=True)
class DeltaRun:
    """The tokens of a window so far.

    given: format of keys and queries as they are multiplied. drift: bound on the norm of the error of every row of the state; second: of
    what errors of decays make of it; both [..., heads, head_dim].
    """

    terms: DeltaTerms
    policy: Policy
    given: str
    drift: Tensor
    second: Tensor
    taken: list[Taken] = field(default_factory=list)

    @staticmethod
    def of(terms: DeltaTerms, policy: Policy, given: str) -> DeltaRun:
        """No token taken yet."""
        nothing = torch.zeros_like(terms.start[..., 0])
        return DeltaRun(terms=terms, policy=policy, given=given, drift=nothing, second=nothing)

    def token(self, name: str, errors: DeltaErrors) -> Tensor:
        """Take the next token in, on policy path `name`; the budget of its output, [..., heads, head_dim]."""
        m, k = len(self.taken), self.terms.k[..., len(self.taken), :, :]
        norm = errors.key_norm[..., m, :, None]
        fresh = self._predicted(m, name, errors, (1 + norm) * (errors.key * k.abs() + errors.lost))
        later = self._carried(m, name, errors, self._in_ring(name, fresh))
        self.taken.append(later)
        return self._output(m, name, errors, replace(fresh, gated=later.gated, before=later.before, after=later.after))

    def _strongest(self, m: int) -> Tensor:
        return torch.exp(self.terms.log_decay[..., m, :, :]).amax(-1)[..., None]

    def _predicted(self, m: int, name: str, errors: DeltaErrors, key: Tensor) -> Taken:
        """The delta of token m and its errors, before a ring holds it."""
        terms, path, fp32 = self.terms, self.policy.paths[name], unit("fp32")
        k, beta, d, state = terms.k[..., m, :, :], terms.beta[..., m, :, None], terms.delta[..., m, :, :], terms.before[..., m, :, :, :]
        inherited = self._strongest(m) * self.drift
        size, norm = state.abs() + inherited[..., None], errors.key_norm[..., m, :, None]
        wide = (1 + norm) * k.abs() + key
        read = self._read(m, m, name, path.predict, wide, errors, size)
        along = inherited * k.norm(dim=-1)[..., None]
        value = dot(state, k).abs() + along
        beside = dot(size, key) + norm * value + self._unstored(m, path, wide, errors)
        floor = errors.beta_floor * (terms.v[..., m, :, :].abs() + value) + tiny(self.policy, path) * (2 + beta.abs())

        def own(wrong: Tensor, by_beta: Tensor | float) -> Tensor:
            grown = (1 + by_beta) * (1 + fp32) ** 2 - 1
            made: Tensor = (1 + grown) * beta.abs() * wrong + (grown + norm) * (d.abs() + beta.abs() * wrong) + floor
            return made

        error = own(read.error + beside, errors.beta[..., m, :, None])
        return Taken(
            delta=d.abs() + error + beta.abs() * along, own=error, led=own(read.led + beside, 0.0), spread=beta.abs() * read.spread,
            key=key, wide=wide,
        )

    def _in_ring(self, name: str, one: Taken) -> Taken:
        """The token as later tokens see it: rounded where a ring holds it."""
        if name != "output":
            return one
        rounded, cut = held_unit(self.policy.ring_delta) * one.delta, held_unit(self.policy.ring_key) * one.wide
        return replace(one, delta=one.delta + rounded, own=one.own + rounded, led=one.led + rounded, key=one.key + cut, wide=one.wide + cut)

    def _carried(self, m: int, name: str, errors: DeltaErrors, one: Taken) -> Taken:
        """The token with its errors of a state that is carried, and the drift after it."""
        terms, k, beta = self.terms, self.terms.k[..., m, :, :], self.terms.beta[..., m, :, None]
        # the norm of a transition is at most that of its decay times that of its reflection
        strongest = self._strongest(m)
        shrunk = strongest * torch.maximum(torch.ones_like(strongest), (1 - beta * (k * k).sum(-1)[..., None]).abs())
        drift = shrunk * self.drift + one.own * k.norm(dim=-1)[..., None] + one.delta * one.key.norm(dim=-1)[..., None]
        second = shrunk * self.second
        if name == "step":
            path, gated = self.policy.paths[name], errors.one[..., m, :, :]
            second = second + shrunk * gated.amax(-1)[..., None] * self.drift
            size = terms.before[..., m, :, :, :].abs() + (strongest * self.drift)[..., None]
            before = unit("fp32") * size * (1 + gated[..., None, :])
            drift = drift + (gated[..., None, :] * size + before).norm(dim=-1)
            token = product_error(path.token, given=self.given)
            folded = token.relative * one.delta[..., None] * one.wide[..., None, :]
            floor = tiny(self.policy, path) + token.absolute * (1 + one.wide[..., None, :] + one.delta[..., None])
            added = terms.after[..., m, :, :, :].abs() + drift[..., None] + folded
            after = accumulator_unit(path.accumulator) * added + folded + 4 * floor
            drift = drift + after.norm(dim=-1)
            one = replace(one, gated=gated, before=before, after=after)
        self.drift, self.second = drift, second
        return one

    def _read(self, m: int, count: int, name: str, method: str, x: Tensor, errors: DeltaErrors, size: Tensor) -> Reading:
        """Reading the first `count` tokens at token m with x, moduli."""
        path = self.policy.paths[name]
        if name == "step":
            return read_carried(self.policy, path, method, self.given, size, x)
        return read_rebuilt(self.terms, self.policy, path, method, self.given, errors, self.taken[:count], m, size, x)

    def _unstored(self, m: int, path: Path, x: Tensor, errors: DeltaErrors) -> Tensor | float:
        """What is read beyond the stored bits of the start state, where a flush reads the state before it is rounded for storing."""
        narrow = unit(self.policy.state.format) <= accumulator_unit(path.accumulator)
        if path.folds == "through" or path.reads == "stored" or narrow:
            return 0.0
        rounded = storage_error(self.terms.start, torch.zeros_like(self.terms.start), self.policy.state)
        return dot(rounded, (torch.exp(self.terms.total[..., m, :, :]) + errors.decay[..., m, :, :]) * x)

    def _output(self, m: int, name: str, errors: DeltaErrors, one: Taken) -> Tensor:
        """The budget of token m's output; its own delta and key are those before a ring holds them."""
        terms, path = self.terms, self.policy.paths[name]
        k, q, state = terms.k[..., m, :, :], terms.q[..., m, :, :], terms.after[..., m, :, :, :]
        size, norm = state.abs() + self.drift[..., None], errors.query_norm[..., m, :, None]
        query = errors.query * q.abs() + errors.lost
        wide = (1 + norm) * (q.abs() + query)
        error = self._read(m, m + 1, name, path.readout, wide, errors, size).error + self._unstored(m, path, wide, errors)
        error = error + norm * dot(state, q).abs() + (1 + norm) * dot(size, query) + self.second * q.norm(dim=-1)[..., None]
        error = error + one.own * (k * q).sum(-1).abs()[..., None] + one.delta * (one.key * wide).sum(-1)[..., None]
        for j, earlier in enumerate(self.taken):
            back = terms.queries[..., j + 1, m, :, :]
            if j < m:
                error = error + earlier.own * (terms.k[..., j, :, :] * back).sum(-1).abs()[..., None]
                error = error + earlier.delta * (earlier.key * back.abs()).sum(-1)[..., None]
            error = error + self._carried_seen(j, earlier, back)
        if path.reads == "stored" and path.folds == "through" and m == terms.k.shape[-3] - 1:
            error = error + dot(storage_error(state, torch.zeros_like(state), self.policy.state), wide)
        widened: Tensor = error * (1 + norm) * (1 + errors.query)
        return widened

    def _carried_seen(self, j: int, one: Taken, back: Tensor) -> Tensor | float:
        """What a query, carried back to after token j, reads of the errors of a state that is carried there."""
        if one.gated is None or one.before is None or one.after is None:
            return 0.0
        k, state = self.terms.k[..., j, :, :], self.terms.before[..., j, :, :, :]
        met = back - self.terms.beta[..., j, :, None] * (k * back).sum(-1)[..., None] * k
        rounded = dot(one.after, back.abs()) + dot(one.before, met.abs())
        # one decay a head: its error is of one sign for the whole state
        return rounded + (one.gated * dot(state, met).abs() if one.gated.shape[-1] == 1 else dot(state.abs(), one.gated * met.abs()))
