"""`replaycheck validate KERNEL...`."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path

import torch

from replaycheck.contract.errors import KernelError, UsageError
from replaycheck.report.write import check_writable
from replaycheck.verdict.checks import Selection, select
from replaycheck.verdict.compiling import LaunchCompiler
from replaycheck.verdict.plan import Plan
from replaycheck.verdict.results import Run
from replaycheck.verdict.run import run_suite, unopened
from replaycheck.verdict.suites import SUITES, Suite
from replaycheck.verdict.tables import table_of
from replaycheck.verdict.verdict import EXIT_INTERRUPTED, worst_exit

from .output import present
from .progress import Display
from .streams import complain
from .workers import opened

__all__ = ["validate"]


def validate(args: argparse.Namespace) -> int:
    """Run the suite on every kernel, one verdict line each; returns the worst exit code."""
    suite = _suite(args)
    selection = select(args.only)
    check_writable(args.out)
    torch.set_num_threads(1)
    codes: list[int] = []
    pages: list[Path] = []
    for kernel in args.kernels:
        try:
            codes.append(_one(args, kernel, suite, selection, pages))
        except UsageError as error:
            complain(str(error), error.traceback if args.traceback else "")
            codes.append(error.exit_code)
        if codes[-1] == EXIT_INTERRUPTED:
            break
    return worst_exit(codes)


def _suite(args: argparse.Namespace) -> Suite:
    if args.suite not in SUITES:
        raise UsageError(f"--suite {args.suite!r} is not known; known are {', '.join(SUITES)}")
    suite = SUITES[args.suite]
    if suite.seconds is None and args.budget is None:
        raise UsageError(f"--suite {suite.name} runs until its time is out: give --budget SECONDS")
    return suite


def _one(args: argparse.Namespace, kernel: str, suite: Suite, selection: Selection, pages: list[Path]) -> int:
    table = table_of(args.device)
    run = _run(args, kernel, suite, selection)
    return present(run, args.out, device=args.device, seed=args.seed, table=table.backend, traceback=args.traceback, pages=pages)


def _run(args: argparse.Namespace, kernel: str, suite: Suite, selection: Selection) -> Run:
    with ExitStack() as stack:
        try:
            workers = opened(stack, kernel, args.device, count=2)
        except KernelError as error:
            return unopened(kernel, f"suite {suite.name}", error)
        total = Plan(suite=suite, claims=workers[0].claims, seed=args.seed, selection=selection).count()
        display = stack.enter_context(Display(kernel, total))
        return run_suite(workers, suite, kernel=kernel, table=table_of(args.device), seed=args.seed, budget=args.budget,
                         selection=selection, strict=args.strict, compiler=LaunchCompiler(suite.launches), progress=display.update)
