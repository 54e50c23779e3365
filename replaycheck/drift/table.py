"""Tables of drift in text."""

from __future__ import annotations

from collections.abc import Sequence

from .cells import half_life
from .grid import Band

__all__ = ["markdown", "table"]

_HEADS = ("format", "rounding", "L", "drive", "half-life", "state error", "band", "bias", "spread", "output error", "frozen")


def _rows(found: Sequence[Band]) -> list[tuple[str, ...]]:
    """One a band, at its last mark; errors over the scale of the state."""
    rows: list[tuple[str, ...]] = []
    for band in found:
        cell = band.first
        low, mean, high = band.of(lambda c: c.marks[-1].relative)
        bias = band.of(lambda c: c.marks[-1].bias / c.marks[-1].scale)[1]
        spread = band.of(lambda c: c.marks[-1].spread / c.marks[-1].scale)[1]
        output = band.of(lambda c: c.marks[-1].output_relative)[1]
        frozen = band.of(lambda c: c.marks[-1].frozen)[1]
        rows.append((cell.storage.format, cell.storage.rounding, str(cell.storage.period), cell.drive, f"{half_life(cell.decay):.3g}",
                     f"{mean:.2e}", f"{low:.1e} .. {high:.1e}" if len(band.cells) > 1 else "", f"{bias:+.1e}", f"{spread:.1e}",
                     f"{output:.2e}", f"{frozen:.0%}"))
    return rows


def table(found: Sequence[Band]) -> list[str]:
    """Lines of a table for a terminal."""
    rows = [_HEADS, *_rows(found)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADS))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def markdown(found: Sequence[Band]) -> str:
    """The same as a table of Markdown."""
    lines = [_HEADS, ("---",) * len(_HEADS), *_rows(found)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
