"""Writing a report: checked before the run starts, and never half-written."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

from replaycheck.cases.files import write_whole
from replaycheck.contract.errors import UsageError
from replaycheck.verdict.results import Run

from .document import document
from .page import page
from .text import case_file

__all__ = ["check_writable", "write_report"]


def check_writable(out: Path) -> None:
    """Make the directory and prove that a file can be put there. Raises UsageError naming the directory and the reason."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=out, prefix=".replaycheck-"):
            pass
    except OSError as error:
        raise UsageError(f"output directory {out} cannot be written: {error.strerror or error}") from error


def _stem(run: Run) -> str:
    name = run.claims.name if run.claims is not None else run.kernel
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "kernel"


def write_report(run: Run, out: Path) -> Path:
    """Write the failing and the worst cases, the JSON document and the page of one run into `out`; returns the path of the page.

    Cases come first, the page last: whoever finds a page finds all that it refers to. Raises UsageError where a file cannot be written.
    """
    cases = [f.case for f in run.failures] + [run.worst_case]
    for case in cases:
        if case is not None:
            case.save(case_file(out, case.id))
    report = document(run, out)
    stem = _stem(run)
    text = page(report)
    write_whole(out / f"{stem}.json", (json.dumps(report, indent=1, allow_nan=False) + "\n").encode(), what="report")
    path = out / f"{stem}.html"
    write_whole(path, text.encode(), what="report")
    return path
