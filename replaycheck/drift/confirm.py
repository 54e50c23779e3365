"""Ends of exact trajectories, computed again in balls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .cells import Cell
from .drives import Drives, amplitude

__all__ = ["Confirmation", "confirm", "flint_here"]

_BITS = 128
_CHUNK = 1024


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """Of sampled elements: how many, and the worst error of float64 as a share of the bound that is claimed for it."""

    elements: int
    worst: float


def flint_here() -> bool:
    """Whether balls can be computed."""
    try:
        import flint  # noqa: F401
    except ImportError:
        return False
    return True


def confirm(cells: Sequence[Cell]) -> Confirmation:
    """The samples of cells of one policy and seed against the same sums in balls of 128 bits.

    Raises ValueError where the cells are of several policies or seeds, ImportError without python-flint.
    """
    from flint import arb, ctx

    if len({(cell.storage, cell.seed, cell.elements, cell.marks[-1].step) for cell in cells}) != 1:
        raise ValueError("cells must be of one policy, seed, size and horizon")
    first = cells[0]
    steps, count = first.marks[-1].step, len(first.samples)
    made = Drives([first.decay], ["zero-mean"], elements=first.elements, period=1, seed=first.seed, device="cpu")
    drawn: list[list[float]] = [[] for _ in range(count)]
    for at in range(0, steps, _CHUNK):
        noise = made.noise(min(_CHUNK, steps - at))[:, :count].T.tolist()
        for of_element, more in zip(drawn, noise, strict=True):
            of_element += more
    levels = made.level.flatten()[:count].tolist()
    worst, before = 0.0, ctx.prec
    ctx.prec = _BITS
    try:
        for cell in cells:
            for level, noise, got in zip(levels, drawn, cell.samples, strict=True):
                total = arb(level) if cell.drive == "decay-only" else arb(0)
                decay, size = arb(cell.decay), arb(amplitude(cell.drive, cell.decay)) * (arb(level) if cell.drive == "positive" else 1)
                for n in noise:
                    total = decay * total + size * arb(abs(n) if cell.drive == "positive" else n)
                ratio = float((abs(total - arb(got)) / arb(cell.marks[-1].bound)).upper())
                if not ratio >= 0:
                    raise ValueError(f"no bound of float64 to hold {cell.storage.label}, decay {cell.decay}, {cell.drive} to")
                worst = max(worst, ratio)
    finally:
        ctx.prec = before
    return Confirmation(elements=count * len(cells), worst=worst)
