"""Windows of one shape, judged together: exact values, budgets and what the kernel gave, as stacked tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from replaycheck.play.windows import Window
from replaycheck_reference.formats.arrays import format_name, max_finite
from replaycheck_reference.gauge.functions import FunctionTable
from replaycheck_reference.gauge.units import storage_error
from replaycheck_reference.layer import Layer, Tokens
from replaycheck_reference.policy import Policy, Storage
from replaycheck_reference.recurrence import Bound, Terms, recurrence_of

__all__ = ["Batch", "Residual", "batches", "under"]

#: State elements judged at once: bounds memory, not results.
_ELEMENTS = 1 << 21


@dataclass(frozen=True, kw_only=True)
class Residual:
    """What was seen against what is exact: |seen - exact| <= budget + rounding.

    budget: error allowed to what was computed. rounding: what the last rounding, into the stored format, may add.
    excess: |seen - exact| less the last rounding, at least zero: what is held to the budget, so that a narrow format hides nothing.
    """

    seen: Tensor
    exact: Tensor
    budget: Tensor
    rounding: Tensor
    excess: Tensor

    @property
    def error(self) -> Tensor:
        return (self.seen - self.exact).abs()

    def ratio(self) -> Tensor:
        """excess / budget; inf where what was seen is not finite and should be, and where the budget has no end."""
        ratio = torch.where(self.excess == 0, 0.0, self.excess / self.budget)
        return torch.where(torch.isnan(ratio) | ~torch.isfinite(self.budget), torch.inf, ratio)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Windows of one layer, length and path sequence, with their terms and budgets. end is None where no state was published."""

    windows: tuple[Window, ...]
    layer: Layer
    policy: Policy
    terms: Terms
    bound: Bound
    outputs: Residual
    end: Residual | None

    @property
    def paths(self) -> tuple[str, ...]:
        return self.windows[0].paths


def batches(
    windows: Sequence[Window], layers: Mapping[int, Layer] | Sequence[Layer], policy: Policy, table: FunctionTable
) -> Iterator[Batch]:
    """The windows grouped by layer, paths and whether they end in a publication, a bounded number of elements at a time."""
    groups: dict[tuple[int, tuple[str, ...], bool], list[Window]] = {}
    for window in windows:
        if window.paths:
            groups.setdefault((window.layer, window.paths, window.end is not None), []).append(window)
    for (index, paths, _), members in groups.items():
        layer = layers[index]
        elements = layer.heads * layer.head_dim * layer.state_dim * (len(paths) + 2)
        room = max(1, _ELEMENTS // elements)
        for first in range(0, len(members), room):
            yield _batch(tuple(members[first : first + room]), layer, policy, table)


def _batch(windows: tuple[Window, ...], layer: Layer, policy: Policy, table: FunctionTable) -> Batch:
    start = torch.stack([w.start for w in windows])
    tokens = _stack([w.tokens for w in windows])
    recurrence = recurrence_of(layer)
    terms = recurrence.decompose(layer, start, tokens)
    budget = recurrence.bound(layer, terms, policy, windows[0].paths, table, activation=format_name(tokens.dtype))
    seen = torch.stack([w.outputs for w in windows])
    outputs = _residual(seen, terms.outputs(), budget.outputs, policy, "output")
    ends = [w.end for w in windows if w.end is not None]
    end = _residual(torch.stack(ends), terms.end(), budget.end, policy, "state") if ends else None
    return Batch(windows=windows, layer=layer, policy=policy, terms=terms, bound=budget, outputs=outputs, end=end)


def under(batch: Batch, policy: Policy, table: FunctionTable) -> Batch:
    """The same windows held to another policy, whose state and output formats are those of the windows."""
    bound = recurrence_of(batch.layer).bound
    budget = bound(batch.layer, batch.terms, policy, batch.paths, table, activation=format_name(batch.windows[0].tokens.dtype))
    outputs = _held(batch.outputs.seen, batch.outputs.exact, budget.outputs, policy.output)
    end = None if batch.end is None else _held(batch.end.seen, batch.end.exact, budget.end, policy.state)
    return replace(batch, policy=policy, bound=budget, outputs=outputs, end=end)


def _stack(parts: list[Tokens]) -> Tokens:
    stacked = {name: torch.stack([part.tensors()[name] for part in parts]) for name in parts[0].tensors()}
    return replace(parts[0], **stacked)  # type: ignore[arg-type]


def _residual(seen: Tensor, exact: Tensor, budget: Tensor, policy: Policy, which: str) -> Residual:
    return _held(seen.to(torch.float64), exact, budget, policy.output if which == "output" else policy.state)


def _held(got: Tensor, exact: Tensor, budget: Tensor, storage: Storage) -> Residual:
    rounding = storage_error(exact, budget, storage)
    excess = ((got - exact).abs() - rounding).clamp(min=0)
    # a value that may round beyond the largest finite one may overflow as the policy says
    beyond = exact.abs() + budget + rounding >= max_finite(storage.format)
    overflowed = beyond & (got == torch.copysign(torch.full_like(got, _overflow(storage.format, storage.overflow)), exact))
    return Residual(seen=got, exact=exact, budget=budget, rounding=rounding, excess=torch.where(overflowed, 0.0, excess))


def _overflow(fmt: str, overflow: str) -> float:
    return max_finite(fmt) if overflow == "saturate" else float("inf")
