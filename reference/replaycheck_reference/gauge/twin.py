"""The random-rounding twin: a window evaluated in float64 with every declared rounding replaced by its largest size, either way.

It stays within a valid budget and comes near a tight one. Sums run from the first term to the last, which the order "any" allows.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..formats.arrays import unit
from ..layer import Mamba2Layer
from ..policy import Path, Policy
from ..recurrences.batched.mamba2 import Mamba2Terms, limited
from .functions import FP32_UNIT, FunctionTable
from .units import accumulator_unit, product_error

__all__ = ["Signs", "Twin", "independent_signs", "site_signs"]

#: Signs of the roundings at a named site: (site, like) -> tensor of +1 and -1 of the shape of `like`.
Signs = Callable[[str, Tensor], Tensor]


def independent_signs(generator: torch.Generator) -> Signs:
    """Every rounding its own sign."""
    return lambda site, like: (2 * torch.randint(0, 2, like.shape, generator=generator) - 1).to(like.dtype)


def site_signs(generator: torch.Generator) -> Signs:
    """One sign for all roundings at a site: the coherent errors that budgets must allow for."""
    drawn: dict[str, float] = {}

    def signs(site: str, like: Tensor) -> Tensor:
        if site not in drawn:
            drawn[site] = float(2 * torch.randint(0, 2, (), generator=generator) - 1)
        return torch.full_like(like, drawn[site])

    return signs


class Twin:
    """One window of a layer under a policy. terms: of one window, no batch dims."""

    def __init__(
        self, layer: Mamba2Layer, terms: Mamba2Terms, policy: Policy, table: FunctionTable, signs: Signs, *, activation: str
    ) -> None:
        self.layer, self.terms, self.policy, self.table, self.signs, self.activation = layer, terms, policy, table, signs, activation
        self.dt = self._dt()

    def _rounded(self, site: str, value: Tensor, size: float | Tensor) -> Tensor:
        return value * (1 + size * self.signs(site, value))

    def _dt(self) -> Tensor:
        return limited(self.layer, self._free_dt())

    def _free_dt(self) -> Tensor:
        raw = self.terms.raw
        if self.layer.dt_bias is not None:
            raw = self._rounded("bias", raw, unit(self.policy.gate))
        if not self.layer.variant.softplus:
            return raw
        dt = torch.clamp(raw, min=0) + torch.log1p(torch.exp(-raw.abs()))
        if self.policy.softplus.form == "naive":
            return dt + self.table.error("softplus_naive", raw) * (1 + dt) * self.signs("softplus", dt)
        return self._rounded("softplus", dt, self.policy.softplus.units * FP32_UNIT)

    def _decay(self, exponent: Tensor) -> Tensor:
        return self._rounded("exp", torch.exp(exponent), self.table.error(self.policy.exponential, exponent))

    def _exponent(self, dt: Tensor) -> Tensor:
        return self._rounded("rate", self.terms.rate * dt, unit(self.policy.gate))

    def weights(self, token: int, path: Path) -> tuple[Tensor, Tensor]:
        """Decay of the start state [heads] and weights of tokens 0..token [tokens, heads] as the path evaluates them."""
        decays = _WEIGHTS[path.weights](self, self.dt[: token + 1], path)
        return decays[0], decays[1:] * self.dt[: token + 1]

    def _product_decays(self, dt: Tensor, path: Path) -> Tensor:
        one = self._decay(self._exponent(dt))
        running = [torch.ones_like(one[0])]
        for index in range(len(dt) - 1, -1, -1):
            running.append(self._rounded("running", running[-1] * one[index], accumulator_unit(path.accumulator)))
        return torch.stack(running[::-1])

    def _sum_decays(self, dt: Tensor, path: Path) -> Tensor:
        size = unit(self.policy.gate)
        running = [torch.zeros_like(dt[0]), dt[-1]]
        for index in range(len(dt) - 2, -1, -1):
            running.append(self._rounded("since", running[-1] + dt[index], size))
        since = torch.stack(running[::-1])
        return torch.cat([self._decay(self._exponent(since[:-1])), torch.ones_like(since[-1:])])

    def _difference_decays(self, dt: Tensor, path: Path) -> Tensor:
        size = unit(self.policy.gate)
        one = self._exponent(dt)
        prefix = [torch.zeros_like(one[0]), one[0]]
        for index in range(1, len(dt)):
            prefix.append(self._rounded("prefix", prefix[-1] + one[index], size))
        now = prefix[-1]
        apart = [self._rounded("apart", now - then, size) for then in prefix[1:-1]]
        decays = [self._decay(now), *[self._decay(a) for a in apart], torch.ones_like(now)]
        return torch.stack(decays)

    def _sum(self, site: str, terms: list[Tensor], path: Path) -> Tensor:
        total = terms[0]
        for term in terms[1:]:
            total = self._rounded(site, total + term, accumulator_unit(path.accumulator))
        return total

    def _product(self, site: str, computed: Tensor, given: Tensor, method: str) -> Tensor:
        return self._rounded(site, computed * given, product_error(method, given=self.activation).relative)

    def state(self, token: int, path: Path) -> Tensor:
        """The unrounded state after `token`: [heads, head_dim, state_dim]."""
        decay, weights = self.weights(token, path)
        fp32 = unit("fp32")
        terms = [self._rounded("decayed", decay[:, None, None] * self.terms.start, fp32)]
        for index in range(token + 1):
            row = self._rounded("weighted", weights[index][:, None] * self.terms.x[index], fp32)
            terms.append(self._product("token", row[:, :, None], self.terms.B[index][:, None, :], path.token))
        return self._sum("state", terms, path)

    def output(self, token: int, path: Path) -> Tensor:
        """The output of `token` before the z gate and the last rounding: [heads, head_dim]."""
        main = self._read(token, path) if path.output == "state" else self._scores(token, path)
        if self.layer.D is None:
            return main
        skip = self._rounded("skip", self.terms.skip[token], unit("fp32"))
        return self._sum("skipped", [main, skip], path)

    def _readout(self, site: str, state: Tensor, token: int, path: Path) -> Tensor:
        products = self._product(site, state, self.terms.C[token][:, None, :], path.readout)
        return self._sum(site + " sum", list(products.unbind(-1)), path)

    def _read(self, token: int, path: Path) -> Tensor:
        return self._readout("readout", self.state(token, path), token, path)

    def _scores(self, token: int, path: Path) -> Tensor:
        decay, weights = self.weights(token, path)
        fp32 = unit("fp32")
        terms = [self._rounded("decayed", decay[:, None] * self._readout("readout", self.terms.start, token, path), fp32)]
        for index in range(token + 1):
            products = self._product("score", self.terms.B[index], self.terms.C[token], path.score)
            score = self._rounded("weighted", weights[index] * self._sum("score sum", list(products.unbind(-1)), path), fp32)
            terms.append(self._product("value", score[:, None], self.terms.x[index], path.value))
        return self._sum("output", terms, path)


_WEIGHTS = {"product": Twin._product_decays, "sum": Twin._sum_decays, "difference": Twin._difference_decays}
