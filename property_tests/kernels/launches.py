"""Random launches of our kernels, on any device; no test. Used by the tests of a device and by the process that interprets."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from replaycheck_kernels.pool import Geometry, Pool, allocate, on_device

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def made_pool(
    geometry: Geometry, *, slots: int, state: str, activation: str, capacity: int | None, window: int = 0, device: str, seed: int = 0
) -> Pool:
    """A pool of random states with rings full of NaN."""
    generator = torch.Generator(device).manual_seed(seed)
    pool = allocate(
        geometry, slots=slots, state=DTYPES[state], activation=DTYPES[activation], capacity=capacity, window=window,
        allocator=on_device(device)
    )
    pool.state.normal_(generator=generator)
    if pool.ring is not None:
        for ring in (pool.ring.x, pool.ring.B, pool.ring.dt):
            ring.fill_(float("nan"))
    return pool


def made_inputs(
    geometry: Geometry, *, rows: int, activation: str, output: str = "fp32", device: str, seed: int = 0, packed: bool = False,
    gated: bool = False, skip_rows: bool = False,
) -> dict[str, Any]:
    """Keyword arguments of one launch. packed: x, z, B, C and dt are slices of one tensor with odd row stride."""
    g, generator = geometry, torch.Generator(device).manual_seed(seed)
    sizes = {"x": g.heads * g.head_dim, "z": g.heads * g.head_dim, "B": g.groups * g.state_dim, "C": g.groups * g.state_dim, "dt": g.heads}
    shapes = {
        "x": (g.heads, g.head_dim), "z": (g.heads, g.head_dim), "B": (g.groups, g.state_dim), "C": (g.groups, g.state_dim), "dt": (g.heads,)
    }
    whole = torch.empty(rows, sum(sizes.values()) + 3, device=device).normal_(generator=generator).to(DTYPES[activation])
    inputs: dict[str, Any] = {}
    start = 0
    for name, size in sizes.items():
        part = whole[:, start:start + size].view(rows, *shapes[name])
        inputs[name] = part if packed else part.contiguous()
        start += size
    if not gated:
        inputs["z"] = None
    return {
        **inputs, "out": torch.full((rows, *shapes["x"]), 7.0, dtype=DTYPES[output], device=device),
        "A": -torch.rand(g.heads, device=device, generator=generator),
        "D": torch.ones(shapes["x"] if skip_rows else g.heads, device=device),
        "dt_bias": torch.full((g.heads,), -2.0, device=device),
    }


def rows_of(inputs: dict[str, Any], chosen: Tensor) -> dict[str, Any]:
    """The launch of some rows, in the order chosen."""
    per_row = ("x", "z", "B", "C", "dt", "out")
    return {name: value[chosen] if name in per_row and value is not None else value for name, value in inputs.items()}
