"""The page: one HTML file without external resources, drawn from the report document alone."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from .figures import coverage_figure, ratio_figure
from .text import figure

__all__ = ["page"]

_COLOURS = {"pass": "good", "not proven": "warn", "fail": "bad", "error": "bad"}


def _shown(value: Any, digits: int = 3) -> str:
    return "-" if value is None else figure(float(value), digits=digits)


def _heat(ratio: Any) -> str:
    """The class of a table cell: how close the ratio is to the budget."""
    value = float(ratio)
    if not value <= 1:
        return "bad"
    return "warm" if value > 0.5 else "good"


def _grid(table: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows of guarantees, columns of regimes. Entries without a regime (compile) get a column of their own."""
    guarantees = list(dict.fromkeys(entry["guarantee"] for entry in table))
    regimes = list(dict.fromkeys(entry["regime"] for entry in table))
    cells = {(entry["guarantee"], entry["regime"]): entry for entry in table}
    return {"regimes": [r or "no regime" for r in regimes], "rows": [(g, [cells.get((g, r)) for r in regimes]) for g in guarantees]}


def page(document: dict[str, Any]) -> str:
    """The whole page as text."""
    environment = Environment(loader=PackageLoader("replaycheck.report", "."), autoescape=True, undefined=StrictUndefined,
                              trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"number": _shown, "heat": _heat}
    coverage = document["coverage"]
    return environment.get_template("page.html.j2").render(
        report=document,
        colour=_COLOURS[document["verdict"]["status"]],
        grid=_grid(document["table"]),
        ratios=ratio_figure(document["table"]) if document["table"] else "",
        cells=coverage_figure(coverage["cells"]) if coverage and coverage["cells"] else "",
    )
