"""`replaycheck list WHAT`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

from replaycheck.cases.families import FAMILIES
from replaycheck.cases.layers import PRESETS
from replaycheck.cases.regimes import DELTA_REGIMES, REGIMES
from replaycheck.contract.resolve import known_kernels
from replaycheck.verdict.checks import CHECKS
from replaycheck.verdict.suites import SUITES, Suite

from .streams import say

__all__ = ["listing"]


def _layers() -> dict[str, str]:
    return {name: f"{g.heads} heads of {g.head_dim} x {g.state_dim}, {g.groups} groups: {g.description}" for name, g in PRESETS.items()}


def _suite(suite: Suite) -> str:
    return f"{suite.purpose} ({len(suite.lines)} lines)"


_LISTS: Mapping[str, Callable[[], Mapping[str, str]]] = {
    "kernels": known_kernels,
    "recurrences": lambda: {name: own.description for name, own in FAMILIES.items()},
    "layers": _layers,
    "regimes": lambda: {name: regime.description for name, regime in {**REGIMES, **DELTA_REGIMES}.items()},
    "checks": lambda: {name: f"{check.purpose} [{', '.join(check.guarantees)}]" for name, check in CHECKS.items()},
    "suites": lambda: {name: _suite(suite) for name, suite in SUITES.items()},
}


def listing(args: argparse.Namespace) -> int:
    """Print the names of one kind, each with a line on what it is."""
    entries = _LISTS[args.what]()
    width = max(map(len, entries))
    for name, text in entries.items():
        say(f"{name:<{width}}  {text}")
    return 0
