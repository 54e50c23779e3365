"""The drift of one storage policy: stored beside exact trajectories of many elements, cells of decays and drives side by side.

    S_t = a S_(t-1) + d_t, rounded after every period;  X_t the same without rounding;  all else in float64

Tokens between two stores are summed up with their decays first, which rounds nothing that is stored.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import torch
from torch import Tensor

from .cells import Cell, Mark
from .drives import DRIVES, Drives, generator
from .storage import ROW, Storage, store

__all__ = ["check", "marks_of", "simulate"]

_CHUNK = 256            # tokens drawn at once
_READS = 16             # vectors that outputs are read with
_SAMPLES = 2            # elements whose exact end is kept


def marks_of(steps: int, period: int) -> list[int]:
    """Steps at which errors are taken: doublings from 64, and the last, all right after a store."""
    wanted = [64 << k for k in range(40) if 64 << k < steps] + [steps]
    return sorted({max(step // period, 1) * period for step in wanted})


def check(decays: Sequence[float], drives: Sequence[str], elements: int, steps: int, period: int) -> None:
    """Raises ValueError naming the thing and the value where a run cannot be."""
    for decay in decays:
        if not 0 < decay < 1:
            raise ValueError(f"decay must be between 0 and 1, got {decay}")
    for drive in drives:
        if drive not in DRIVES:
            raise ValueError(f"drive must be one of {', '.join(DRIVES)}, got {drive!r}")
    if elements < ROW or elements % ROW:
        raise ValueError(f"elements must be a multiple of {ROW}, got {elements}")
    if steps < period:
        raise ValueError(f"steps must be at least the period {period}, got {steps}")


def simulate(
    storage: Storage, *, decays: Sequence[float], drives: Sequence[str], elements: int, steps: int, seed: int, device: str = "cpu",
) -> list[Cell]:
    """The cells of one policy, decay by decay and drive by drive. elements: of each cell, a multiple of ROW.

    Tokens have the same bits for every policy with the same seed. Raises ValueError as `check` does.
    """
    check(decays, drives, elements, steps, storage.period)
    made = Drives(decays, drives, elements=elements, period=storage.period, seed=seed, device=device)
    random = generator(seed, 1 + zlib.crc32(storage.label.encode()) % (1 << 23), device)
    C = torch.randn(_READS, ROW, dtype=torch.float64, device=device, generator=generator(seed, 1 << 23, device)) / ROW**0.5
    stored, exact = made.start(), made.start()
    kept = (torch.tensor(decays, dtype=torch.float64, device=device) ** storage.period)[:, None, None, None]
    wanted, found, done, before = marks_of(steps, storage.period), [], 0, stored
    stores = max(_CHUNK // storage.period, 1)
    while done < wanted[-1]:
        for arrived in made.arrivals(stores):
            exact = torch.addcmul(arrived, kept, exact)
            before, stored = stored, store(torch.addcmul(arrived, kept, stored), storage, _dither(storage, stored, random))
            done += storage.period
            if done in wanted:
                found.append(_marked(done, before, stored, exact, C, made))
            if done == wanted[-1]:
                break
    return [Cell(storage=storage, decay=decay, drive=drive, seed=seed, elements=elements, marks=tuple(at[i][j] for at in found),
                 samples=tuple(exact[i, j].flatten()[:_SAMPLES].tolist()))
            for i, decay in enumerate(decays) for j, drive in enumerate(drives)]


def _dither(storage: Storage, like: Tensor, random: torch.Generator) -> Tensor | None:
    if storage.rounding != "stochastic":
        return None
    return torch.rand(like.shape, dtype=torch.float32, device=like.device, generator=random)


def _marked(step: int, before: Tensor, stored: Tensor, exact: Tensor, C: Tensor, made: Drives) -> list[list[Mark]]:
    """Marks by decay and drive."""
    error = stored - exact
    moved = (stored != before).to(torch.float64)
    numbers = torch.stack([_rms(exact), _rms(error), (error * exact.sign()).mean((-2, -1)), _rms(exact @ C.T), _rms(error @ C.T),
                           1 - moved.mean((-2, -1))], -1).tolist()
    start = float(_rms(made.level))
    return [[Mark(step=step, state=state, scale=start if drive == "decay-only" else state, error=err, bias=bias, output=output,
                  output_error=wrong, frozen=frozen, bound=made.bound(drive, decay, step))
             for drive, (state, err, bias, output, wrong, frozen) in zip(made.drives, of_decay, strict=True)]
            for decay, of_decay in zip(made.decays, numbers, strict=True)]


def _rms(values: Tensor) -> Tensor:
    return values.square().mean((-2, -1)).sqrt()
