"""Writing a report: checked before the run starts, and never half-written."""

from __future__ import annotations

import itertools
import json
import re
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from replaycheck.cases.files import write_together
from replaycheck.contract.errors import UsageError
from replaycheck.verdict.results import Run

from .document import document
from .forms import FORMS, drawn, endings
from .text import case_file

__all__ = ["check_writable", "draw_again", "write_report"]

#: Characters of a report's name that are kept.
_LONGEST = 100


def check_writable(out: Path) -> None:
    """Make the directory and prove that a file can be put there. Raises UsageError naming the directory and the reason."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=out, prefix=".replaycheck-"):
            pass
    except OSError as error:
        raise UsageError(f"output directory {out} cannot be written: {error.strerror or error}") from error


def _stem_of(run: Run, out: Path, others: Collection[Path]) -> str:
    """What the files of a run are called: by the name of the run, and by a number where one of another page is not to be written over."""
    name = run.label or (run.claims.name if run.claims is not None else run.kernel)
    first = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:_LONGEST] or "kernel"
    taken = {page.with_name(page.stem + ending) for page in others for ending in endings()}
    stems = itertools.chain([first], (f"{first}-{number}" for number in itertools.count(2)))
    return next(stem for stem in stems if taken.isdisjoint(out / (stem + ending) for ending in endings()))


def write_report(run: Run, out: Path, *, others: Collection[Path] = ()) -> Path:
    """Write the failing and the worst cases, the JSON document and all its forms of one run into `out`; returns the path of the page.

    Cases come first, the page last: whoever finds a page finds all that it refers to. others: pages that are not to be written over.
    Raises UsageError where a file cannot be written.
    """
    cases = [f.case for f in run.failures] + [run.worst_case]
    for case in cases:
        if case is not None:
            case.save(case_file(out, case.id))
    report = document(run, out)
    stem = _stem_of(run, out, others)
    files = {out / (stem + ending): contents for ending, contents in drawn(report).items()}
    saved = (json.dumps(report, indent=1, allow_nan=False) + "\n").encode()
    write_together({out / f"{stem}.json": saved, **files}, what="report")
    return out / f"{stem}.html"


def draw_again(report: dict[str, Any], out: Path, stem: str, *, forms: Iterable[str] = FORMS) -> list[Path]:
    """Write these forms of a report document into `out`; returns the paths. Raises UsageError where a file cannot be written."""
    files = {out / (stem + ending): contents for ending, contents in drawn(report, forms).items()}
    write_together(files, what="report")
    return list(files)
