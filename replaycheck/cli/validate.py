"""`replaycheck validate KERNEL...`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch

from replaycheck.cases.recordings import RecordingFile
from replaycheck.contract.errors import KernelError, UsageError
from replaycheck.play.worker import Worker
from replaycheck.report.write import check_writable
from replaycheck.verdict.checks import Selection, select
from replaycheck.verdict.compiling import LaunchCompiler
from replaycheck.verdict.plan import Plan
from replaycheck.verdict.recorded import RecordedPlan
from replaycheck.verdict.results import Run
from replaycheck.verdict.run import run_recording, run_suite, unopened
from replaycheck.verdict.suites import SUITES, Suite
from replaycheck.verdict.tables import table_of
from replaycheck.verdict.verdict import EXIT_INTERRUPTED, worst_exit

from .output import present
from .progress import Display
from .streams import complain
from .workers import opened

__all__ = ["validate"]

#: Launches compiled for a recording.
_LAUNCHES = 4


def validate(args: argparse.Namespace) -> int:
    """Run the suite, or a recording, on every kernel, one verdict line each; returns the worst exit code."""
    selection = select(args.only)
    measured = _recording(args, selection) if args.recording is not None else _suite_run(args, _suite(args), selection)
    check_writable(args.out)
    torch.set_num_threads(1)
    codes: list[int] = []
    pages: list[Path] = []
    for kernel in args.kernels:
        try:
            codes.append(_one(args, kernel, measured, pages))
        except UsageError as error:
            complain(str(error), error.traceback if args.traceback else "")
            codes.append(error.exit_code)
        if codes[-1] == EXIT_INTERRUPTED:
            break
    return worst_exit(codes)


def _suite(args: argparse.Namespace) -> Suite:
    name = args.suite or "quick"
    if name not in SUITES:
        raise UsageError(f"--suite {name!r} is not known; known are {', '.join(SUITES)}")
    suite = SUITES[name]
    if suite.seconds is None and args.budget is None:
        raise UsageError(f"--suite {suite.name} runs until its time is out: give --budget SECONDS")
    return suite


def _suite_run(args: argparse.Namespace, suite: Suite, selection: Selection) -> _Measured:
    def run(workers: list[Worker], kernel: str, stack: ExitStack) -> Run:
        total = Plan(suite=suite, claims=workers[0].claims, seed=args.seed, selection=selection).count()
        display = stack.enter_context(Display(kernel, total))
        return run_suite(workers, suite, kernel=kernel, table=table_of(args.device), seed=args.seed, budget=args.budget,
                         selection=selection, strict=args.strict, compiler=LaunchCompiler(suite.launches), progress=display.update)

    return _Measured(what=f"suite {suite.name}", run=run)


def _recording(args: argparse.Namespace, selection: Selection) -> _Measured:
    if args.suite is not None:
        raise UsageError(f"--recording is played instead of a suite: leave out --suite {args.suite}")
    if selection.regimes:
        raise UsageError(f"--only {min(selection.regimes)} is a regime; a recording has none")
    recording = RecordingFile.of(args.recording)

    def run(workers: list[Worker], kernel: str, stack: ExitStack) -> Run:
        plan = RecordedPlan(recording=recording, claims=workers[0].claims, seed=args.seed, selection=selection)
        display = stack.enter_context(Display(kernel, plan.count()))
        return run_recording(workers, plan, kernel=kernel, table=table_of(args.device), budget=args.budget, strict=args.strict,
                             compiler=LaunchCompiler(_LAUNCHES), progress=display.update)

    return _Measured(what=f"recording {Path(args.recording).stem}", run=run)


@dataclass(frozen=True, kw_only=True)
class _Measured:
    """What a command measures. what: in words; run: its run on a kernel that the workers play."""

    what: str
    run: Callable[[list[Worker], str, ExitStack], Run]


def _one(args: argparse.Namespace, kernel: str, measured: _Measured, pages: list[Path]) -> int:
    table = table_of(args.device)
    run = _run(args, kernel, measured)
    return present(run, args.out, device=args.device, seed=args.seed, table=table.backend, traceback=args.traceback, pages=pages)


def _run(args: argparse.Namespace, kernel: str, measured: _Measured) -> Run:
    with ExitStack() as stack:
        try:
            workers = opened(stack, kernel, args.device, count=2)
        except KernelError as error:
            return unopened(kernel, measured.what, error)
        return measured.run(workers, kernel, stack)
