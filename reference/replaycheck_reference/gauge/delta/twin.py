"""The random-rounding twin of the delta rules: a window evaluated in float64 with every declared rounding at its largest, either way."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...formats.arrays import unit
from ...layer import DeltaLayer
from ...policy import Path, Policy
from ...recurrences.batched.delta import DeltaTerms
from ..functions import FunctionTable
from ..gates import function_error
from ..twin import Signs
from ..units import accumulator_unit, product_error
from .gates import delta_errors, held_unit, log_decay_error

__all__ = ["DeltaTwin"]


class DeltaTwin:
    """One window of a layer under a policy, token after token as its paths say. terms: of one window, no batch dims.

    What inputs become is taken at the largest error of `gates`; everything after it is evaluated.
    """

    def __init__(
        self, layer: DeltaLayer, terms: DeltaTerms, policy: Policy, table: FunctionTable, signs: Signs, paths: Sequence[str], *,
        activation: str,
    ) -> None:
        self.terms, self.policy, self.table, self.signs, self.paths = terms, policy, table, signs, paths
        self.given = policy.key if held_unit(policy.key) else "fp32" if layer.variant.norm != "off" else activation
        errors = delta_errors(layer, terms, policy, policy.paths[paths[0]], table)
        inherited = log_decay_error(layer, terms, policy, policy.paths[paths[0]], table)
        self.logs = terms.log_decay + inherited * self.signs("log decay", inherited)
        self.beta = self._rounded("beta", terms.beta, errors.beta)
        key = self._rounded("key norm", terms.k, torch.nan_to_num(errors.key_norm, posinf=0.0)[..., None])
        query = self._rounded("query norm", terms.q, torch.nan_to_num(errors.query_norm, posinf=0.0)[..., None])
        self.k, self.q = self._rounded("key", key, errors.key), self._rounded("query", query, errors.query)
        self.state, self.ring = terms.start, list[tuple[Tensor, Tensor]]()

    def _rounded(self, site: str, value: Tensor, size: float | Tensor) -> Tensor:
        return value * (1 + size * self.signs(site, value))

    def outputs(self) -> Tensor:
        """Outputs before the last rounding, [tokens, heads, head_dim]; afterwards `end` is the state."""
        return torch.stack([self._token(m, name, self.policy.paths[name]) for m, name in enumerate(self.paths)])

    def end(self) -> Tensor:
        """The unrounded state after the last token: [heads, head_dim, state_dim]."""
        path = self.policy.paths[self.paths[-1]]
        return self.state if self.paths[-1] == "step" else self._rebuilt(len(self.ring) - 1, self.ring, path)

    def _token(self, m: int, name: str, path: Path) -> Tensor:
        fp32, k, q = unit("fp32"), self.k[m], self.q[m]
        by_scores = path.output == "scores" and name != "step"
        if name == "step":
            before = self._rounded("decayed", self.state * self._one(m)[:, None, :], fp32)
        else:
            before = self._rebuilt(m, self.ring, path)
        predicted = self._scores(m, k, path, path.predict) if by_scores else self._dot("predicted", before, k, path, path.predict)
        apart = self._rounded("apart", self.terms.v[m] - predicted, fp32)
        delta = self._rounded("delta", self.beta[m][:, None] * apart, fp32)
        if by_scores:
            read = self._scores(m, q, path, path.readout)
            score = self._sum("score", list((self._product("own", k, q, path.score)).unbind(-1)), path)
            output = self._sum("output", [read, self._product("own value", delta, score[:, None], path.value)], path)
        else:
            after = self._sum("after", [before, self._product("token", delta[:, :, None], k[:, None, :], path.token)], path)
            output = self._dot("readout", after, q, path, path.readout)
        if name == "step":
            self.state = after
        held = (held_unit(self.policy.ring_delta), held_unit(self.policy.ring_key)) if name == "output" else (0.0, 0.0)
        self.ring.append((self._rounded("ring delta", delta, held[0]), self._rounded("ring key", k, held[1])))
        return output

    def _exp(self, exponent: Tensor) -> Tensor:
        return self._rounded("exp", torch.exp(exponent), function_error(self.policy, self.table, exponent))

    def _one(self, token: int) -> Tensor:
        return self._exp(self._rounded("rate", self.logs[token], unit(self.policy.gate)))

    def _decay(self, m: int, first: int) -> Tensor:
        """Decay from before token `first` to token m, as the path evaluates it."""
        path = self.policy.paths[self.paths[m]]
        return _DECAYS[path.weights](self, m, first, path) if first <= m else torch.ones_like(self.logs[0])

    def _product_decay(self, m: int, first: int, path: Path) -> Tensor:
        running = self._one(first)
        for index in range(first + 1, m + 1):
            running = self._rounded("running", running * self._one(index), accumulator_unit(path.accumulator))
        return running

    def _sum_decay(self, m: int, first: int, path: Path) -> Tensor:
        since = self.logs[m]
        for index in range(m - 1, first - 1, -1):
            since = self._rounded("since", since + self.logs[index], unit(self.policy.gate))
        return self._exp(since)

    def _difference_decay(self, m: int, first: int, path: Path) -> Tensor:
        size = unit(self.policy.gate)
        prefix = [self.logs[0]]
        for index in range(1, m + 1):
            prefix.append(self._rounded("prefix", prefix[-1] + self.logs[index], size))
        return self._exp(prefix[m] if first == 0 else self._rounded("apart", prefix[m] - prefix[first - 1], size))

    def _rebuilt(self, m: int, ring: list[tuple[Tensor, Tensor]], path: Path) -> Tensor:
        fp32 = unit("fp32")
        terms = [self._rounded("decayed", self._decay(m, 0)[:, None, :] * self.terms.start, fp32)]
        for j, (delta, key) in enumerate(ring):
            weighted = self._rounded("weighted", self._decay(m, j + 1) * key, fp32)
            terms.append(self._product("token", delta[:, :, None], weighted[:, None, :], path.token))
        return self._sum("rebuilt", terms, path)

    def _scores(self, m: int, x: Tensor, path: Path, method: str) -> Tensor:
        """What reading the rebuilt state with x gives, from scores."""
        fp32 = unit("fp32")
        reach = self._rounded("reach", self._decay(m, 0) * x, fp32)
        terms = [self._dot("readout", self.terms.start, reach, path, method)]
        for j, (delta, key) in enumerate(self.ring):
            weighted = self._rounded("weighted", self._decay(m, j + 1) * key, fp32)
            score = self._sum("score", list(self._product("score", weighted, x, path.score).unbind(-1)), path)
            terms.append(self._product("value", score[:, None], delta, path.value))
        return self._sum("output", terms, path)

    def _dot(self, site: str, state: Tensor, x: Tensor, path: Path, method: str) -> Tensor:
        return self._sum(site + " sum", list(self._product(site, state, x[:, None, :], method).unbind(-1)), path)

    def _product(self, site: str, computed: Tensor, given: Tensor, method: str) -> Tensor:
        return self._rounded(site, computed * given, product_error(method, given=self.given).relative)

    def _sum(self, site: str, terms: list[Tensor], path: Path) -> Tensor:
        total = terms[0]
        for term in terms[1:]:
            total = self._rounded(site, total + term, accumulator_unit(path.accumulator))
        return total


_DECAYS = {"product": DeltaTwin._product_decay, "sum": DeltaTwin._sum_decay, "difference": DeltaTwin._difference_decay}
