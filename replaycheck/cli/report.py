"""`replaycheck report RUN.json`."""

from __future__ import annotations

import argparse
from pathlib import Path

from replaycheck.contract.errors import UsageError
from replaycheck.report.forms import FORMS
from replaycheck.report.reading import read_report
from replaycheck.report.write import check_writable, draw_again

from .streams import say

__all__ = ["report"]


def report(args: argparse.Namespace) -> int:
    """Draw a saved report again, in one form or all, and print the path of each file."""
    document = read_report(args.run)
    out: Path = args.run.parent if args.out is None else args.out
    check_writable(out)
    try:
        paths = draw_again(document, out, args.run.stem, forms=FORMS if args.form is None else (args.form,))
    except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as error:
        raise UsageError(f"report {args.run} cannot be drawn: {type(error).__name__}: {error}") from error
    for path in paths:
        say(str(path))
    return 0
