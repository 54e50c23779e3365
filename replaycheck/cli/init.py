"""`replaycheck init NAME`."""

from __future__ import annotations

import argparse
from pathlib import Path

from replaycheck.scaffold import made_of, write_scaffold

from .parser import parse
from .streams import say
from .validate import validate

__all__ = ["init"]


def init(args: argparse.Namespace) -> int:
    """Write the skeleton of a new kernel's adapter, claims, tests and CI, and judge it once; returns what `validate` returns."""
    folder = Path(args.name) if args.out is None else args.out
    for path, purpose in write_scaffold(made_of(args.name, args.kind), folder):
        say(f"  {path}  {purpose}")
    kernel = f"{folder / args.name}.py:kernel"
    say(f"replaycheck validate {kernel} --out {folder / 'report'}")
    options = ["--traceback"] if args.traceback else []
    return validate(parse(["validate", kernel, "--out", str(folder / "report"), *options]))
