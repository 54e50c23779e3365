"""Run by conftest.py in a process that interprets kernels: python interpreted.py ANSWER.json."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import torch
from cursor_model import Ring, cells
from lives import causal, exact_life, packed_is_alone, random_inputs, saved_is_stepped, traceless, turning_pool

from replaycheck import interpreter
from replaycheck.interpreter.recorder import record
from replaycheck_kernels import cursors, mamba2
from replaycheck_kernels.pool import Geometry

#: state, activation, geometry (heads, head dim, state dim, groups), capacity, window, D a number a row
EXACT: list[tuple[str, str, tuple[int, int, int, int], int, int, bool]] = [
    ("fp32", "bf16", (2, 16, 16, 1), 1, 1, False), ("bf16", "bf16", (4, 20, 24, 2), 3, 3, False),
    ("fp16", "fp16", (2, 36, 16, 1), 6, 3, True), ("fp32", "fp32", (3, 16, 20, 3), 5, 2, True),
    ("fp32", "bf16", (2, 20, 20, 1), 16, 16, False),
]
PAIRS = [("fp32", "bf16"), ("bf16", "bf16"), ("fp16", "fp16"), ("fp32", "fp32")]


def relations() -> dict[str, bool]:
    found = {
        f"exact {state} {activation} {dims} capacity {capacity} window {window}": exact_life(
            state=state, activation=activation, geometry=Geometry(heads=dims[0], head_dim=dims[1], state_dim=dims[2], groups=dims[3]),
            capacity=capacity, window=window, seed=capacity, skip_rows=skip_rows,
        )
        for state, activation, dims, capacity, window, skip_rows in EXACT
    }
    for state, activation in PAIRS:
        named = {"state": state, "activation": activation}
        found[f"causal {state} {activation}"] = causal(**named, capacity=4, window=4)
        found[f"alone {state} {activation}"] = packed_is_alone(**named)
        found[f"saved {state} {activation}"] = saved_is_stepped(**named)
        for draft in (1e4, -1e4, float("nan")):
            found[f"no trace of {draft} {state} {activation}"] = traceless(**named, draft=draft)
    return found


def differing_cells(capacity: int, window: int) -> list[list[int]]:
    """Cells (used, origin, length, count) in which the device moves the cursors elsewhere than the model; every other row is a pad."""
    every = list(cells(capacity, window))
    slots = torch.tensor([slot for i in range(len(every)) for slot in (i, -1)], dtype=torch.int32)
    lengths = torch.tensor([length for cell in every for length in (cell[2], window)])
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).to(torch.int32)
    counts = torch.tensor([count for cell in every for count in (cell[3], window)], dtype=torch.int32)
    cursor = torch.tensor([cell[0] for cell in every], dtype=torch.int32)
    origin = torch.tensor([cell[1] for cell in every], dtype=torch.int32)
    cursors.commit(cursor, origin, slots, starts, counts, capacity=capacity, window=window)
    wrong = []
    for i, (used, oldest, length, count) in enumerate(every):
        ring = Ring(capacity, window, used=used, origin=oldest)
        ring.round(list(range(length)), min(max(count, 0), length))
        if [int(cursor[i]), int(origin[i])] != [ring.used, ring.origin]:
            wrong.append([used, oldest, length, count])
    return wrong


def resets() -> bool:
    cursor, origin = torch.full((2, 5), 3, dtype=torch.int32)
    cursors.reset(cursor, origin, torch.tensor([4, -1, 0]))
    return cursor.tolist() == origin.tolist() == [0, 3, 3, 3, 0]


def launches() -> list[dict[str, Any]]:
    """One launch of every kernel, and one of verify for each way it multiplies, as JSON."""
    geometry, pads, starts = Geometry(heads=2, head_dim=64, state_dim=128, groups=1), torch.tensor([-1]), torch.tensor([0, 1]).int()
    with record() as made:
        for state, activation in PAIRS[:2] + PAIRS[3:]:
            pool = turning_pool(geometry, slots=1, state=state, activation=activation, capacity=16, window=4, device="cpu")
            mamba2.verify(pool, pads, starts, **random_inputs(geometry, 1, 0, activation))
        mamba2.materialise(pool, pads, starts[:1], pads, A=-torch.ones(2))
        saved = pool.state.unsqueeze(1).contiguous()
        mamba2.verify_saving(pool, saved, pads, starts, **random_inputs(geometry, 1, 0, "fp32"))
        mamba2.restore(pool, saved, pads, starts, starts[:1])
        ring = pool.ring
        assert ring is not None and ring.origin is not None
        cursors.commit(ring.cursor, ring.origin, pads, starts, starts[:1], capacity=16, window=4)
        cursors.reset(ring.cursor, ring.origin, pads)
    return [launch.to_json() for launch in made]


if __name__ == "__main__":
    interpreter.install()
    sizes = [(capacity, window) for capacity, window in itertools.product(range(1, 9), repeat=2) if window <= capacity]
    wrong = {f"capacity {capacity}, window {window}": differing_cells(capacity, window) for capacity, window in sizes}
    Path(sys.argv[1]).write_text(json.dumps(
        {"relations": {**relations(), "reset": resets()}, "cells": wrong, "launches": launches()}
    ))
