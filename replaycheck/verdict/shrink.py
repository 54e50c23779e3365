"""Shrinking: a smaller case of the same regime that still breaks the same guarantee is easier to debug."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from time import monotonic
from typing import Any

from replaycheck.cases.case import Case
from replaycheck.cases.schedule import Forward, plain, restarted
from replaycheck.contract.claims import Claims

from .measurement import Measurement

__all__ = ["shrink", "size"]

Attempt = Callable[[Case], Measurement | None]


def size(case: Case) -> int:
    """State elements times tokens moved, what a reader has to look at."""
    tokens = sum(length for op in case.schedule if isinstance(op, Forward) for _, length in op.rows)
    return case.layers * case.heads * case.head_dim * case.state_dim * max(tokens, 1)


def _schedules(case: Case) -> Iterator[dict[str, Any]]:
    """One plain request, then shorter ones; and the first events of the schedule as it is."""
    longest = max(case.lengths.values(), default=1)
    for requests, tokens in dict.fromkeys(((1, case.capacity), (1, longest // 2), (1, longest - 1), (1, longest), (2, longest))):
        if tokens >= 1:
            yield {"schedule": restarted(plain(requests, tokens), case.inputs.START), "slots": requests}
    forwards = [step for step, op in enumerate(case.schedule) if isinstance(op, Forward)]
    for keep in dict.fromkeys((len(forwards) // 2, len(forwards) - 1)):
        if keep > 0:
            yield {"schedule": case.schedule[: forwards[keep - 1] + 1]}


def _geometries(case: Case, claims: Claims) -> Iterator[dict[str, Any]]:
    """One layer; one head a group; one group; the smallest claimed dims."""
    yield {"layers": 1}
    yield {"heads": case.groups}
    yield {"heads": case.heads // case.groups, "groups": 1}
    for name, claimed in (("state_dim", claims.state_dims), ("head_dim", claims.head_dims)):
        yield {name: min(claimed, default=16)}


def _smaller(case: Case, claims: Claims) -> Iterator[Case]:
    """Smaller cases, the boldest cut first. Cuts that the regime or the schedule do not allow are left out."""
    for change in (*_schedules(case), *_geometries(case, claims)):
        try:
            candidate = replace(case, **change)
        except ValueError:
            continue
        if size(candidate) < size(case):
            yield candidate


def shrink(case: Case, failing: Measurement, claims: Claims, attempt: Attempt, *, seconds: float) -> tuple[Case, Measurement]:
    """The smallest case found within `seconds` for which `attempt` still returns a failing measurement, and that measurement.

    attempt: plays a case and returns the failing measurement of the same guarantee, None where it passes.
    """
    deadline = monotonic() + seconds
    tried = {case.id}
    while True:
        for candidate in _smaller(case, claims):
            if monotonic() > deadline:
                return case, failing
            if candidate.id in tried:
                continue
            tried.add(candidate.id)
            found = attempt(candidate)
            if found is not None:
                case, failing = candidate, found
                break
        else:
            return case, failing
