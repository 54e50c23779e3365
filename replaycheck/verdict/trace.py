"""A trace judged: windows of any engine under its claims, by the window checks alone."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

from replaycheck.cases.traces import Trace
from replaycheck.judge.windows import continuity_measurement, judge_windows
from replaycheck_reference.gauge.functions import FunctionTable

from .bits import BitsTable
from .causes import by_cause
from .confirmation import confirmed_window
from .reasons import reasons
from .results import Failure, Run
from .tally import Tally

__all__ = ["judge_trace"]


def judge_trace(trace: Trace, path: str, *, table: FunctionTable, strict: bool = False) -> Run:
    """The verdict on the windows of a trace. It speaks of these windows only: no relation between plays can be seen in them."""
    started = monotonic()
    policy = trace.claims.policy.built(state=trace.formats.state, output=trace.formats.output)
    tally, bits = Tally(), BitsTable(policy)
    followed = continuity_measurement(trace.windows)
    found = [*judge_windows(trace.windows, trace.layers, policy, table, case="", regime=""), *([] if followed is None else [followed])]
    tally.add(found)
    for m in found:
        bits.add(m, trace.formats, case="")
    owed = ["outputs"] + (["state"] if any(w.end is not None for w in trace.windows) else [])
    gaps = [f"nothing was measured for {name}" for name in owed if name not in tally.guarantees]
    worst = max((m for m in found if m.guarantee in ("outputs", "state")), key=lambda m: m.ratio, default=None)
    return Run(
        kernel=path, claims=trace.claims, what=f"trace of {len(trace.windows)} windows", tally=tally, cases=0,
        verdict=reasons(tally, subject=f"trace of a {trace.claims.kind} kernel", gaps=gaps, strict=strict),
        failures=tuple(Failure(measurement=tally.failures[name][0], case=None, more=tally.failed[name] - 1)
                       for name in by_cause(tally.failures)),
        bits=bits.quoted, confirmation="" if worst is None else confirmed_window(worst, trace.windows, dict(enumerate(trace.layers))),
        not_covered=("everything but the windows: write-sets, poison, isolation, movement, determinism and exactness need the kernel",),
        seconds=monotonic() - started, label=f"trace {Path(path).stem}",
    )
