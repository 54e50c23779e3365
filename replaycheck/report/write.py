"""Writing a report: checked before the run starts, and never half-written."""

from __future__ import annotations

import itertools
import json
import re
import tempfile
from collections.abc import Collection
from pathlib import Path

from replaycheck.cases.files import write_together
from replaycheck.contract.errors import UsageError
from replaycheck.verdict.results import Run

from .document import document
from .page import page
from .text import case_file

__all__ = ["check_writable", "write_report"]

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


def _page_of(run: Run, out: Path, others: Collection[Path]) -> Path:
    """Where the page of a run goes: by the name of the run, and by a number where a page of that name is not to be written over."""
    name = run.label or (run.claims.name if run.claims is not None else run.kernel)
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:_LONGEST] or "kernel"
    numbered = itertools.chain([stem], (f"{stem}-{number}" for number in itertools.count(2)))
    return next(path for path in (out / f"{name}.html" for name in numbered) if path not in others)


def write_report(run: Run, out: Path, *, others: Collection[Path] = ()) -> Path:
    """Write the failing and the worst cases, the JSON document and the page of one run into `out`; returns the path of the page.

    Cases come first, the page last: whoever finds a page finds all that it refers to. others: pages that are not to be written over.
    Raises UsageError where a file cannot be written.
    """
    cases = [f.case for f in run.failures] + [run.worst_case]
    for case in cases:
        if case is not None:
            case.save(case_file(out, case.id))
    report = document(run, out)
    path = _page_of(run, out, others)
    write_together({
        path.with_name(f"{path.stem}.json"): (json.dumps(report, indent=1, allow_nan=False) + "\n").encode(),
        path: page(report).encode(errors="backslashreplace"),   # names of files need not be UTF-8
    }, what="report")
    return path
