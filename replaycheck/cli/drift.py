"""`replaycheck drift`."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress
from time import monotonic

from replaycheck.contract.errors import UsageError
from replaycheck.drift.cells import Cell
from replaycheck.drift.confirm import confirm, flint_here
from replaycheck.drift.grid import Grid, bands, run_grid
from replaycheck.drift.table import markdown, table
from replaycheck.report.write import check_writable

from .streams import say

__all__ = ["drift"]

_AXES = ("formats", "roundings", "periods", "decays", "drives", "elements", "steps", "seeds")


def drift(args: argparse.Namespace) -> int:
    """Run a grid of storage policies, print what they cost, and keep the cells."""
    try:
        grid = Grid(**{name: getattr(args, name) for name in _AXES if getattr(args, name) is not None})
    except ValueError as error:
        raise UsageError(f"drift: {error}") from error
    check_writable(args.out)
    args.out.mkdir(parents=True, exist_ok=True)
    begun = monotonic()
    processes = 1 if args.device != "cpu" else args.processes or len(os.sched_getaffinity(0))
    cells = run_grid(grid, processes=processes, device=args.device, kept=args.out / "drift.jsonl", progress=_told)
    _told_end()
    found = bands(cells)
    (args.out / "drift.md").write_text(markdown(found))
    for line in table(found):
        say(line)
    say(f"{len(cells)} cells of {grid.elements} elements, {grid.steps} steps, errors over the rms state; {monotonic() - begun:.1f} s")
    say(f"  {_confirmed(cells, args.device)}")
    say(f"  {args.out / 'drift.jsonl'}, {args.out / 'drift.md'}")
    return 0


def _confirmed(cells: list[Cell], device: str) -> str:
    """What balls say of the exact trajectories, which are the same for every policy of a period."""
    if device != "cpu":
        return "exact trajectories are float64, within their own bound; not computed again in balls, which needs --device cpu"
    if not flint_here():
        return "exact trajectories are float64, within their own bound; not computed again in balls, as python-flint is not installed"
    chosen = [cell for cell in cells if (cell.storage, cell.seed) == (cells[0].storage, cells[0].seed)]
    found = confirm(chosen)
    said = "confirmed" if found.worst <= 1 else "REFUTED"
    return f"exact trajectories {said} in balls on {found.elements} elements: worst error {found.worst:.1e} of what float64 is allowed"


def _told(done: int, total: int, label: str) -> None:
    if sys.stderr.isatty():
        with suppress(OSError):
            print(f"\r\033[K{done} of {total}: {label}", end="", file=sys.stderr, flush=True)


def _told_end() -> None:
    if sys.stderr.isatty():
        with suppress(OSError):
            print("\r\033[K", end="", file=sys.stderr, flush=True)
