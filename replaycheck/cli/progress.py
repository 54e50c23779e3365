"""Progress of a run: a bar on a terminal, plain lines anywhere else. It goes to stderr; verdicts go to stdout."""

from __future__ import annotations

import sys
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from replaycheck.verdict.measure import Measured
from replaycheck.verdict.plan import Job

__all__ = ["Display"]

#: Seconds between plain lines.
_PAUSE = 15.0


class Display:
    """Shows how far a run is; a context manager whose `update` fits `run_suite(progress=...)`."""

    def __init__(self, kernel: str, total: int | None) -> None:
        self._kernel, self._total = kernel, total
        self._failed: dict[str, None] = {}
        self._started = self._said = monotonic()
        self._bar = _bar(kernel, total) if sys.stderr.isatty() else None

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, job: Job, measured: Measured) -> None:
        """One more job is done."""
        for m in measured.measurements:
            if not m.passed:
                self._failed[m.guarantee] = None
        text = f"{job.case.regime}" + (f"  failing: {', '.join(self._failed)}" if self._failed else "")
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, text=text)
        elif monotonic() - self._said >= _PAUSE:
            self._said = monotonic()
            of = "" if self._total is None else f" of {self._total}"
            with suppress(OSError):     # whoever stopped reading does not stop the run
                print(f"{self._kernel}: {done}{of} cases, {self._said - self._started:.0f} s, {text}", file=sys.stderr, flush=True)


def _bar(kernel: str, total: int | None) -> Progress:
    bar = Progress(SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=28), MofNCompleteColumn(), TimeElapsedColumn(),
                   TextColumn("{task.fields[text]}"), console=Console(stderr=True), transient=True)
    bar.add_task(kernel, total=total, text="starting")
    return bar
