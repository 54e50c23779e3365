"""A step kernel from one function: for kernels that need no session of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from replaycheck_reference.formats.arrays import TORCH_DTYPE
from replaycheck_reference.layer import Layer, Tokens

from .claims import Claims, Formats
from .errors import KernelError
from .memory import Memory
from .session import PAD, Kernel, Stored

__all__ = ["Functional", "InPlace", "from_functional", "from_inplace"]

#: fn(pool, slots, tokens, layer) -> out, tokens and layer of the recurrence's types.
#: pool: [slots, heads, head_dim, state_dim], updated in place. slots: int64 [rows], PAD for a row
#: that names none. tokens: one a row. out: [rows, heads, head_dim] in the output format.
InPlace = Callable[[Tensor, Tensor, Any, Any], Tensor]
#: fn(state, tokens, layer) -> (out, state). state: [rows, heads, head_dim, state_dim], one a row, and so is the state returned.
Functional = Callable[[Tensor, Any, Any], tuple[Tensor, Tensor]]


def from_inplace(fn: InPlace, claims: Claims) -> Kernel:
    """The step kernel of a function that updates a pool of states in place. Pad rows reach it as slot PAD.

    Where claims.pad_output is "zero", what it returns for a pad row must be zero; else that is not looked at.
    Raises ValueError where the claims are not those of a step kernel.
    """
    return _SimpleKernel(claims=_step(claims), session=_InPlaceSession, fn=fn)


def from_functional(fn: Functional, claims: Claims) -> Kernel:
    """The step kernel of a function from states to states. Rows are gathered and scattered here, and it never sees a pad row.

    Raises ValueError where the claims are not those of a step kernel.
    """
    return _SimpleKernel(claims=_step(claims), session=_FunctionalSession, fn=fn)


def _step(claims: Claims) -> Claims:
    if claims.kind != "step":
        raise ValueError(f"claims.kind must be 'step' for a kernel made from one function, got {claims.kind!r}")
    return claims


@dataclass(frozen=True, kw_only=True)
class _SimpleKernel:
    claims: Claims
    session: type[_StepSession]
    fn: Callable[..., Any]

    def open(self, layers: Sequence[Layer], *, formats: Formats, capacity: int, slots: int, memory: Memory,
             seed: int) -> _StepSession:
        return self.session(self.fn, layers, formats=formats, slots=slots, memory=memory, pad_output=self.claims.pad_output)


class _StepSession:
    """A pool a layer, and how many tokens each slot has seen. Rows of several tokens run one token of every row at a time."""

    def __init__(self, fn: Callable[..., Any], layers: Sequence[Layer], *, formats: Formats, slots: int, memory: Memory,
                 pad_output: str) -> None:
        self.fn, self.layers, self.pad_output = fn, layers, pad_output
        dtype = TORCH_DTYPE[formats.state]
        self.pools = [memory.alloc(f"state of layer {i}", (slots, *layer.state_shape), dtype, role="state", slot_axis=0)
                      for i, layer in enumerate(layers)]
        self.folded = [0] * slots
        self.rows: list[tuple[int, int]] = []

    def admit(self, slot: int, states: Sequence[Tensor] | None) -> None:
        for i, pool in enumerate(self.pools):
            pool[slot] = 0 if states is None else states[i]
        self.folded[slot] = 0

    def begin(self, rows: Sequence[tuple[int, int]]) -> None:
        self.rows = list(rows)

    def run(self, layer: int, tokens: Tokens, out: Tensor) -> None:
        if all(length == 1 for _, length in self.rows):
            self._one_each(layer, [slot for slot, _ in self.rows], tokens, out)      # as handed over, strides and all
            return
        for step in range(max((length for _, length in self.rows), default=0)):
            slots, places = self._present(step)
            index = torch.tensor(places, device=out.device)
            rows = out[index]
            self._one_each(layer, slots, tokens[index], rows)
            out[index] = rows

    def _present(self, step: int) -> tuple[list[int], list[int]]:
        """Slots of the rows that have a token number `step`, and where those tokens stand."""
        slots, places, first = [], [], 0
        for slot, length in self.rows:
            if step < length:
                slots.append(slot)
                places.append(first + step)
            first += length
        return slots, places

    def _one_each(self, layer: int, slots: list[int], tokens: Tokens, out: Tensor) -> None:
        """One token of each slot; writes the rows of `out` that are to be written."""
        raise NotImplementedError

    def commit(self, counts: Sequence[int | None]) -> None:
        for (slot, length), count in zip(self.rows, counts, strict=True):
            if count not in (None, length):
                raise ValueError(f"a step kernel keeps whole rows, got a count of {count} for {length} token(s)")
            if slot != PAD:
                self.folded[slot] += length

    def copy(self, src: int, dst: int) -> None:
        for pool in self.pools:
            pool[dst] = pool[src]
        self.folded[dst] = self.folded[src]

    def release(self, slot: int) -> None:
        self.folded[slot] = 0

    def stored(self, slot: int, layer: int) -> Stored:
        return Stored(bits=self.pools[layer][slot], folded=self.folded[slot])


class _InPlaceSession(_StepSession):
    def _one_each(self, layer: int, slots: list[int], tokens: Tokens, out: Tensor) -> None:
        pool = self.pools[layer]
        result = self.fn(pool, torch.tensor(slots, device=pool.device), tokens, self.layers[layer])
        _same_kind("the output", result, out)
        for row, slot in enumerate(slots):
            if slot != PAD or self.pad_output == "zero":
                out[row] = result[row]


class _FunctionalSession(_StepSession):
    def _one_each(self, layer: int, slots: list[int], tokens: Tokens, out: Tensor) -> None:
        live = torch.tensor([row for row, slot in enumerate(slots) if slot != PAD], dtype=torch.int64, device=out.device)
        if len(live):
            pool = self.pools[layer]
            named = torch.tensor([slot for slot in slots if slot != PAD], device=out.device)
            state = pool[named]
            answer = self.fn(state, tokens if len(live) == len(slots) else tokens[live], self.layers[layer])
            if not isinstance(answer, tuple) or len(answer) != 2:
                raise KernelError(f"the kernel must return (out, state), got {type(answer).__name__}")
            _same_kind("the output", answer[0], out[live])
            _same_kind("the state", answer[1], state)
            out[live], pool[named] = answer
        if self.pad_output == "zero":
            out[[row for row, slot in enumerate(slots) if slot == PAD]] = 0


def _same_kind(what: str, got: Any, wanted: Tensor) -> None:
    """Raises KernelError naming type, shape, dtype or device where the kernel returned another than it must."""
    if not isinstance(got, Tensor):
        raise KernelError(f"{what} must be a tensor, got {type(got).__name__}")
    for name in ("shape", "dtype", "device"):
        value, expected = getattr(got, name), getattr(wanted, name)
        if value != expected:
            said = (tuple(value), tuple(expected)) if name == "shape" else (value, expected)
            raise KernelError(f"{what} has {name} {said[0]}, expected {said[1]}")
