"""A small Triton step kernel, right, and three wrong ones: faults that only an interpreter or a compiler sees in full.

Gates, skip and the output gate are evaluated on the host (glue); the kernels update the state and read it, one program a (row, head).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from replaycheck_reference.layer import Mamba2Tokens
from replaycheck_reference.policy import Path

from .base import STEP, STEP_CLAIMS
from .host import HostKernel, StepSession

__all__ = ["out_of_bounds_store", "pad_row_writes", "right", "tf32_dot"]


@triton.jit  # type: ignore[untyped-decorator]
def _tile(pool, slot, head, heads, P, N, BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr):  # type: ignore[no-untyped-def]
    """Pointers to the state of one (slot, head), and which of them lie inside it."""
    p = tl.arange(0, BLOCK_P)[:, None]
    n = tl.arange(0, BLOCK_N)[None, :]
    return pool + (slot * heads + head) * P * N + p * N + n, (p < P) & (n < N)


@triton.jit  # type: ignore[untyped-decorator]
def _updated(state, x, B, decay, dt, group, row, head, heads, P, N, x_row, B_row,  # type: ignore[no-untyped-def]
             BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr):
    """The state tile after one token."""
    p = tl.arange(0, BLOCK_P)
    g = tl.load(group + head)
    token = tl.load(x + row * x_row + head * P + p, mask=p < P, other=0.0).to(tl.float32) * tl.load(dt + row * heads + head)
    return state * tl.load(decay + row * heads + head) + token[:, None] * _row_of(B, g, row, N, B_row, BLOCK_N)[None, :]


@triton.jit  # type: ignore[untyped-decorator]
def _row_of(B, g, row, N, B_row, BLOCK_N: tl.constexpr):  # type: ignore[no-untyped-def]
    """B or C of one (token, group)."""
    n = tl.arange(0, BLOCK_N)
    return tl.load(B + row * B_row + g * N + n, mask=n < N, other=0.0).to(tl.float32)


@triton.jit  # type: ignore[untyped-decorator]
def _store_output(out, y, row, head, heads, P, BLOCK_P: tl.constexpr):  # type: ignore[no-untyped-def]
    p = tl.arange(0, BLOCK_P)
    tl.store(out + (row * heads + head) * P + p, y, mask=p < P)


@triton.jit  # type: ignore[untyped-decorator]
def _step(pool, slots, out, x, B, C, decay, dt, group, heads, P, N, x_row, B_row, C_row,  # type: ignore[no-untyped-def]
          BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr):
    row, head = tl.program_id(0), tl.program_id(1)
    slot = tl.load(slots + row)
    if slot >= 0:
        tile, inside = _tile(pool, slot, head, heads, P, N, BLOCK_P, BLOCK_N)
        state = _updated(tl.load(tile, mask=inside, other=0.0), x, B, decay, dt, group, row, head, heads, P, N, x_row, B_row,
                         BLOCK_P, BLOCK_N)
        tl.store(tile, state, mask=inside)
        y = tl.sum(state * _row_of(C, tl.load(group + head), row, N, C_row, BLOCK_N)[None, :], axis=1)
        _store_output(out, y, row, head, heads, P, BLOCK_P)


@triton.jit  # type: ignore[untyped-decorator]
def _tf32_step(pool, slots, out, x, B, C, decay, dt, group, heads, P, N, x_row, B_row, C_row,  # type: ignore[no-untyped-def]
               BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr):
    """The readout goes through a matrix unit in its default precision."""
    row, head = tl.program_id(0), tl.program_id(1)
    slot = tl.load(slots + row)
    if slot >= 0:
        tile, inside = _tile(pool, slot, head, heads, P, N, BLOCK_P, BLOCK_N)
        state = _updated(tl.load(tile, mask=inside, other=0.0), x, B, decay, dt, group, row, head, heads, P, N, x_row, B_row,
                         BLOCK_P, BLOCK_N)
        tl.store(tile, state, mask=inside)
        read = _row_of(C, tl.load(group + head), row, N, C_row, BLOCK_N)
        columns = tl.where(tl.arange(0, 16)[None, :] == 0, read[:, None], 0.0)
        y = tl.sum(tl.dot(state, columns, input_precision="tf32"), axis=1)
        _store_output(out, y, row, head, heads, P, BLOCK_P)


@triton.jit  # type: ignore[untyped-decorator]
def _pad_writing_step(pool, slots, out, x, B, C, decay, dt, group, heads, P, N, x_row, B_row, C_row,  # type: ignore[no-untyped-def]
                      BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr):
    """The slot of a pad is clamped instead of skipped."""
    row, head = tl.program_id(0), tl.program_id(1)
    slot = tl.maximum(tl.load(slots + row), 0)
    tile, inside = _tile(pool, slot, head, heads, P, N, BLOCK_P, BLOCK_N)
    state = _updated(tl.load(tile, mask=inside, other=0.0), x, B, decay, dt, group, row, head, heads, P, N, x_row, B_row,
                     BLOCK_P, BLOCK_N)
    tl.store(tile, state, mask=inside)
    y = tl.sum(state * _row_of(C, tl.load(group + head), row, N, C_row, BLOCK_N)[None, :], axis=1)
    _store_output(out, y, row, head, heads, P, BLOCK_P)


@triton.jit  # type: ignore[untyped-decorator]
def _overrunning_step(pool, slots, out, x, B, C, decay, dt, group, heads, P, N, x_row, B_row, C_row,  # type: ignore[no-untyped-def]
                      BLOCK_P: tl.constexpr, BLOCK_N: tl.constexpr):
    """The state tile is stored with the mask of its columns only."""
    row, head = tl.program_id(0), tl.program_id(1)
    slot = tl.load(slots + row)
    if slot >= 0:
        tile, inside = _tile(pool, slot, head, heads, P, N, BLOCK_P, BLOCK_N)
        state = _updated(tl.load(tile, mask=inside, other=0.0), x, B, decay, dt, group, row, head, heads, P, N, x_row, B_row,
                         BLOCK_P, BLOCK_N)
        tl.store(tile, state, mask=tl.arange(0, BLOCK_N)[None, :] < N)
        y = tl.sum(state * _row_of(C, tl.load(group + head), row, N, C_row, BLOCK_N)[None, :], axis=1)
        _store_output(out, y, row, head, heads, P, BLOCK_P)


class _TritonSession(StepSession):
    """Gates and finish on the host, state and readout in `kernel`."""

    kernel: Any = _step

    def run(self, layer: int, tokens: Mamba2Tokens, out: Tensor) -> None:
        e, geometry = self.evaluation, self.layers[layer]
        if any(length > 1 for slot, length in self.rows):
            raise ValueError(f"rows hold one token each, got {self.rows}")
        slots = torch.tensor([slot for slot, length in self.rows for _ in range(length)], dtype=torch.int64)
        dt = torch.stack([e.dt(geometry, raw) for raw in tokens.dt])
        decay = e.decay(e.decay_rate(geometry) * dt)
        y = torch.zeros(tuple(out.shape))
        self.kernel[(len(slots), geometry.heads)](
            self.states[layer], slots, y, tokens.x, tokens.B, tokens.C, decay, dt, e.group_of_head(geometry), geometry.heads,
            geometry.head_dim, geometry.state_dim, tokens.x.stride(0), tokens.B.stride(0), tokens.C.stride(0),
            BLOCK_P=triton.next_power_of_2(geometry.head_dim), BLOCK_N=triton.next_power_of_2(geometry.state_dim))
        for row in (slots >= 0).nonzero().flatten().tolist():
            token = tokens[slice(row, row + 1)].map(lambda t: t[0].to(e.number))
            out[row] = e.store_output(self.finish(geometry, y[row], token.x, token.z), out.dtype)


class _TF32Session(_TritonSession):
    kernel = _tf32_step


class _PadWritingSession(_TritonSession):
    kernel = _pad_writing_step


class _OverrunningSession(_TritonSession):
    kernel = _overrunning_step


def _kernel(name: str, session: type[_TritonSession]) -> HostKernel:
    policy = replace(STEP_CLAIMS.policy, paths={"step": Path(order="any")})
    return replace(STEP, claims=replace(STEP_CLAIMS, name=name, policy=policy, states=("fp32",)), session=session)


right = _kernel("triton-step", _TritonSession)
tf32_dot = _kernel("triton-tf32-dot", _TF32Session)
pad_row_writes = _kernel("triton-pad-row-writes", _PadWritingSession)
out_of_bounds_store = _kernel("triton-out-of-bounds-store", _OverrunningSession)
