"""Time of the standard grid of drift on this machine: `python -m replaycheck.bench.drift [PROCESSES]`."""

from __future__ import annotations

import os
import resource
import sys
from time import monotonic

from replaycheck.drift.grid import Grid, run_grid

__all__ = ["main"]


def main() -> None:
    """Wall time and processor time of 4 formats, 2 roundings, 4 periods, 4 decays and 2 drives, 256 elements, 16,384 steps."""
    processes = int(sys.argv[1]) if len(sys.argv) > 1 else len(os.sched_getaffinity(0))
    grid, begun = Grid(), monotonic()
    cells = run_grid(grid, processes=processes)
    wall = monotonic() - begun
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    spent = sum(usage.ru_utime + usage.ru_stime for usage in used)
    print(f"{len(cells)} cells, {grid.steps} steps, {processes} process(es): {wall:.1f} s on the clock, {spent:.1f} s of processor time")


if __name__ == "__main__":
    main()
