"""What a command prints of a run, and the report it leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from replaycheck.report.text import failure_block, replay_line, verdict_line
from replaycheck.report.write import write_report
from replaycheck.verdict.environment import environment
from replaycheck.verdict.results import Run
from replaycheck.verdict.verdict import EXIT_INTERRUPTED

from .streams import complain, say

__all__ = ["present"]


def present(run: Run, out: Path, *, device: str, seed: int, table: str, traceback: bool, pages: list[Path] | None = None) -> int:
    """Write the report, print verdict line, reasons, failure blocks and the path of the page to stdout; returns the exit code.

    pages: those that the same command has written before; this one is added. Where the report cannot be written any more, the verdict is
    printed all the same; then UsageError is raised.
    """
    run = replace(run, environment=environment(kernel=run.kernel, device=device, seed=seed, table=table))
    try:
        page = write_report(run, out, others=pages or ())
    finally:
        _tell(run, out, traceback)
    say(f"  report: {page}")
    if pages is not None:
        pages.append(page)
    return EXIT_INTERRUPTED if run.interrupted else run.verdict.exit_code


def _tell(run: Run, out: Path, traceback: bool) -> None:
    say(verdict_line(run))
    shown = {f"{f.measurement.guarantee}: " for f in run.failures}
    for reason in run.verdict.reasons:
        if not any(reason.startswith(guarantee) for guarantee in shown):
            say(f"  {reason}")
    for failure in run.failures:
        say(failure_block(failure, replay_line(run.kernel, failure.case, out, run.environment)))
        trace = failure.measurement.facts.get("traceback")
        if traceback and trace:
            complain(failure.measurement.diagnosis, trace)
