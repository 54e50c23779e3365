"""Lives of slots through our speculative kernels, on any device; no test. Rows have any length, keep any part, and lie in any order."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.append(str(Path(__file__).parent.parent / "kernels"))

from exactness import whole_inputs
from launches import DTYPES, made_pool, rows_of

from replaycheck_kernels import cursors, mamba2
from replaycheck_kernels.pool import Geometry, Pool, Ring, allocate, on_device

Inputs = dict[str, Any]


def turning_pool(geometry: Geometry, *, slots: int, state: str, activation: str, capacity: int, window: int, device: str) -> Pool:
    """States of small whole numbers, rings full of NaN, cursors at zero."""
    pool = allocate(geometry, slots=slots, state=DTYPES[state], activation=DTYPES[activation], capacity=capacity, window=window,
                    allocator=on_device(device))
    whole = torch.randint(-3, 4, pool.state.shape, generator=torch.Generator().manual_seed(slots))
    pool.state.copy_(whole)
    for buffer in (ring_of(pool).x, ring_of(pool).B, ring_of(pool).dt):
        buffer.fill_(float("nan"))
    return pool


def ring_of(pool: Pool) -> Ring:
    assert pool.ring is not None and pool.ring.origin is not None
    return pool.ring


@dataclass(frozen=True)
class Round:
    """One forward: rows of (slot, tokens of the row, how many are kept)."""

    rows: tuple[tuple[int, int, int], ...]

    def tensors(self, device: str) -> tuple[Tensor, Tensor, Tensor]:
        starts = [0]
        for _, length, _ in self.rows:
            starts.append(starts[-1] + length)
        made = ([slot for slot, _, _ in self.rows], starts, [count for _, _, count in self.rows])
        slots, packed, counts = (torch.tensor(values, dtype=torch.int32, device=device) for values in made)
        return slots, packed, counts


def rounds(seed: int, *, slots: tuple[int, ...], window: int, count: int) -> list[Round]:
    """Random rounds, with one pad row among them, rows of every length and commits of every count."""
    generator = random.Random(seed)
    made = []
    for _ in range(count):
        rows = []
        for slot in generator.sample((*slots, -1), len(slots) + 1):
            length = generator.randint(0, window)
            rows.append((slot, length, generator.randint(0, length)))
        made.append(Round(tuple(rows)))
    return made


@dataclass
class Truth:
    """What the accepted tokens make of one slot: state in float64, from tokens of decay 1 and step size 1."""

    state: Tensor
    pending: list[Tensor] = field(default_factory=list)

    def outputs(self, inputs: Inputs, tokens: range, geometry: Geometry, count: int) -> Tensor:
        """Outputs at every token of a row; the first `count` are accepted."""
        state, found = self.state, []
        each = geometry.heads // geometry.groups
        for place, token in enumerate(tokens):
            x = inputs["x"][token].double()
            B, C = (inputs[name][token].double().repeat_interleave(each, 0) for name in ("B", "C"))
            state = state + x[:, :, None] * B[:, None, :]
            D = inputs["D"].double()
            found.append((state * C[:, None, :]).sum(-1) + (D if D.dim() == 2 else D[:, None]) * x)
            if place + 1 == count:
                self.state = state
        return torch.stack(found)


def exact_life(*, state: str, activation: str, geometry: Geometry, capacity: int, window: int, seed: int, skip_rows: bool = False,
               device: str = "cpu") -> bool:
    """Whether every output of a random life is rational, and so is the state materialised after every round. Slots 0 and 2 live."""
    pool = turning_pool(geometry, slots=4, state=state, activation=activation, capacity=capacity, window=window, device=device)
    ring, holds = ring_of(pool), True
    truth = {slot: Truth(pool.state[slot].double()) for slot in (0, 3)}
    for number, made in enumerate(rounds(seed, slots=(0, 3), window=window, count=2 * capacity)):
        slots, starts, counts = made.tensors(device)
        total = int(starts[-1])
        inputs = whole_inputs(geometry, rows=total, activation=activation, device=device, seed=100 * seed + number, skip_rows=skip_rows)
        out = mamba2.verify(pool, slots, starts, **inputs)
        for row, (slot, length, count) in enumerate(made.rows):
            own = range(int(starts[row]), int(starts[row]) + length)
            if slot < 0 or not length:
                holds &= bool((out[own.start:own.stop] == 7).all())
            else:
                holds &= torch.equal(out[own.start:own.stop].double(), truth[slot].outputs(inputs, own, geometry, count))
        cursors.commit(ring.cursor, ring.origin, slots, starts, counts, capacity=capacity, window=window)   # type: ignore[arg-type]
        for slot in truth:
            mamba2.materialise(pool, torch.tensor([slot, -1]), torch.tensor([int(ring.cursor[slot]), 1], dtype=torch.int32),
                               torch.tensor([1, 2]), A=inputs["A"])
            holds &= torch.equal(pool.state[1].double(), truth[slot].state)
    return holds


def random_inputs(geometry: Geometry, total: int, seed: int, activation: str) -> Inputs:
    from launches import made_inputs

    return made_inputs(geometry, rows=total, activation=activation, device="cpu", seed=seed, gated=True)


def causal(*, state: str, activation: str, capacity: int, window: int) -> bool:
    """Whether the first outputs of a row have the same bits however many drafts follow them, at every cursor."""
    geometry, holds = Geometry(heads=2, head_dim=16, state_dim=20, groups=1), True
    inputs = random_inputs(geometry, window, 5, activation)
    for used in range(capacity + 1):
        longest: Tensor | None = None
        for length in range(window, 0, -1):
            pool = turning_pool(geometry, slots=1, state=state, activation=activation, capacity=capacity, window=window, device="cpu")
            ring = ring_of(pool)
            generator = torch.Generator().manual_seed(used)
            for buffer in (ring.x, ring.B):
                buffer[:, :, :used] = torch.randn(buffer[:, :, :used].shape, generator=generator).to(buffer.dtype)
            ring.dt[:, :, :used] = 0.25
            ring.cursor.fill_(used)
            some = rows_of(inputs, torch.arange(length))
            out = mamba2.verify(pool, torch.tensor([0]), torch.tensor([0, length], dtype=torch.int32), **some)
            longest = out if longest is None else longest
            holds &= torch.equal(out, longest[:length])
    return holds


def traceless(*, state: str, activation: str, draft: float) -> bool:
    """Whether a life whose rejected drafts hold `draft` ends in the bits of one whose drafts are ordinary; outputs of rounds in which
    a draft was rejected are left out where it is NaN, but for the pads."""
    geometry = Geometry(heads=2, head_dim=16, state_dim=20, groups=2)
    results = []
    for fill in (None, draft):
        pool = turning_pool(geometry, slots=3, state=state, activation=activation, capacity=5, window=4, device="cpu")
        ring, kept = ring_of(pool), []
        for number, made in enumerate(rounds(3, slots=(0, 2), window=4, count=12)):
            slots, starts, counts = made.tensors("cpu")
            inputs = random_inputs(geometry, int(starts[-1]), number, activation)
            accepted = torch.zeros(int(starts[-1]), dtype=torch.bool)
            for row, (slot, length, count) in enumerate(made.rows):
                accepted[int(starts[row]):int(starts[row]) + count] = slot >= 0
                whole = count == length or draft == draft
                kept.append((int(starts[row]), count if whole and slot >= 0 else 0))
            if fill is not None:
                for name in ("x", "B", "C", "dt", "z"):
                    inputs[name][~accepted] = fill
            out = mamba2.verify(pool, slots, starts, **inputs)
            results.append(torch.cat([out[first:first + count] for first, count in kept]))
            kept.clear()
            cursors.commit(ring.cursor, ring.origin, slots, starts, counts, capacity=5, window=4)     # type: ignore[arg-type]
        results += [pool.state.clone(), ring.cursor.clone()]
    half = len(results) // 2
    return all(torch.equal(a, b) for a, b in zip(results[:half], results[half:], strict=True))


def saved_is_stepped(*, state: str, activation: str) -> bool:
    """Whether verify_saving and restore have the bits of step, token by token, over a random life."""
    geometry = Geometry(heads=2, head_dim=20, state_dim=24, groups=1)
    pool = made_pool(geometry, slots=3, state=state, activation=activation, capacity=None, device="cpu")
    plain = made_pool(geometry, slots=3, state=state, activation=activation, capacity=None, device="cpu")
    saved, holds = torch.full((3, 4, *pool.state.shape[1:]), float("nan"), dtype=pool.state.dtype), True
    for number, made in enumerate(rounds(7, slots=(0, 2), window=4, count=8)):
        slots, starts, counts = made.tensors("cpu")
        inputs = random_inputs(geometry, int(starts[-1]), number, activation)
        out = mamba2.verify_saving(pool, saved, slots, starts, **inputs)
        mamba2.restore(pool, saved, slots, starts, counts)
        for row, (slot, _, count) in enumerate(made.rows):
            for token in range(int(starts[row]), int(starts[row]) + count):
                one = rows_of(inputs, torch.tensor([token]))
                stepped = mamba2.step(plain, torch.tensor([slot]), **one)
                holds &= torch.equal(stepped[0], out[token])
        holds &= torch.equal(pool.state, plain.state)
    return holds


def packed_is_alone(*, state: str, activation: str) -> bool:
    """Whether a row has the same bits alone as among others, in any order, tokens packed with odd strides or not."""
    geometry = Geometry(heads=4, head_dim=20, state_dim=24, groups=2)
    made = Round(((2, 3, 0), (-1, 2, 0), (0, 4, 0), (1, 0, 0), (3, 1, 0)))
    slots, starts, _ = made.tensors("cpu")
    inputs, outs, states = random_inputs(geometry, 10, 1, activation), [], []
    for order in ((0, 1, 2, 3, 4), (4, 2, 0), (2,)):
        pool = turning_pool(geometry, slots=4, state=state, activation=activation, capacity=4, window=4, device="cpu")
        chosen = Round(tuple(made.rows[row] for row in order))
        some, packed, _ = chosen.tensors("cpu")
        tokens = torch.cat([torch.arange(int(starts[row]), int(starts[row + 1])) for row in order])
        out = mamba2.verify(pool, some, packed, **rows_of(inputs, tokens))
        place = order.index(2)
        outs.append(out[int(packed[place]):int(packed[place + 1])])
        states.append(ring_of(pool).x[0])
    return all(torch.equal(out, outs[0]) for out in outs) and all(torch.equal(s.nan_to_num(), states[0].nan_to_num()) for s in states)
