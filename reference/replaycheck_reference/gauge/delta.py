"""The error budget of a window of a delta rule: running error analysis of a policy, errors carried on by the exact transitions.

An error made at one token meets every later transition. These are multiplied out first, onto the query that reads or the end of the window,
and moduli are taken then: products of moduli would explode where the transitions themselves contract. What a replay rebuilds of the state
errs for its token alone, and lives on in that token's delta only; what a step carries lives on whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..formats.arrays import unit
from ..layer import DeltaLayer
from ..policy import Path, Policy
from ..recurrences.batched.delta import DeltaTerms
from .delta_gates import DeltaErrors, delta_errors, held_unit
from .delta_shares import DeltaShares, delta_shares
from .functions import FunctionTable
from .paths import check_paths, folding_path
from .units import accumulator_unit, additions, growth, product_error, storage_error, tiny

__all__ = ["DeltaBound", "bound"]


@dataclass(frozen=True, kw_only=True)
class DeltaBound:
    """Absolute errors allowed before the last rounding: outputs [..., tokens, heads, head_dim], end [..., heads, head_dim, state_dim].

    output_decay: inf, [..., tokens, heads]: how a delta rule answers to a decay is not one field of an output.
    """

    outputs: Tensor
    output_decay: Tensor
    end: Tensor
    shares: DeltaShares


def bound(
    layer: DeltaLayer, terms: DeltaTerms, policy: Policy, paths: Sequence[str], table: FunctionTable, *, activation: str
) -> DeltaBound:
    """The budget of a window whose token m was computed on policy path `paths[m]`.

    activation: format of q and k. Raises ValueError where a path is not in the policy.
    """
    check_paths(policy, paths, terms.k.shape[-3])
    folding = folding_path(policy, paths)
    errors = {name: delta_errors(layer, terms, policy, policy.paths[name], table) for name in sorted({*paths, folding})}
    given = policy.key if held_unit(policy.key) else "fp32" if layer.variant.norm != "off" else activation
    run = _Run(terms=terms, policy=policy, given=given, drift=torch.zeros_like(terms.start[..., 0]),
               second=torch.zeros_like(terms.start[..., 0]))
    outputs = torch.stack([run.token(m, name, errors[name]) for m, name in enumerate(paths)], -3)
    outputs = outputs + _float64_error(terms) * torch.einsum("...hpn,...hn->...hp", terms.after.abs() + terms.before.abs(), terms.q.abs())
    scattered, rebuilt = run.end(folding, errors[folding])
    carried = run.persistent_end()
    end = scattered + rebuilt + carried + _float64_error(terms) * (terms.before[..., -1, :, :, :].abs() + terms.end().abs())
    shares = delta_shares(terms, errors[folding], run.deltas, run.etas, run.keys, scattered, carried=folding == "step")
    return DeltaBound(outputs=outputs, output_decay=torch.full_like(terms.beta, torch.inf), end=end, shares=shares)


@dataclass(kw_only=True)
class _Run:
    """The tokens of a window so far.

    deltas: |d| and its error; etas: errors of deltas as later tokens see them, [..., heads, head_dim]; keys: errors of the keys they are
    folded with, wide: |k| and its error, [..., heads, state_dim]. gated, before, after: per token that is carried, the relative error of
    its decays, and absolute errors of the state before it was predicted from and after it. drift: bound on the norm of the error of every
    row of the state; second: of what errors of decays make of it.
    """

    terms: DeltaTerms
    policy: Policy
    given: str
    drift: Tensor
    second: Tensor
    deltas: list[Tensor] = field(default_factory=list)
    etas: list[Tensor] = field(default_factory=list)
    keys: list[Tensor] = field(default_factory=list)
    wide: list[Tensor] = field(default_factory=list)
    gated: list[Tensor | None] = field(default_factory=list)
    before: list[Tensor | None] = field(default_factory=list)
    after: list[Tensor | None] = field(default_factory=list)

    def token(self, m: int, name: str, errors: DeltaErrors) -> Tensor:
        """Take token m in; the budget of its output, [..., heads, head_dim]."""
        terms, path, fp32 = self.terms, self.policy.paths[name], unit("fp32")
        k, q, beta = terms.k[..., m, :, :], terms.q[..., m, :, :], terms.beta[..., m, :, None]
        v, d = terms.v[..., m, :, :], terms.delta[..., m, :, :]
        state = terms.before[..., m, :, :, :].abs()
        strongest = torch.exp(terms.log_decay[..., m, :, :]).amax(-1)[..., None]
        size = state + (strongest * self.drift)[..., None]
        carried = name == "step"
        norm = errors.key_norm[..., m, :, None]
        key = errors.key * k.abs() + errors.lost
        wide = (1 + norm) * (k.abs() + key)
        predicted = _dot(terms.before[..., m, :, :, :], k).abs() + strongest * self.drift * k.norm(dim=-1)[..., None]
        read = self._read(m, m, path, path.predict, wide, errors, size, carried) + self._unstored(m, path, wide, errors)
        grown = (1 + errors.beta[..., m, :, None]) * (1 + fp32) ** 2 - 1
        wrong = read + (1 + norm) * _dot(size, key) + norm * predicted
        eta = (1 + grown) * beta.abs() * wrong + (grown + norm) * (d.abs() + beta.abs() * wrong)
        eta = eta + (errors.beta_floor * (v.abs() + predicted) + tiny(self.policy, path) * (2 + beta.abs()))
        delta = d.abs() + eta + beta.abs() * strongest * self.drift * k.norm(dim=-1)[..., None]
        self._take(m, name, path, errors, delta, eta, (1 + norm) * key, state)
        return self._output(m, path, errors, eta, wide - k.abs(), q, carried)

    def _take(
        self, m: int, name: str, path: Path, errors: DeltaErrors, delta: Tensor, eta: Tensor, key: Tensor, state: Tensor
    ) -> None:
        terms, k = self.terms, self.terms.k[..., m, :, :]
        ring, norm = name == "output", errors.key_norm[..., m, :, None]
        rounded = held_unit(self.policy.ring_delta) * delta if ring else torch.zeros_like(delta)
        held, delta = eta + rounded, delta + rounded
        kept = key + (held_unit(self.policy.ring_key) * (1 + norm) * (k.abs() + key) if ring else 0.0)
        gated: Tensor | None = None
        before: Tensor | None = None
        after: Tensor | None = None
        strongest = torch.exp(terms.log_decay[..., m, :, :]).amax(-1)[..., None]
        shrunk = strongest * torch.maximum(torch.ones_like(strongest), (1 - terms.beta[..., m, :, None] * (k * k).sum(-1)[..., None]).abs())
        # channels that differ do not commute with the reflection: its norm is at most that of the decay times its own
        drift = shrunk * self.drift + held * k.norm(dim=-1)[..., None] + delta * kept.norm(dim=-1)[..., None]
        self.second = shrunk * self.second
        if name == "step":
            self.second = self.second + shrunk * errors.one[..., m, :, :].amax(-1)[..., None] * self.drift
            size = state + (strongest * self.drift)[..., None]
            gated = errors.one[..., m, :, :]
            before = unit("fp32") * size * (1 + gated[..., None, :])
            drift = drift + (gated[..., None, :] * size + before).norm(dim=-1)
            token = product_error(path.token, given=self.given)
            folded = token.relative * delta[..., None] * ((1 + norm) * k.abs() + kept)[..., None, :]
            floor = tiny(self.policy, path) + token.absolute * (1 + k.abs()[..., None, :] + delta[..., None])
            added = terms.after[..., m, :, :, :].abs() + drift[..., None] + folded
            after = accumulator_unit(path.accumulator) * added + folded + 4 * floor
            drift = drift + after.norm(dim=-1)
        self.drift = drift
        self.deltas.append(delta)
        self.etas.append(held)
        self.keys.append(kept)
        self.wide.append((1 + norm) * k.abs() + kept)
        self.gated.append(gated)
        self.before.append(before)
        self.after.append(after)

    def _output(self, m: int, path: Path, errors: DeltaErrors, eta: Tensor, key: Tensor, q: Tensor, carried: bool) -> Tensor:
        terms = self.terms
        size = terms.after[..., m, :, :, :].abs() + self.drift[..., None]
        norm = errors.query_norm[..., m, :, None]
        query = errors.query * q.abs() + errors.lost
        wide = (1 + norm) * (q.abs() + query)
        error = self._read(m, m + 1, path, path.readout, wide, errors, size, carried) + self._unstored(m, path, wide, errors)
        error = error + norm * _dot(terms.after[..., m, :, :, :], q).abs() + (1 + norm) * _dot(size, query)
        error = error + eta * (terms.k[..., m, :, :] * q).sum(-1).abs()[..., None] + self.deltas[m] * (key * wide).sum(-1)[..., None]
        error = error + self.second * q.norm(dim=-1)[..., None]
        for j in range(m + 1):
            back = terms.queries[..., j + 1, m, :, :]
            if j < m:
                error = error + self.etas[j] * (terms.k[..., j, :, :] * back).sum(-1).abs()[..., None]
                error = error + self.deltas[j] * (self.keys[j] * back.abs()).sum(-1)[..., None]
            before, after, gated = self.before[j], self.after[j], self.gated[j]
            if before is not None and after is not None and gated is not None:
                k = terms.k[..., j, :, :]
                met = back - terms.beta[..., j, :, None] * (k * back).sum(-1)[..., None] * k
                error = error + _dot(after, back.abs()) + _dot(before, met.abs())
                error = error + self._gate_seen(j, gated, met)
        if path.reads == "stored" and path.folds == "through" and m == terms.k.shape[-3] - 1:
            end = terms.end()
            error = error + _dot(storage_error(end, torch.zeros_like(end), self.policy.state), wide)
        widened: Tensor = error * (1 + norm) * (1 + errors.query)
        return widened

    def _gate_seen(self, j: int, gated: Tensor, met: Tensor) -> Tensor:
        """What the error of token j's decays adds, read through `met`: of one sign where a head has one decay."""
        state = self.terms.before[..., j, :, :, :]
        if gated.shape[-1] == 1:
            return gated * _dot(state, met).abs()
        return _dot(state.abs(), gated * met.abs())

    def _unstored(self, m: int, path: Path, x: Tensor, errors: DeltaErrors) -> Tensor | float:
        """What is read beyond the stored bits of the start state, where a flush reads the state before it is rounded for storing."""
        narrow = unit(self.policy.state.format) <= accumulator_unit(path.accumulator)
        if path.folds == "through" or path.reads == "stored" or narrow:
            return 0.0
        rounded = storage_error(self.terms.start, torch.zeros_like(self.terms.start), self.policy.state)
        decay = torch.exp(self.terms.total[..., m, :, :]) + errors.decay[..., m, :, :]
        return _dot(rounded, (decay * x).abs())

    def _read(
        self, now: int, count: int, path: Path, method: str, x: Tensor, errors: DeltaErrors, size: Tensor, carried: bool
    ) -> Tensor:
        """Error of reading a state of `count` tokens with x, decayed to token `now`; that of deltas aside."""
        terms, acc, fp32 = self.terms, accumulator_unit(path.accumulator), unit("fp32")
        product = product_error(method, given=self.given)
        reduced = growth(additions(x.shape[-1], path.order), acc)
        read = (1 + product.relative) * (1 + reduced) - 1
        floor = tiny(self.policy, path)
        floors = floor * (3 * x.shape[-1] + 4 * (count + 2)) + product.absolute * (x.abs().sum(-1)[..., None] + size.sum(-1) + 1)
        if carried:
            return read * _dot(size, x.abs()) + floors
        later = growth(additions(count + 1, path.order) + 1, acc)
        token, score, value = (product_error(name, given=self.given) for name in (path.token, path.score, path.value))
        if path.output == "state":
            begun = (1 + fp32) ** 2 * (1 + later) * (1 + read) - 1
            folded = (1 + fp32) ** 2 * (1 + token.relative) * (1 + later) * (1 + read) - 1
        else:
            begun = (1 + read) * (1 + fp32) ** 2 * (1 + later) - 1
            folded = (1 + score.relative) * (1 + reduced) * (1 + fp32) ** 2 * (1 + value.relative) * (1 + later) - 1
        decay = torch.exp(terms.total[..., now, :, :])
        reach = (errors.decay[..., now, :, :] * (1 + begun) + decay * begun) * x.abs()
        error = _dot(terms.start.abs(), reach) + floors
        absolute = score.absolute + value.absolute + token.absolute
        for j in range(count):
            weight = torch.exp(terms.span[..., now, j, :, :])
            reach = (errors.weight[..., now, j, :, :] * (1 + folded) + weight * folded) * self.wide[j]
            size_j = (reach * x.abs()).sum(-1)[..., None] + (floor + absolute) * (x.shape[-1] + 2 + x.abs().sum(-1)[..., None] * 2)
            error = error + self.deltas[j] * size_j + (floor + absolute) * (x.abs() * terms.k[..., j, :, :].abs()).sum(-1)[..., None]
        return error + floor * 4 * (count + 2) * x.abs().sum(-1)[..., None]

    def end(self, name: str, errors: DeltaErrors) -> tuple[Tensor, Tensor]:
        """Errors of rebuilding the end state: scattered roundings, and the errors of decays. Both [..., heads, head_dim, state_dim]."""
        terms, path, fp32 = self.terms, self.policy.paths[name], unit("fp32")
        if name == "step":
            rounded = torch.zeros_like(terms.start)
            gated = torch.zeros_like(terms.start)
            for j, (before, after, gate) in enumerate(zip(self.before, self.after, self.gated, strict=True)):
                if before is not None and after is not None and gate is not None:
                    rounded = rounded + self._carried_size(after, j + 1) + self._carried_size(self._met(before, j), j + 1)
                    gated = gated + self._gate_carried(j, gate)
            return rounded, gated
        count, acc = len(self.deltas), accumulator_unit(path.accumulator)
        adds = growth(additions(count + 1, path.order) + 1, acc)
        token = product_error(path.token, given=self.given)
        begun = (1 + fp32) ** 2 * (1 + adds) - 1
        folded = (1 + fp32) ** 2 * (1 + token.relative) * (1 + adds) - 1
        start, decay = terms.start.abs(), torch.exp(terms.total[..., -1, :, :])
        floor = tiny(self.policy, path)
        rounded = start * (decay * begun)[..., None, :] + floor * (4 * count + 8)
        gated = start * (errors.decay[..., -1, :, :] * (1 + begun))[..., None, :]
        for j, delta in enumerate(self.deltas):
            k, weight = self.wide[j], torch.exp(terms.span[..., -1, j, :, :])
            rounded = rounded + delta[..., None] * (weight * folded * k + floor)[..., None, :]
            rounded = rounded + (floor + token.absolute) * (1 + k)[..., None, :] + token.absolute * delta[..., None]
            gated = gated + delta[..., None] * (errors.weight[..., -1, j, :, :] * (1 + folded) * k)[..., None, :]
        return rounded, gated

    def persistent_end(self) -> Tensor:
        """What errors of deltas and keys leave in the end state."""
        terms, left = self.terms, self.second[..., None].expand_as(self.terms.start)
        for j, (eta, key) in enumerate(zip(self.etas, self.keys, strict=True)):
            left = left + eta[..., None] * terms.keys[..., j, :, :].abs()[..., None, :]
            wrong = self.deltas[j][..., None] * key[..., None, :]
            left = left + self._carried_size(wrong, j + 1)
        return left

    def _met(self, size: Tensor, j: int) -> Tensor:
        """|E (I - beta k k^T)| of token j, at most."""
        k, beta = self.terms.k[..., j, :, :], self.terms.beta[..., j, :, None, None]
        reflection = torch.eye(k.shape[-1], dtype=k.dtype, device=k.device) - beta * k[..., :, None] * k[..., None, :]
        return torch.einsum("...hpn,...hnc->...hpc", size, reflection.abs())

    def _carried_size(self, size: Tensor, first: int) -> Tensor:
        """At most |E P| of errors |E| <= size before token `first`, under the transitions from there to the end.

        P is the plain decay less, for each token, what the decayed error has of its key, along that key carried on to the end.
        """
        terms, count = self.terms, self.terms.k.shape[-3]
        if first == count:
            return size
        since = torch.exp(terms.span[..., -1, first - 1, :, :]) if first else torch.exp(terms.total[..., -1, :, :])
        left = size * since[..., None, :]
        for i in range(first, count):
            since = torch.exp(terms.span[..., i, first - 1, :, :]) if first else torch.exp(terms.total[..., i, :, :])
            seen = terms.beta[..., i, :, None].abs() * _dot(size, (since * terms.k[..., i, :, :]).abs())
            left = left + seen[..., None] * terms.keys[..., i, :, :].abs()[..., None, :]
        return left

    def _gate_carried(self, j: int, gated: Tensor) -> Tensor:
        """What the error of token j's decays leaves at the end: of one sign where a head has one decay."""
        terms = self.terms
        state = terms.before[..., j, :, :, :]
        if gated.shape[-1] > 1:
            return self._carried_size(self._met(gated[..., None, :] * state.abs(), j), j + 1)
        k, beta = terms.k[..., j, :, :], terms.beta[..., j, :, None]
        met = state - (beta * _dot(state, k))[..., None] * k[..., None, :]
        return gated[..., None] * terms.carried(met, j + 1).abs()


def _dot(state: Tensor, x: Tensor) -> Tensor:
    """Every row of the state times x: [..., heads, head_dim]."""
    return torch.einsum("...hpn,...hn->...hp", state, x)


def _float64_error(terms: DeltaTerms) -> float:
    """Relative error of the float64 reference itself, give or take the size of its largest terms."""
    tokens, state_dim = terms.k.shape[-3], terms.k.shape[-1]
    return unit("fp64") * (state_dim + 4 * tokens + 24) * (tokens + 1)
