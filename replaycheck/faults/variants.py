"""Right kernels that differ in bits from the base: each evaluates the same mathematics another way and says so in its own policy."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from replaycheck.contract.session import PAD
from replaycheck_reference.layer import Mamba2Tokens
from replaycheck_reference.policy import Policy, Softplus

from .base import REPLAY, STEP
from .evaluation import Evaluation
from .host import HostKernel, ReplaySession
from .rounding import tf32x3

__all__ = ["VARIANTS", "NaiveSoftplus", "SplitSums", "Tf32x3", "Variant"]


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A right kernel, the base it differs from in bits, and how it differs in one line."""

    name: str
    kernel: HostKernel
    base: HostKernel
    story: str


class SplitSums(Evaluation):
    """Sums over blocks of four terms, each a tree, the blocks one after the other."""

    def total(self, terms: Tensor) -> Tensor:
        result = super().total(terms[..., :4])
        for first in range(4, terms.shape[-1], 4):
            result = result + super().total(terms[..., first : first + 4])
        return result


class Sequential(Evaluation):
    """Sums from the first term to the last."""

    def total(self, terms: Tensor) -> Tensor:
        result = terms[..., 0]
        for place in range(1, terms.shape[-1]):
            result = result + terms[..., place]
        return result


class Compensated(Evaluation):
    """Sums that carry the rounding error of every addition along and add it at the end (Neumaier)."""

    def total(self, terms: Tensor) -> Tensor:
        result, lost = terms[..., 0], torch.zeros_like(terms[..., 0])
        for place in range(1, terms.shape[-1]):
            term = terms[..., place]
            grown = result + term
            larger = result.abs() >= term.abs()
            lost = lost + torch.where(larger, (result - grown) + term, (term - grown) + result)
            result = grown
        return result + lost


class RunningProduct(Evaluation):
    """Decays of older rows as a product of token decays, taken backward from the newest row."""

    def decays(self, rate: Tensor, dt: Tensor) -> tuple[Tensor, Tensor]:
        step = self.decay(rate * dt)
        rows, passed = torch.empty_like(dt), torch.ones_like(dt[0])
        for row in range(dt.shape[0] - 1, -1, -1):
            rows[row] = passed
            passed = passed * step[row]
        return passed, rows


class LogSpace(Evaluation):
    """Decays of older rows as exp(prefix now - prefix then), prefixes of A dt since the checkpoint."""

    def decays(self, rate: Tensor, dt: Tensor) -> tuple[Tensor, Tensor]:
        exponents = rate * dt
        prefix, grown = torch.empty_like(dt), torch.zeros_like(dt[0])
        for row in range(dt.shape[0]):
            grown = grown + exponents[row]
            prefix[row] = grown
        return self.decay(grown), self.decay(grown - prefix)


class Tf32x3(Evaluation):
    """Every product of the state as three tf32 products."""

    def token_product(self, left: Tensor, right: Tensor) -> Tensor:
        return tf32x3(left, right)

    def readout_product(self, state: Tensor, C: Tensor) -> Tensor:
        return tf32x3(state, C)

    def score_product(self, B: Tensor, C: Tensor) -> Tensor:
        return tf32x3(B, C)

    def value_product(self, score: Tensor, x: Tensor) -> Tensor:
        return tf32x3(score, x)


class Double(Evaluation):
    """fp64 inside; only the ring and what is stored are narrow."""

    number = torch.float64


class NaiveSoftplus(Evaluation):
    """softplus as log(1 + e^x), both rounded."""

    def softplus(self, raw: Tensor) -> Tensor:
        grown = torch.from_numpy(np.log((1 + self.exponential(raw.clamp(max=20))).numpy()))
        return torch.where(raw > 20, raw, grown)


class BaseTwo(Evaluation):
    """Decays as 2^(exponent log2 e)."""

    def decay(self, exponent: Tensor) -> Tensor:
        return torch.from_numpy(np.exp2((exponent * math.log2(math.e)).numpy()))


class Fused(Evaluation):
    """Multiply and add in one rounding wherever a sum takes a product."""

    def step(self, state: Tensor, decay: Tensor, dt: Tensor, x: Tensor, B: Tensor) -> Tensor:
        token = (dt[:, None] * x)[:, :, None].double() * B[:, None, :].double()
        return (state * decay[:, None, None] + token).float()

    def read(self, state: Tensor, C: Tensor) -> Tensor:
        result = torch.zeros_like(state[..., 0])
        for column in range(state.shape[-1]):
            result = (result.double() + state[..., column].double() * C[:, None, column].double()).float()
        return result


class RebuildsState(ReplaySession):
    """Ordinary steps rebuild the state in registers and read it, as flush steps do."""

    def ordinary(self, layer: int, slot: int, live: Tensor, C: Tensor) -> Tensor:
        e = self.evaluation
        x, B, dt = self.ring(layer, slot, live)
        return e.read(e.fold(self.load(layer, slot), *e.weights(e.decay_rate(self.layers[layer]), dt), x, B), C)


class FoldsBefore(ReplaySession):
    """A step that finds the ring full folds it into the state first, and only then takes its own token, as the first of a new window."""

    def held(self, slot: int, step: int) -> int:
        """Ring rows in use when the row's token number `step` comes."""
        taken = int(self.filled[slot]) + step
        return taken if taken <= self.capacity else (taken - 1) % self.capacity + 1

    def token(self, layer: int, slot: int, step: int, token: Mamba2Tokens) -> Tensor:
        e, geometry = self.evaluation, self.layers[layer]
        rate, held, state = e.decay_rate(geometry), self.held(slot, step), self.load(layer, slot)
        folds = held == self.capacity
        if folds:
            x, B, dt = self.ring(layer, slot, self.live(held - 1))
            state = self.kept(layer, slot, e.fold(state, *e.weights(rate, dt), x, B))
            held = 0
        self.append(layer, slot, held, token, e.dt(geometry, token.dt[0]))
        x, B, dt = self.ring(layer, slot, self.live(held))
        C = token.C[0].to(e.number)[e.group_of_head(geometry)]
        return self.close(geometry, e.output_only(state, *e.weights(rate, dt), x, B, C), token, folds=folds)

    def kept(self, layer: int, slot: int, state: Tensor) -> Tensor:
        """What a flush step reads of the state that it stores."""
        self.store(layer, slot, state)
        return state

    def advance(self, slot: int, length: int) -> None:
        if slot != PAD:
            held = self.held(slot, length)
            self.folded[slot] += int(self.filled[slot]) + length - held
            self.filled[slot] = held


class FoldsBeforeAndLoads(FoldsBefore):
    """As FoldsBefore, but the flush step reads the state back as it was stored."""

    def kept(self, layer: int, slot: int, state: Tensor) -> Tensor:
        super().kept(layer, slot, state)
        return self.load(layer, slot)


def _variant(name: str, base: HostKernel, story: str, *, paths: dict[str, Any] | None = None, flush: dict[str, Any] | None = None,
             policy: dict[str, Any] | None = None, **parts: Any) -> Variant:
    """A variant of `base` whose policy differs in `policy`, in `paths` on every path, and in `flush` on that one."""
    stated = base.claims.policy
    own = {"flush": flush or {}}
    changed: Policy = replace(stated, paths={p: replace(path, **{**(paths or {}), **own.get(p, {})}) for p, path in stated.paths.items()},
                              **(policy or {}))
    claims = replace(base.claims, name=name, policy=changed)
    return Variant(name=name, kernel=replace(base, claims=claims, **parts), base=base, story=story)


_PRODUCTS = ("token", "readout", "score", "value")
_TF32X3 = dict.fromkeys(_PRODUCTS, "tf32x3")
_FP64 = {**dict.fromkeys(_PRODUCTS, "fp64"), "accumulator": "fp64"}

#: Right variants by name. None may be flagged.
VARIANTS: dict[str, Variant] = {v.name: v for v in (
    _variant("split-of-N", REPLAY, "sums over the state dim in blocks", paths={"order": "any"}, evaluation=SplitSums),
    _variant("sequential-sums", REPLAY, "sums from first to last", paths={"order": "any"}, evaluation=Sequential),
    _variant("compensated-sums", REPLAY, "sums that carry their rounding errors", paths={"order": "any"}, evaluation=Compensated),
    _variant("running-product", REPLAY, "weights as a backward running product of decays", paths={"weights": "product"},
             evaluation=RunningProduct),
    _variant("log-space-ring", REPLAY, "weights from differences of cumulative log decays", paths={"weights": "difference"},
             evaluation=LogSpace),
    _variant("tf32x3", REPLAY, "products as three tf32 products", paths=_TF32X3, evaluation=Tf32x3),
    _variant("fp64-inside", REPLAY, "fp64 arithmetic over fp32 storage", paths=_FP64, policy={"gate": "fp64", "decay": "fp64"},
             evaluation=Double),
    _variant("naive-softplus", REPLAY, "softplus as log(1 + e^x)", policy={"softplus": Softplus(form="naive")}, evaluation=NaiveSoftplus),
    _variant("base-two", REPLAY, "exponentials in base two", policy={"exponential": "exp2"}, evaluation=BaseTwo),
    _variant("rebuilds-state", REPLAY, "ordinary steps read a rebuilt state", paths={"output": "state"}, session=RebuildsState),
    _variant("folds-before", REPLAY, "a full ring, of cumulative log decays, is folded before the current token is taken",
             paths={"weights": "difference"}, flush={"output": "scores", "folds": "before"}, evaluation=LogSpace, session=FoldsBefore),
    _variant("folds-before-and-loads", REPLAY, "the same, and the flush step reads what it stored", paths={"weights": "difference"},
             flush={"output": "scores", "folds": "before", "reads": "stored"}, evaluation=LogSpace, session=FoldsBeforeAndLoads),
    _variant("fused-step", STEP, "the plain step with fused multiply-add", paths={"order": "any"}, evaluation=Fused),
)}
