"""Where plays come from: a kernel in this process, or one in a worker. Plays are shared by the checks that ask for them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from replaycheck.cases.case import Case
from replaycheck.contract.claims import Claims
from replaycheck.contract.session import Kernel

from .player import play
from .result import Play

__all__ = ["InProcess", "PlayCache", "PlaySource"]


class PlaySource(Protocol):
    """Plays cases on one kernel."""

    @property
    def claims(self) -> Claims:
        """What the kernel claims."""

    def play(self, case: Case, *, poison: str = "finite", take: int = 0) -> Play:
        """The play of `case`: the same object for the same arguments. take: another number is another execution, in a fresh session."""


class PlayCache:
    """The latest plays by case, poison and take."""

    def __init__(self, *, size: int = 64) -> None:
        self._size = size
        self._plays: OrderedDict[tuple[str, str, int], Play] = OrderedDict()

    def get(self, case: Case, poison: str, take: int, make: Callable[[], Play]) -> Play:
        """The play that is kept, else the one that `make` makes."""
        key = (case.id, poison, take)
        if key not in self._plays:
            self._plays[key] = make()
        self._plays.move_to_end(key)
        while len(self._plays) > self._size:
            self._plays.popitem(last=False)
        return self._plays[key]


class InProcess:
    """Plays a kernel in this process: for host kernels that can be trusted not to crash it."""

    def __init__(self, kernel: Kernel, *, device: str = "cpu") -> None:
        self._kernel, self._device, self._cache = kernel, device, PlayCache()

    @property
    def claims(self) -> Claims:
        return self._kernel.claims

    def play(self, case: Case, *, poison: str = "finite", take: int = 0) -> Play:
        """See PlaySource. Raises what `play.player.play` raises."""
        return self._cache.get(case, poison, take, lambda: play(self._kernel, case, poison=poison, device=self._device))
