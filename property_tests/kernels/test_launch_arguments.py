"""A launch that cannot be served is refused in one line that names the argument."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from launches import made_inputs, made_pool

from replaycheck_kernels import cursors, mamba2
from replaycheck_kernels.pool import Geometry, allocate, on_device

GEOMETRY = Geometry(heads=2, head_dim=16, state_dim=16, groups=1)
SLOTS = torch.tensor([0, 1], dtype=torch.int32)


def _launch(*, kind: str = "replay", **changed: Any) -> None:
    pool = made_pool(GEOMETRY, slots=2, state="fp32", activation="bf16", capacity=4, device="cpu")
    launch = mamba2.replay if kind == "replay" else mamba2.step
    pool, slots = changed.pop("pool", pool), changed.pop("slots", SLOTS)
    launch(pool, slots, **{**made_inputs(GEOMETRY, rows=2, activation="bf16", device="cpu"), **changed})


@pytest.mark.parametrize("kind", ["step", "replay"])
@pytest.mark.parametrize(("name", "value", "message"), [
    ("x", torch.zeros(2, 2, 8, dtype=torch.bfloat16), r"x must be \[2, 2, 16\], got \[2, 2, 8\]"),
    ("x", torch.zeros(3, 2, 16, dtype=torch.bfloat16), r"x must be \[2, 2, 16\], got \[3, 2, 16\]"),
    ("x", torch.zeros(2, 16, 2, dtype=torch.bfloat16).transpose(1, 2), "x must be contiguous inside a row, got strides"),
    ("B", torch.zeros(2, 1, 16), "B must be torch.bfloat16, got torch.float32"),
    ("dt", torch.zeros(2, 2, dtype=torch.int32), "dt must be torch.float32 or torch.float16 or torch.bfloat16, got torch.int32"),
    ("A", torch.zeros(2, dtype=torch.bfloat16), r"A must be contiguous float32 \[2\], got torch.bfloat16"),
    ("D", torch.zeros(3), r"D must be contiguous float32 \[2\] or \[2, 16\], got torch.float32 \[3\]"),
    ("out", torch.zeros(2, 2, 32)[:, :, ::2], "out must be contiguous inside a row"),
    ("out", torch.zeros(1, 2, 16).expand(2, 2, 16), "rows of out must not overlap, got row stride 0"),
    ("dt_limits", (0.5, 0.25), r"dt_limits must be fp32 numbers with 0 <= low <= high, got \(0.5, 0.25\)"),
    ("dt_limits", (0.1, 0.25), r"dt_limits must be fp32 numbers with 0 <= low <= high, got \(0.1, 0.25\)"),
    ("slots", torch.zeros(2), r"slots must be contiguous int32 or int64 \[rows\], got torch.float32"),
    ("slots", torch.zeros(2, 1, dtype=torch.int32), r"slots must be contiguous int32 or int64 \[rows\]"),
])  # fmt: skip
def test_a_wrong_argument_is_named_with_its_value(kind: str, name: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        _launch(kind=kind, **{name: value})
    assert "\n" not in str(refused.value)


def test_replay_needs_a_ring_and_its_dtype() -> None:
    step_pool = made_pool(GEOMETRY, slots=2, state="fp32", activation="bf16", capacity=None, device="cpu")
    with pytest.raises(ValueError, match="pool must have a ring"):
        _launch(pool=step_pool)
    with pytest.raises(ValueError, match="x must be torch.bfloat16, got torch.float32"):
        _launch(**made_inputs(GEOMETRY, rows=2, activation="fp32", device="cpu"))


@pytest.mark.parametrize(("dims", "message"), [
    ({"head_dim": 18}, "head_dim must be a multiple of 4 from 16 to 256, got 18"),
    ({"state_dim": 12}, "state_dim must be a multiple of 4 from 16 to 256, got 12"),
    ({"state_dim": 260}, "state_dim must be a multiple of 4 from 16 to 256, got 260"),
    ({"groups": 3}, "groups must divide heads = 4, got 3"),
    ({"heads": 0}, "heads must be at least 1, got 0"),
])  # fmt: skip
def test_unsupported_dims_are_named(dims: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Geometry(**{"heads": 4, "head_dim": 16, "state_dim": 16, "groups": 2, **dims})


def test_unsupported_pools_are_named() -> None:
    for changed, message in (
        ({"capacity": 65}, "capacity must be from 1 to 64, got 65"), ({"slots": 0}, "slots must be at least 1, got 0"),
        ({"state": torch.float64}, "state must be float32, float16 or bfloat16, got torch.float64"),
        ({"cursor": torch.zeros(3, dtype=torch.int32)}, r"cursor must be int32 \[2\], got torch.int32 \(3,\)"),
    ):  # fmt: skip
        arguments: dict[str, Any] = {"slots": 2, "state": torch.float32, "capacity": 4, "allocator": on_device("cpu"), **changed}
        with pytest.raises(ValueError, match=message):
            allocate(GEOMETRY, **arguments)
    with pytest.raises(ValueError, match="the allocator must return contiguous"):
        allocate(GEOMETRY, slots=2, state=torch.float32, allocator=lambda name, shape, dtype: torch.zeros(1, dtype=dtype))


def test_a_wrong_cursor_is_named() -> None:
    with pytest.raises(ValueError, match=r"cursor must be contiguous int32 \[slots\], got torch.int64"):
        cursors.advance(torch.zeros(2, dtype=torch.int64), SLOTS, capacity=4)
    with pytest.raises(ValueError, match="capacity must be at least 1, got 0"):
        cursors.advance(torch.zeros(2, dtype=torch.int32), SLOTS, capacity=0)
