"""Host kernels that a command line names by path."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from replaycheck.contract.errors import KernelError
from replaycheck.faults.base import REPLAY, STEP
from replaycheck.faults.faults import FAULTS

__all__ = ["closed", "lossy", "raising", "right", "step"]

right = REPLAY
step = STEP
lossy = FAULTS["token-lost-at-flush"].kernel


class Raising:
    """Opens, and raises where it should compute."""

    claims = replace(STEP.claims, name="raising")

    def open(self, layers: Any, **arguments: Any) -> Any:
        session = STEP.open(layers, **arguments)

        def fail(layer: int, tokens: Any, out: Any) -> None:
            raise IndexError("no such row 7")

        session.run = fail
        return session


raising = Raising()


class Closed:
    """Cannot even say what it claims."""

    @property
    def claims(self) -> Any:
        raise KernelError("kernel crashed with SIGSEGV while loading")

    def open(self, layers: Any, **arguments: Any) -> Any:
        raise NotImplementedError


closed = Closed()
