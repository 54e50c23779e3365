"""The figures of the page, as SVG text drawn by matplotlib from the report document."""

from __future__ import annotations

import io
import re
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

__all__ = ["coverage_figure", "ratio_figure"]

_INK, _GOOD, _BAD, _FLUSH, _FAINT = "#1d2733", "#2f7d4f", "#b3261e", "#2b5c8a", "#d9dee5"
#: Cells between two capacities of the coverage figure, and the least width of one.
_GAP, _NARROWEST = 1, 2
#: Ratios outside of this range are drawn at its ends, and said to be.
_SMALLEST, _LARGEST = 1e-4, 1e9
_STYLE: Any = {"font.family": "sans-serif", "font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "replaycheck", "text.color": _INK,
          "axes.edgecolor": "#9aa5b1", "axes.labelcolor": _INK, "xtick.color": _INK, "ytick.color": _INK}


def _number(value: Any) -> float:
    return float(value)


def _svg(figure: Figure, title: str) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight", transparent=True)
    text = buffer.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg"):], flags=re.DOTALL)
    return re.sub(r"<svg ", f'<svg role="img" aria-label="{title}" ', text, count=1)


def ratio_figure(table: list[dict[str, Any]]) -> str:
    """One row per guarantee that has a budget, or is broken: a dot per regime, the worst ratio, on a logarithmic axis."""
    rows: dict[str, list[float]] = {}
    drawn = {entry["guarantee"] for entry in table if _number(entry["worst"]["budget"]) > 0 or not entry["worst"]["passed"]}
    for entry in table:
        if entry["guarantee"] in drawn:
            rows.setdefault(entry["guarantee"], []).append(_number(entry["worst"]["ratio"]))
    if not rows:
        return ""
    names = list(rows)
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(9.4, 0.7 + 0.27 * len(names)))
        axes = figure.subplots()
        for row, name in enumerate(names):
            for ratio in rows[name]:
                shown = min(max(ratio, _SMALLEST), _LARGEST)
                axes.plot(shown, row, "o", ms=5.5, alpha=0.75, mew=0, color=_GOOD if ratio <= 1 else _BAD)
        axes.axvline(1.0, color=_INK, lw=1)
        axes.set_xscale("log")
        largest = max((min(r, _LARGEST) for values in rows.values() for r in values), default=1.0)
        axes.set_xlim(_SMALLEST / 2, max(10.0, largest * 3))
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_xlabel("worst ratio to the budget, one dot a regime; below 1e-4 at the left end, above 1e9 at the right end")
        axes.grid(axis="x", color=_FAINT, lw=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.tick_params(axis="y", length=0)
        return _svg(figure, "worst ratio per guarantee and regime")


def coverage_figure(cells: list[dict[str, Any]]) -> str:
    """One triangle per capacity: position across, age down; filled where a fault would have been seen, framed where that is owed."""
    capacities = sorted({cell["capacity"] for cell in cells})
    extents = {c: max(cell["position"] for cell in cells if cell["capacity"] == c) + 1 for c in capacities}
    across, down = sum(max(e, _NARROWEST) + _GAP for e in extents.values()), max(extents.values()) + 2
    scale = min(0.23, 9.6 / across)
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(scale * across, scale * down))
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_axis_off()
        axes.set_xlim(-_GAP / 2, across - _GAP / 2)
        axes.set_ylim(down - 2.5, -2.0)
        axes.set_aspect("equal")
        left = 0
        for capacity in capacities:
            axes.text(left - 0.4, -0.9, f"capacity {capacity}" if capacity == capacities[0] else str(capacity), fontsize=8, va="bottom")
            for cell in (cell for cell in cells if cell["capacity"] == capacity):
                axes.add_patch(_square(cell, left))
            left += max(extents[capacity], _NARROWEST) + _GAP
        return _svg(figure, "cells of the ring in which a fault would have been seen")


def _square(cell: dict[str, Any], left: int) -> Rectangle:
    seen = _FLUSH if cell["path"] == "flush" else _GOOD
    owed_only = cell["owed"] and not cell["seen"]
    return Rectangle((left + cell["position"] - 0.43, cell["age"] - 0.43), 0.86, 0.86, fc=seen if cell["seen"] else "white",
                     ec=_BAD if owed_only else "#9aa5b1", lw=1.2 if owed_only else 0.6)
