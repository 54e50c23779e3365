"""The precision card as a figure small enough for a README: one SVG, without script or outside resources, drawn from the card alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from .text import figure, printable

__all__ = ["card_figure"]

_COLOURS = {"pass": "#2f7d4f", "not proven": "#9a6700", "fail": "#b3261e", "error": "#b3261e"}
_GOOD, _BAD, _INK = "#2f7d4f", "#b3261e", "#1d2733"
#: Height of a row; where rows begin; width of the bars of bits and of ratios; ratios drawn at most.
_ROW, _TOP = 21, 128
_BITS, _RATIOS, _LARGEST = 140, 150, 1.25
#: Height of a line of notes, its characters, and how many lines one list has.
_LINE, _WIDE, _MOST_LINES = 16, 54, 4
#: Rows of bits and of budgeted guarantees that a card shows.
_MOST = 16


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A labelled bar. y: its baseline. filled, framed: widths. text: the number at its right."""

    label: str
    y: int
    filled: float
    framed: float
    text: str
    colour: str


@dataclass(frozen=True, kw_only=True)
class Note:
    """A line of text below the ratios. first: of its list."""

    text: str
    colour: str
    first: bool = True


def card_figure(card: dict[str, Any]) -> str:
    """The whole figure as text."""
    environment = Environment(loader=PackageLoader("replaycheck.report", "."), autoescape=True, undefined=StrictUndefined,
                              trim_blocks=True, lstrip_blocks=True)
    environment.filters["short"] = _short
    bits, ratios = _bits(card["bits"]), _ratios([g for g in card["guarantees"] if g["budgeted"]])
    below = _TOP + _ROW * len(ratios) + (8 if ratios else -_ROW)
    notes = _placed([*_strict(card), *_covered(card)], below)
    bottom = max(_TOP + _ROW * (len(bits) - 1), *(y for y, _ in notes), below)
    return environment.get_template("card.svg.j2").render(
        card=card, colour=_COLOURS[card["verdict"]["status"]], bits=bits, ratios=ratios, notes=notes, top=_TOP,
        height=bottom + 20, one=_RATIOS / _LARGEST, worst=_worst(card["worst"]))


def _short(text: str, most: int) -> str:
    flat = printable(" ".join(text.split()))
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def _share(value: float, most: float) -> float:
    """The share of a bar that a number fills, between 0 and 1."""
    return 0.0 if math.isnan(value) else min(max(value / most, 0.0), 1.0)


def _bits(rows: list[dict[str, Any]]) -> list[Bar]:
    """Implied bits filled, claimed ones framed, on a scale that holds every claim; what lies beyond it is shown as a full bar."""
    scale = max((float(row["claimed"]) for row in rows if math.isfinite(float(row["claimed"]))), default=1.0) or 1.0
    bars = []
    for index, row in enumerate(rows[:_MOST]):
        claimed, implied = float(row["claimed"]), float(row["implied"])
        bars.append(Bar(label=row["quantity"], y=_TOP + _ROW * index, filled=_BITS * _share(implied, scale),
                        framed=_BITS * _share(claimed, scale), text=f"{figure(implied)} of {figure(claimed)}", colour="#2b5c8a"))
    return bars


def _ratios(guarantees: list[dict[str, Any]]) -> list[Bar]:
    bars = []
    for index, g in enumerate(guarantees[:_MOST]):
        ratio = float("nan") if g["worst_ratio"] is None else float(g["worst_ratio"])
        where = f"  {g['worst_regime']}" if g["worst_regime"] else ""
        bars.append(Bar(label=g["guarantee"], y=_TOP + _ROW * index, filled=_RATIOS * _share(ratio, _LARGEST), framed=_RATIOS,
                        text=figure(ratio, digits=2) + where, colour=_BAD if g["failed"] else _GOOD))
    return bars


def _strict(card: dict[str, Any]) -> list[Note]:
    """The checks that allow no error: those broken, then those that held."""
    strict = [g for g in card["guarantees"] if not g["budgeted"]]
    broken, held = ([g["guarantee"] for g in strict if bool(g["failed"]) == failed] for failed in (True, False))
    return [*_listed("broken, though no error is allowed", broken, colour=_BAD), *_listed("held without any error", held, colour=_INK)]


def _covered(card: dict[str, Any]) -> list[Note]:
    """What the run saw of what it owed, and how much of the claims it did not draw."""
    coverage = card["coverage"]
    notes = []
    if coverage is not None and coverage["owed"]:
        colour = _INK if coverage["seen"] >= coverage["owed"] else _BAD
        notes += _listed("coverage", [f"{coverage['seen']} of {coverage['owed']} owed cells of the ring"], colour=colour)
    notes += _listed("claimed, not covered", [line.partition(": ")[0] for line in card["not_covered"]], colour=_INK)
    if card["run"]["interrupted"]:
        notes.append(Note(text="the run was interrupted", colour=_BAD))
    return notes


def _listed(title: str, names: list[str], *, colour: str) -> list[Note]:
    """The title and the names in as few lines as hold them; nothing where there is no name."""
    if not names:
        return []
    lines = [f"{title}:"]
    for index, name in enumerate(names):
        word = _short(name, _WIDE - 2) + ("," if index < len(names) - 1 else "")
        if len(lines[-1]) + len(word) + 1 <= _WIDE:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return [Note(text=line, colour=colour, first=index == 0) for index, line in enumerate(lines[:_MOST_LINES])]


def _placed(notes: list[Note], y: int) -> list[tuple[int, Note]]:
    """The notes with their baselines, lists a little apart."""
    placed = []
    for index, note in enumerate(notes):
        y += (_LINE + (5 if note.first else 0)) if index else 0
        placed.append((y, note))
    return placed


def _worst(worst: dict[str, Any] | None) -> str:
    if worst is None:
        return "nothing was measured"
    where = ", ".join(part for part in (worst["guarantee"], worst["regime"]) if part)
    return f"worst ratio {figure(float(worst['ratio']))} of the budget ({where})"
