"""A crew: one thread per source of plays, all taking jobs from one line."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic

from replaycheck.contract.errors import KernelHang
from replaycheck.play.source import PlaySource
from replaycheck_reference.gauge.functions import FunctionTable

from .evidence import Evidence
from .measure import Compiler, Measured, measure
from .plan import Job

__all__ = ["ENOUGH_ERRORS", "Crew", "Progress"]

#: Errors after which a kernel is not asked again: the verdict cannot become worse. A hang, which costs its time limit, counts for all.
ENOUGH_ERRORS = 3
#: Called after every job with the number of jobs done, the job, and what it gave.
Progress = Callable[[int, Job, Measured], None]


@dataclass(kw_only=True)
class Crew:
    """Measures jobs on all `sources` at once and adds what they give to `evidence`, in their order: who was faster leaves no trace.

    deadline: of `time.monotonic`; no job is started after it, nor once ENOUGH_ERRORS jobs broke the adapter contract or one hung.
    late, given_up: whether jobs were left because of that.
    """

    sources: Sequence[PlaySource]
    table: FunctionTable
    compiler: Compiler | None
    evidence: Evidence
    progress: Progress | None
    deadline: float
    late: bool = False
    given_up: bool = False
    _abandoned: bool = False
    _handed: int = 0
    _errors: int = 0
    _results: dict[int, tuple[Job, Measured]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _broken: queue.SimpleQueue[BaseException] = field(default_factory=queue.SimpleQueue)

    def work(self, jobs: Iterator[Job]) -> None:
        """Measure jobs until none or no time is left. Raises what a thread raised.

        On KeyboardInterrupt the jobs in hand are given up: what they would still give is not added. Their threads end with them, or as soon
        as their sources are closed.
        """
        threads = [threading.Thread(target=self._member, args=(source, jobs)) for source in self.sources]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.2)
        except KeyboardInterrupt:
            with self._lock:
                self._abandoned = True
            raise
        finally:
            with self._lock:
                for _, (job, result) in sorted(self._results.items()):
                    self.evidence.add(job, result)
        if not self._broken.empty():
            raise self._broken.get()

    def _next(self, jobs: Iterator[Job]) -> tuple[int, Job] | None:
        with self._lock:
            if self._abandoned or not self._broken.empty():
                return None
            job = next(jobs, None)
            if job is not None:
                self.late |= monotonic() > self.deadline
                self.given_up |= self._errors >= ENOUGH_ERRORS
            if job is None or self.late or self.given_up:
                return None
            self._handed += 1
            return self._handed - 1, job

    def _member(self, source: PlaySource, jobs: Iterator[Job]) -> None:
        try:
            while (taken := self._next(jobs)) is not None:
                number, job = taken
                self._take_in(number, job, measure(source, job, self.table, self.compiler))
        except BaseException as error:  # a fault of the checker itself must reach the caller, not die with the thread
            self._broken.put(error)

    def _take_in(self, number: int, job: Job, result: Measured) -> None:
        with self._lock:
            if self._abandoned:
                return
            self._results[number] = (job, result)
            self._errors += ENOUGH_ERRORS if isinstance(result.error, KernelHang) else result.error is not None
            while self.evidence.jobs in self._results:
                self.evidence.add(*self._results.pop(self.evidence.jobs))
            if self.progress is not None:
                self.progress(self.evidence.jobs + len(self._results), job, result)
