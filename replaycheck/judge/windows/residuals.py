"""The guarantees "outputs" and "state": every element within its budget of the exact recurrence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from replaycheck.play.windows import Window
from replaycheck.verdict.measurement import Measurement
from replaycheck_reference.formats.arrays import unit

from .batches import Batch, Residual
from .diagnosis import diagnose_output, diagnose_state

__all__ = ["output_measurement", "state_measurement"]

_OUTPUT_BUDGET = "running error analysis of the claimed policy over the exact terms; error beyond the {} output's last rounding"
_STATE_BUDGET = "running error analysis of the claimed policy over the exact terms; error beyond the {} store's last rounding"


def output_measurement(judged: Sequence[Batch]) -> Measurement | None:
    """The worst output of all windows; None where there is none."""
    residuals = [b.outputs for b in judged]
    found = _worst(residuals)
    if found is None:
        return None
    batch, at = judged[found[0]], found[1]
    window, token, head, row = batch.windows[at[0]], at[1], at[2], at[3]
    place: dict[str, int | str] = {
        **_window_place(window, token), "ring position": token, "path": window.paths[token], "head": head, "row": row,
    }
    worst = _measurement("outputs", batch.outputs, at, place, _OUTPUT_BUDGET.format(batch.policy.output.format), residuals)
    return worst if worst.passed else replace(worst, diagnosis=diagnose_output(batch, at[0], token, head))


def state_measurement(judged: Sequence[Batch]) -> Measurement | None:
    """The worst published state element of all windows; None where nothing was published."""
    ended = [(b, b.end) for b in judged if b.end is not None]
    residuals = [end for _, end in ended]
    found = _worst(residuals)
    if found is None:
        return None
    (batch, end), at = ended[found[0]], found[1]
    window, head, row, column = batch.windows[at[0]], at[1], at[2], at[3]
    place: dict[str, int | str] = {
        **_window_place(window, len(window.steps) - 1), "path": window.paths[-1], "head": head, "row": row, "column": column,
    }
    worst = _measurement("state", end, at, place, _STATE_BUDGET.format(batch.policy.state.format), residuals)
    return worst if worst.passed else replace(worst, diagnosis=diagnose_state(batch, at[0], head))


def _window_place(window: Window, token: int) -> dict[str, int | str]:
    return {
        "request": window.request, "slot": window.slot, "layer": window.layer, "step": window.steps[token],
        "token": window.position + token,
    }


def _worst(residuals: Sequence[Residual]) -> tuple[int, tuple[int, ...]] | None:
    """Which residual, and where in it, has the largest ratio."""
    best: tuple[float, int, tuple[int, ...]] | None = None
    for index, residual in enumerate(residuals):
        ratio = residual.ratio()
        if ratio.numel() == 0:
            continue
        flat = int(ratio.argmax())
        value = float(ratio.flatten()[flat])
        if best is None or value > best[0]:
            best = value, index, tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), ratio.shape))
    return None if best is None else best[1:]


def _measurement(
    guarantee: str, residual: Residual, at: tuple[int, ...], place: dict[str, int | str], derivation: str, residuals: Sequence[Residual]
) -> Measurement:
    budget = float(residual.budget[at])
    value = float(residual.excess[at]) if math.isfinite(budget) else math.inf
    facts = {
        "elements": sum(r.seen.numel() for r in residuals), "error": float(residual.error[at]),
        "last rounding": float(residual.rounding[at]),
        "over budget": sum(int((r.ratio() > 1).sum()) for r in residuals),
        "implied bits": _significand(residuals),
    }
    return Measurement(
        guarantee=guarantee, value=value, budget=budget, derivation=derivation, place=place,
        got=float(residual.seen[at]), exact=float(residual.exact[at]), facts=facts,
    )


def _significand(residuals: Sequence[Residual]) -> float | None:
    """Significand bits that the residual looks like: a rounding to p bits leaves 0.42 * 2^-p of the root mean square."""
    error: Tensor = torch.cat([r.error.flatten() for r in residuals])
    exact = torch.cat([r.exact.flatten() for r in residuals])
    finite = torch.isfinite(error) & torch.isfinite(exact)
    size = float((exact[finite] ** 2).mean().sqrt()) if bool(finite.any()) else 0.0
    rms = float((error[finite] ** 2).mean().sqrt()) if size else 0.0
    if not rms or not size:
        return None
    return round(min(-math.log2(rms / size / 0.42), -math.log2(unit("fp64"))), 1)
