"""Our speculative kernels: exact where all is rational, causal, the same alone and packed, and without a trace of rejected drafts."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from lives import turning_pool

from replaycheck.adapters.mamba2 import replay
from replaycheck.compile import compile_launches, compile_measurements
from replaycheck.interpreter.recorder import Launch
from replaycheck_kernels import cursors, mamba2
from replaycheck_kernels.pool import Geometry, allocate, on_device

GEOMETRY = Geometry(heads=2, head_dim=16, state_dim=16, groups=1)


@pytest.mark.parametrize("relation", ["exact", "causal", "alone", "saved", "no trace", "reset"])
def test_a_relation_holds_in_every_format(interpreted: dict[str, Any], relation: str) -> None:
    held = {name: holds for name, holds in interpreted["relations"].items() if name.startswith(relation)}
    assert held and [name for name, holds in held.items() if not holds] == []


def test_every_launch_compiles_for_sm_90_to_what_replay_declares(interpreted: dict[str, Any]) -> None:
    launches = [Launch.from_json(told) for told in interpreted["launches"]]
    assert {launch.qualname for launch in launches} == {
        "verify_kernel", "materialise_kernel", "verify_saving_kernel", "restore_kernel", "commit_kernel", "reset_kernel",
    }
    for compiled in compile_launches(launches, timeout=300):
        for measurement in compile_measurements([compiled], replay.claims):
            assert measurement.passed and not measurement.suspicious, measurement.diagnosis


def test_a_wrong_argument_is_named_with_its_value() -> None:
    pool = turning_pool(GEOMETRY, slots=2, state="fp32", activation="bf16", capacity=4, window=2, device="cpu")
    slots, starts = torch.tensor([0]), torch.tensor([0, 1], dtype=torch.int32)
    for rows, message in (
        ((slots.float(), starts), r"slots must be contiguous int32 or int64 \[rows\], got torch.float32 \[1\]"),
        ((slots, starts.long()), r"starts must be contiguous int32 \[2\], one more than rows, got torch.int64 \[2\]"),
        ((slots, starts[:1]), r"starts must be contiguous int32 \[2\], one more than rows, got torch.int32 \[1\]"),
    ):
        with pytest.raises(ValueError, match=message):
            mamba2.verify(pool, *rows, **dict.fromkeys(("x", "dt", "B", "C", "A")))   # type: ignore[arg-type]
    plain = allocate(GEOMETRY, slots=1, state=torch.float32, capacity=4, allocator=on_device("cpu"))
    with pytest.raises(ValueError, match="pool must have a ring that turns"):
        mamba2.verify(plain, slots, starts, **dict.fromkeys(("x", "dt", "B", "C", "A")))   # type: ignore[arg-type]
    with pytest.raises(ValueError, match=re.escape("prefixes must be contiguous torch.int32 [pairs] on cpu, got torch.int64 [1]")):
        mamba2.materialise(pool, slots, slots, slots, A=torch.zeros(2))


def test_unsupported_windows_are_named() -> None:
    for capacity, window, message in ((2, 3, "at most capacity = 2, got 3"), (32, 17, "window must be from 0 to 16 and .*, got 17")):
        with pytest.raises(ValueError, match=message):
            allocate(GEOMETRY, slots=1, state=torch.float32, capacity=capacity, window=window, allocator=on_device("cpu"))
    cursor, starts = torch.zeros(1, dtype=torch.int32), torch.zeros(2, dtype=torch.int32)
    with pytest.raises(ValueError, match="window must be from 1 to 16 and at most capacity = 2, got 3"):
        cursors.commit(cursor, cursor.clone(), torch.tensor([0]), starts, starts[:1], capacity=2, window=3)
    with pytest.raises(ValueError, match=r"counts must be contiguous int32 \[1\], got torch.int32 \[2\]"):
        cursors.commit(cursor, cursor.clone(), torch.tensor([0]), starts, starts, capacity=2, window=2)
