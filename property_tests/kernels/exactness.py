"""Launches of whole numbers, whose answers are whole numbers in any order of sums; no test. For any device."""

from __future__ import annotations

import mmap
from dataclasses import replace
from math import prod
from typing import Any

import torch
from launches import DTYPES, made_inputs, made_pool
from torch import Tensor

from replaycheck_kernels import cursors, mamba2
from replaycheck_kernels.pool import Geometry, Pool, allocate

#: state, activation, heads, head dim, state dim, groups, capacity, D a number a row
WIDTHS: list[tuple[str, str, int, int, int, int, int, bool]] = [
    ("bf16", "bf16", 4, 60, 80, 1, 2, True), ("fp32", "bf16", 4, 80, 96, 2, 3, False), ("fp16", "fp16", 4, 96, 100, 4, 2, True),
    ("bf16", "bf16", 2, 100, 112, 2, 33, False), ("fp32", "fp32", 2, 112, 60, 1, 2, True), ("fp16", "fp16", 2, 20, 24, 1, 64, False),
    ("fp32", "bf16", 1, 256, 240, 1, 2, True), ("bf16", "fp16", 3, 36, 256, 3, 40, False),
]


def whole_inputs(geometry: Geometry, *, rows: int, activation: str, device: str, seed: int, skip_rows: bool) -> dict[str, Any]:
    """Keyword arguments of one launch of small whole numbers: decay exactly 1, dt held to 1."""
    generator = torch.Generator(device).manual_seed(seed)
    inputs = made_inputs(geometry, rows=rows, activation=activation, device=device, seed=seed)
    for name in ("x", "B", "C"):
        inputs[name] = torch.randint(-1, 2, inputs[name].shape, device=device, generator=generator).to(DTYPES[activation])
    skip = torch.randint(-4, 5, (geometry.heads, geometry.head_dim if skip_rows else 1), device=device, generator=generator).float()
    unit = torch.full((geometry.heads,), -0.0, device=device)
    dt = torch.randint(0, 3, inputs["dt"].shape, device=device, generator=generator).to(inputs["dt"].dtype)
    D = skip if skip_rows else skip[:, 0].contiguous()
    return {**inputs, "A": unit, "D": D, "dt_bias": None, "dt": dt, "softplus": False, "dt_limits": (1.0, 1.0)}


def exact_at(geometry: Geometry, *, state: str, activation: str, capacity: int, skip_rows: bool, device: str) -> bool:
    """Whether step and replay give the rational outputs on the last two steps of a window, and then the rational state."""
    generator = torch.Generator(device).manual_seed(geometry.state_dim)
    pool = made_pool(geometry, slots=2, state=state, activation=activation, capacity=capacity, device=device)
    assert pool.ring is not None
    pool.state.copy_(torch.randint(-3, 4, pool.state.shape, device=device, generator=generator))
    exact, steps = pool.state.double(), min(capacity, 2)
    heads_each, used = geometry.heads // geometry.groups, capacity - steps
    for ring in (pool.ring.x, pool.ring.B):
        past = torch.randint(-1, 2, ring[:, :, :used].shape, device=device, generator=generator)
        ring[:, :, :used] = past.to(ring.dtype)
    pool.ring.dt[:, :, :used] = 1.0
    pool.ring.cursor.fill_(used)
    rows = pool.ring.B[:, :, :used].double().repeat_interleave(heads_each, 1)
    exact = exact + torch.einsum("shcp,shcn->shpn", pool.ring.x[:, :, :used].double(), rows)
    stepped = replace(pool, state=exact.to(pool.state.dtype), ring=None)
    slots, holds = torch.tensor([1, -1, 0], dtype=torch.int32, device=device), True
    for token in range(steps):
        inputs = whole_inputs(geometry, rows=3, activation=activation, device=device, seed=token, skip_rows=skip_rows)
        x, B, C = (inputs[name][[2, 0]].double() for name in ("x", "B", "C"))
        B, C = B.repeat_interleave(heads_each, 1), C.repeat_interleave(heads_each, 1)
        exact = exact + x[..., None] * B[:, :, None]
        D = inputs["D"].double()
        wanted = torch.einsum("rhpn,rhn->rhp", exact, C) + (D if skip_rows else D[:, None]) * x
        for launch, given in ((mamba2.replay, pool), (mamba2.step, stepped)):
            out = launch(given, slots, **{**inputs, "out": inputs["out"].clone()})
            holds &= torch.equal(out[[2, 0]].double(), wanted) and bool((out[1] == 7).all())
        cursors.advance(pool.ring.cursor, slots, capacity=capacity)
    return holds and torch.equal(pool.state.double(), exact) and torch.equal(stepped.state.double(), exact)


def widths(device: str = "cpu") -> dict[str, bool]:
    """By build, whether it is exact."""
    return {
        f"exact {state} {activation} {heads} heads of {head_dim} x {state_dim}, {groups} groups, capacity {capacity}": exact_at(
            Geometry(heads=heads, head_dim=head_dim, state_dim=state_dim, groups=groups), state=state, activation=activation,
            capacity=capacity, skip_rows=skip_rows, device=device,
        )
        for state, activation, heads, head_dim, state_dim, groups, capacity, skip_rows in WIDTHS
    }


def views() -> dict[str, bool]:
    """Whether odd strides leave the bits alone: rows of a packed tensor, one row for all, dims of extent one with strides of their own."""
    geometry = Geometry(heads=1, head_dim=60, state_dim=20, groups=1)
    plain = made_inputs(geometry, rows=3, activation="bf16", device="cpu", gated=True)
    for name in ("x", "dt", "B", "C", "z"):
        plain[name] = plain[name][:1].expand_as(plain[name]).contiguous()
    alone = {n: plain[n][:1].expand_as(plain[n]) for n in ("x", "dt", "B", "C", "z")}
    odd = {n: plain[n].as_strided(plain[n].shape, (plain[n].stride(0), 7, 1)) for n in ("x", "B", "C", "z")}
    spaced = {n: torch.cat([plain[n], plain[n]], -1)[..., :plain[n].shape[-1]] for n in ("x", "dt", "B", "C", "z")}
    results = {
        name: _played(geometry, {**plain, **given}) for name, given in
        (("plain", {}), ("one row for all", alone), ("extent one", odd), ("every other", spaced))
    }
    return {f"view {name}": all(map(torch.equal, got, results["plain"])) for name, got in results.items()}


def _played(geometry: Geometry, inputs: dict[str, Any]) -> list[Tensor]:
    pool = made_pool(geometry, slots=3, state="bf16", activation="bf16", capacity=1, device="cpu")
    stepped = replace(pool, state=pool.state.clone(), ring=None)
    slots = torch.tensor([2, 0, 1], dtype=torch.int64)
    outs = [launch(given, slots, **{**inputs, "out": inputs["out"].clone()})
            for launch, given in ((mamba2.replay, pool), (mamba2.step, stepped))]
    return [*outs, pool.state, stepped.state]


def _sparse(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Zeros that take memory only where they are written."""
    del name
    count = prod(shape)
    reserved = mmap.mmap(-1, count * dtype.itemsize, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0))
    return torch.frombuffer(reserved, dtype=dtype, count=count).view(shape)


def _sparse_pool(geometry: Geometry, slots: int) -> Pool:
    return allocate(geometry, slots=slots, state=torch.bfloat16, activation=torch.bfloat16, capacity=2, allocator=_sparse)


def far_slots() -> dict[str, bool]:
    """Whether a slot past 2^31 and past 2^32 elements of the pool is the slot named, in launches of a pool that is nearly all holes."""
    found = {}
    geometry = Geometry(heads=2, head_dim=20, state_dim=24, groups=1)
    for power in (31, 32):
        last = 2**power // (2 * 20 * 24) + 1
        far, near = _sparse_pool(geometry, last + 1), _sparse_pool(geometry, 1)
        assert far.ring is not None and near.ring is not None and last * 2 * 20 * 24 > 2**power
        near.state[0].normal_(generator=torch.Generator().manual_seed(power))
        far.state[last] = near.state[0]
        same = True
        for token in range(3):
            inputs = made_inputs(geometry, rows=1, activation="bf16", device="cpu", seed=token)
            outs = []
            for pool, slot in ((far, last), (near, 0)):
                named, given = torch.tensor([slot], dtype=torch.int32), {**inputs, "out": inputs["out"].clone()}
                ring = pool.ring
                assert ring is not None
                outs.append((mamba2.step if token == 2 else mamba2.replay)(pool, named, **given))
                cursors.advance(ring.cursor, named, capacity=2)
            same &= torch.equal(*outs)
        same &= torch.equal(far.state[last], near.state[0]) and torch.equal(far.ring.x[last], near.ring.x[0])
        found[f"slot past 2^{power}"] = same and not bool(far.state[0].any())
    return found
