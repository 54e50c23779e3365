"""`replaycheck judge TRACE`."""

from __future__ import annotations

import argparse

from replaycheck.cases.traces import read_trace
from replaycheck.report.write import check_writable
from replaycheck.verdict.trace import judge_trace
from replaycheck_reference.gauge.functions import envelope

from .output import present

__all__ = ["judge"]


def judge(args: argparse.Namespace) -> int:
    """Judge the windows of a trace under the claims it carries, by the window checks alone."""
    trace = read_trace(args.trace)
    check_writable(args.out)
    run = judge_trace(trace, str(args.trace), table=envelope(), strict=args.strict)
    return present(run, args.out, device="cpu", seed=0, table=envelope().backend, traceback=args.traceback)
