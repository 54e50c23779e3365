"""The report as one JSON document, whose schema is `schema.json`. The page is drawn from this document alone."""

from __future__ import annotations

import json
import math
from importlib import resources
from pathlib import Path
from typing import Any

from replaycheck.cases.regimes import DELTA_REGIMES, RECORDED, REGIMES
from replaycheck.judge.windows import WINDOW_GUARANTEES
from replaycheck.verdict.checks import GUARANTEES
from replaycheck.verdict.coverage import Coverage
from replaycheck.verdict.results import Failure, Run

from .text import failure_block, replay_line, verdict_line

__all__ = ["SCHEMA_VERSION", "document", "plain", "schema"]

SCHEMA_VERSION = 1

#: The order of tables: the checks as they are listed, what is measured in numbers first; regimes as they are listed.
_ORDER = [*WINDOW_GUARANTEES, *(guarantee for guarantee in GUARANTEES if guarantee not in WINDOW_GUARANTEES)]
_REGIMES = [*REGIMES, *DELTA_REGIMES, RECORDED.name, ""]


def _place(guarantee: str, regime: str) -> tuple[int, int]:
    return _ORDER.index(guarantee), _REGIMES.index(regime)


def schema() -> dict[str, Any]:
    """The published JSON schema of the document."""
    loaded: dict[str, Any] = json.loads((resources.files(__package__) / "schema.json").read_text())
    return loaded


def plain(value: Any) -> Any:
    """The value in strict JSON: infinities and NaN become the strings "inf", "-inf" and "nan"; tuples and sets become lists."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return [plain(item) for item in sorted(value)]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def document(run: Run, out: Path) -> dict[str, Any]:
    """Everything the report says. out: the directory that the saved cases lie in, for the replay commands."""
    return {
        "schema": SCHEMA_VERSION,
        "line": verdict_line(run),
        "verdict": {"status": run.verdict.status, "subject": run.verdict.subject, "suspicious": run.verdict.suspicious,
                    "strict": run.verdict.strict, "exit_code": run.verdict.exit_code, "reasons": list(run.verdict.reasons)},
        "kernel": {"path": run.kernel, "claims": None if run.claims is None else plain(run.claims.to_json())},
        "run": {"what": run.what, "seconds": run.seconds, "cases": run.cases, "measurements": run.tally.total,
                "interrupted": run.interrupted},
        "guarantees": [_guarantee(run, name) for name in sorted(run.tally.guarantees, key=_ORDER.index)],
        "table": [{"guarantee": g, "regime": r, "count": run.tally.counts[g, r], "worst": plain(m.to_json())}
                  for (g, r), m in sorted(run.tally.worst.items(), key=lambda item: _place(*item[0]))],
        "failures": [_failure(run, f, out) for f in run.failures],
        "worst": _worst(run, out),
        "bits": [{"quantity": b.quantity, "claimed": plain(b.claimed), "implied": plain(b.implied), "regime": b.regime, "case": b.case}
                 for b in run.bits],
        "coverage": None if run.coverage is None else _coverage(run.coverage),
        "not_covered": list(run.not_covered),
        "environment": dict(run.environment),
    }


def _guarantee(run: Run, name: str) -> dict[str, Any]:
    worst = run.tally.worst_of(name)
    count = sum(n for (guarantee, _), n in run.tally.counts.items() if guarantee == name)
    return {"guarantee": name, "count": count, "failed": run.tally.failed[name], "worst_ratio": plain(worst.ratio if worst else None),
            "worst_regime": worst.regime if worst else ""}


def _failure(run: Run, failure: Failure, out: Path) -> dict[str, Any]:
    replay = replay_line(run.kernel, failure.case, out, run.environment)
    return {"kind": failure.status, "measurement": plain(failure.measurement.to_json()), "block": failure_block(failure, replay),
            "replay": replay, "case": None if failure.case is None else plain(failure.case.to_json()), "original": failure.original,
            "more": failure.more}


def _worst(run: Run, out: Path) -> dict[str, Any] | None:
    if run.worst is None:
        return None
    replay = "" if run.worst_case is None else replay_line(run.kernel, run.worst_case, out, run.environment)
    return {"measurement": plain(run.worst.to_json()), "replay": replay, "confirmation": run.confirmation}


def _coverage(coverage: Coverage) -> dict[str, Any]:
    cells = sorted(coverage.owed | coverage.seen)
    return {"owed": len(coverage.owed), "missing": len(coverage.missing),
            "cells": [{"capacity": c.capacity, "position": c.position, "age": c.age, "path": c.path, "owed": c in coverage.owed,
                       "seen": c in coverage.seen} for c in cells]}
