"""Host kernels that a worker is given by path: one right one, and one for every way to fail. Each behaves by the seed of the case."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from replaycheck.contract.claims import Claims
from replaycheck.contract.session import Stored
from replaycheck.faults.base import STEP
from replaycheck_reference.layer import Mamba2Tokens

__all__ = ["dying", "not_a_kernel", "right"]

right = STEP
not_a_kernel = 7


class Dying:
    """Opens as the right kernel does; what its first forward does depends on the seed."""

    def __init__(self) -> None:
        self.claims: Claims = replace(STEP.claims, name="dying")

    def open(self, layers: Sequence[Any], **arguments: Any) -> Any:
        session = STEP.open(layers, **arguments)
        end = ENDS.get(arguments["seed"])
        if end is not None:
            end(session)
        return session


def _raises(session: Any) -> None:
    def run(layer: int, tokens: Mamba2Tokens, out: torch.Tensor) -> None:
        print("the kernel said this")
        raise IndexError("no such row 7\nand a second line")
    session.run = run


def _hangs(session: Any) -> None:
    session.begin = lambda rows: time.sleep(600)


def _exits(session: Any) -> None:
    session.commit = lambda counts: os._exit(3)


def _leaves(session: Any) -> None:
    def release(slot: int) -> None:
        raise SystemExit(5)
    session.admit = lambda slot, states: release(slot)


def _segfaults(session: Any) -> None:
    session.begin = lambda rows: os.kill(os.getpid(), signal.SIGSEGV)


def _grows(session: Any) -> None:
    session.begin = lambda rows: torch.zeros(1 << 33)


def _grows_in_python(session: Any) -> None:
    session.begin = lambda rows: bytearray(1 << 35)


def _wrong_shape(session: Any) -> None:
    session.stored = lambda slot, layer: Stored(bits=session.states[layer][slot].flatten(), folded=0)


def _wrong_dtype(session: Any) -> None:
    session.stored = lambda slot, layer: Stored(bits=session.states[layer][slot].double(), folded=0)


def _wrong_device(session: Any) -> None:
    session.stored = lambda slot, layer: Stored(bits=session.states[layer][slot].to("meta"), folded=0)


def _wrong_type(session: Any) -> None:
    session.stored = lambda slot, layer: session.states[layer][slot]


def _wrong_count(session: Any) -> None:
    session.stored = lambda slot, layer: Stored(bits=session.states[layer][slot], folded=0.5)  # type: ignore[arg-type]


ENDS = {
    1: _raises, 2: _hangs, 3: _exits, 4: _leaves, 5: _segfaults, 6: _grows, 7: _grows_in_python,
    11: _wrong_shape, 12: _wrong_dtype, 13: _wrong_device, 14: _wrong_type, 15: _wrong_count,
}

dying = Dying()
