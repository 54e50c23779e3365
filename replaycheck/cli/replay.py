"""`replaycheck replay CASE.json --kernel KERNEL`."""

from __future__ import annotations

import argparse
from contextlib import ExitStack

import torch

from replaycheck.cases.case import Case
from replaycheck.contract.errors import KernelError
from replaycheck.report.write import check_writable
from replaycheck.verdict.checks import CHECKS, select
from replaycheck.verdict.compiling import LaunchCompiler
from replaycheck.verdict.plan import Job
from replaycheck.verdict.results import Run
from replaycheck.verdict.run import run_case, unopened
from replaycheck.verdict.tables import table_of

from .output import present
from .workers import opened

__all__ = ["replay"]

#: Launches compiled for one case.
_LAUNCHES = 4


def replay(args: argparse.Namespace) -> int:
    """Play one saved case, bit for bit, with every check that fits it. The verdict is about this case alone."""
    case = Case.load(args.case)
    checks = select(args.only).checks_of(CHECKS)
    check_writable(args.out)
    torch.set_num_threads(1)
    run = _run(args, Job(case=case, checks=checks))
    return present(run, args.out, device=args.device, seed=case.seed, table=table_of(args.device).backend, traceback=args.traceback)


def _run(args: argparse.Namespace, job: Job) -> Run:
    what = f"case {job.case.id}"
    with ExitStack() as stack:
        try:
            workers = opened(stack, args.kernel, args.device, count=1)
        except KernelError as error:
            return unopened(args.kernel, what, error)
        return run_case(workers[0], job, kernel=args.kernel, table=table_of(args.device), strict=args.strict,
                        compiler=LaunchCompiler(_LAUNCHES))
