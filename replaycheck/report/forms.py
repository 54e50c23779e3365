"""The forms that a report is drawn in, all from the report document alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from .card import card
from .card_figure import card_figure
from .junit import junit
from .markdown import markdown
from .page import page

__all__ = ["FORMS", "drawn", "endings"]

Document = dict[str, Any]


def _card_json(report: Document) -> str:
    return json.dumps(card(report), indent=1, allow_nan=False) + "\n"


def _card_svg(report: Document) -> str:
    return card_figure(card(report))


#: Each form and its files: how their names end, and what draws them. The page is the last to be written.
FORMS: dict[str, dict[str, Callable[[Document], str]]] = {
    "card": {".card.json": _card_json, ".card.svg": _card_svg},
    "junit": {".junit.xml": junit},
    "md": {".md": markdown},
    "html": {".html": page},
}


def drawn(report: Document, forms: Iterable[str] = FORMS) -> dict[str, bytes]:
    """The contents of each file of these forms, by how its name ends. Names of files, which reports quote, need not be UTF-8."""
    return {ending: draw(report).encode(errors="backslashreplace") for form in forms for ending, draw in FORMS[form].items()}


def endings() -> tuple[str, ...]:
    """How the names of all files of a report end."""
    return (".json", *(ending for files in FORMS.values() for ending in files))
