"""`replaycheck infer KERNEL`."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack, suppress

import torch

from replaycheck.infer.claimsfile import lines, refuse_overwrite, write
from replaycheck.infer.infer import infer as inferred
from replaycheck.report.write import check_writable
from replaycheck.verdict.tables import table_of

from .streams import say
from .workers import opened

__all__ = ["infer"]

#: What was found in no policy, shown at most.
_SHOWN = 3


def infer(args: argparse.Namespace) -> int:
    """Infer the policy of a kernel and write it as a claims file to review; 1 where no policy explains what the kernel does."""
    check_writable(args.out)
    torch.set_num_threads(1)
    with ExitStack() as stack:
        worker = opened(stack, args.kernel, args.device, count=1)[0]
        refuse_overwrite(worker.claims.name, args.out)
        found = inferred(worker, table_of(args.device), seed=args.seed, told=_told)
    if found.unexplained:
        say(f"no policy explains {args.kernel}: {len(found.unexplained)} measurement(s) of {found.plays} plays stay beyond every budget")
        for m in found.unexplained[:_SHOWN]:
            say(f"  {m.guarantee} in {m.regime}: ratio {m.ratio:.3g}; {m.diagnosis or m.derivation}")
        say(f"  the kernel is wrong rather than imprecise, or its claims of form are: see replaycheck validate {args.kernel}")
        return 1
    path = write(found, args.out)
    say(f"policy of {args.kernel}, from {found.plays} plays, its own claim not looked at")
    for line in (*lines(found), *(f"  {note}" for note in found.notes)):
        say(line)
    say(f"  claims to review: {path}")
    return 0


def _told(text: str) -> None:
    if sys.stderr.isatty():
        with suppress(OSError):
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
