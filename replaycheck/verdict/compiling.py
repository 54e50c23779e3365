"""The check "compile" on plays: every new kind of launch is compiled once, up to a limit."""

from __future__ import annotations

import threading
from typing import Any

from replaycheck.compile import compile_launches
from replaycheck.compile.check import compile_measurements
from replaycheck.contract.claims import Claims
from replaycheck.play.result import Play

from .measurement import Measurement

__all__ = ["LaunchCompiler"]

#: Seconds that the compiler may take for the launches of one play.
_TIMEOUT = 120.0


class LaunchCompiler:
    """Compiles the launches that plays recorded, at most `limit` distinct ones in all. May be shared by threads."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, play: Play, claims: Claims) -> list[Measurement]:
        """Measurements of the launches of this play that were not compiled yet."""
        chosen = self._chosen(play.launches)
        return compile_measurements(compile_launches(chosen, timeout=_TIMEOUT), claims) if chosen else []

    def _chosen(self, launches: list[Any]) -> list[Any]:
        with self._lock:
            fresh = {repr(launch): launch for launch in launches if repr(launch) not in self._known}
            chosen = dict(list(fresh.items())[: self._left])
            self._known |= set(chosen)
            self._left -= len(chosen)
            return list(chosen.values())
