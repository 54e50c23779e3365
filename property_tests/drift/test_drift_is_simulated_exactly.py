"""Trajectories of drift: exact ones confirmed in balls, stored ones against one element at a time, runs that stop and go on."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from replaycheck.drift.cells import Cell, half_life
from replaycheck.drift.confirm import confirm
from replaycheck.drift.drives import DRIVES, Drives, amplitude
from replaycheck.drift.engine import marks_of, simulate
from replaycheck.drift.grid import Grid, bands, run_grid
from replaycheck.drift.storage import ROW, Storage
from replaycheck_reference.formats.arrays import round_to

DECAYS = (0.9, 0.999)
SMALL = Grid(formats=("bf16", "int8"), roundings=("nearest",), periods=(1, 4), decays=(0.99,), drives=("positive",), steps=128, seeds=2)


@pytest.mark.parametrize("period", [1, 3, 16])
def test_exact_trajectories_lie_within_their_bound_of_balls(period: int) -> None:
    pytest.importorskip("flint")
    cells = simulate(Storage(format="bf16", period=period), decays=DECAYS, drives=DRIVES, elements=ROW, steps=1000, seed=3)
    found = confirm(cells)
    assert found.elements == 12 and 0 < found.worst <= 1
    assert all(cell.marks[-1].bound < 1e-9 for cell in cells)


def test_a_wrong_trajectory_is_refuted_by_balls() -> None:
    pytest.importorskip("flint")
    cell, = simulate(Storage(format="bf16"), decays=(0.99,), drives=("positive",), elements=ROW, steps=200, seed=3)
    off = Cell(**{**vars(cell), "samples": (cell.samples[0] * (1 + 1e-9), cell.samples[1])})
    assert confirm([off]).worst > 1


@pytest.mark.parametrize("period", [1, 3])
def test_a_stored_trajectory_is_the_recurrence_taken_token_by_token(period: int) -> None:
    steps, decay = 60, 0.97
    cell, = simulate(Storage(format="bf16", period=period), decays=(decay,), drives=("positive",), elements=ROW, steps=steps, seed=1)
    made = Drives([decay], ["positive"], elements=ROW, period=1, seed=1, device="cpu")
    stored = exact = torch.zeros(ROW, dtype=torch.float64)
    for step, noise in enumerate(made.noise(steps), start=1):
        d = noise.abs() * amplitude("positive", decay) * made.level[0]
        stored, exact = decay * stored + d, decay * exact + d
        if step % period == 0:
            stored = round_to(stored, "bf16")
    mark, error = cell.marks[-1], stored - exact
    assert mark.step == steps
    # a value as near as 2^-45 to halfway may be rounded the other way where sums are taken in another order; none of these is
    assert math.isclose(mark.error, float(error.square().mean().sqrt()), rel_tol=1e-9)
    assert math.isclose(mark.bias, float(error.mean()), rel_tol=1e-9)
    assert math.isclose(mark.state, float(exact.square().mean().sqrt()), rel_tol=1e-9)
    assert math.isclose(mark.spread**2 + mark.bias**2, mark.error**2, rel_tol=1e-9)


def test_tokens_are_the_same_for_every_policy_of_a_seed() -> None:
    ends = {simulate(Storage(format=name, rounding=rounding, period=period), decays=(0.9,), drives=("zero-mean",), elements=ROW, steps=240,
                     seed=5)[0].samples[0]
            for name, rounding, period in (("bf16", "nearest", 1), ("int8", "stochastic", 1), ("fp32", "truncate", 1))}
    assert len(ends) == 1
    tokens = [Drives([0.9], ["zero-mean"], elements=ROW, period=1, seed=5, device="cpu") for _ in range(2)]
    assert torch.equal(tokens[0].noise(6), torch.cat([tokens[1].noise(1), tokens[1].noise(2), tokens[1].noise(3)]))


def test_a_store_that_never_moves_is_frozen() -> None:
    """1 - 0.9999 is below a quarter of the unit of bf16: the decay of no mantissa is half a unit."""
    cell, = simulate(Storage(format="bf16"), decays=(0.9999,), drives=("decay-only",), elements=ROW, steps=512, seed=0)
    assert all(mark.frozen == 1 for mark in cell.marks) and cell.marks[-1].relative > 0.04
    moving, = simulate(Storage(format="bf16", rounding="stochastic"), decays=(0.9999,), drives=("decay-only",), elements=ROW, steps=512,
                       seed=0)
    assert moving.marks[-1].frozen > 0.9 and abs(moving.marks[-1].bias) < 0.01


def test_marks_come_right_after_a_store() -> None:
    assert marks_of(1000, 1) == [64, 128, 256, 512, 1000]
    assert marks_of(1000, 48) == [48, 96, 240, 480, 960]
    assert half_life(0.5) == 1


def test_processes_give_the_same_cells() -> None:
    assert run_grid(SMALL, processes=2) == run_grid(SMALL)


def test_a_run_goes_on_where_it_was_cut_off(tmp_path: Path) -> None:
    kept, told = tmp_path / "drift.jsonl", []
    cells = run_grid(SMALL, kept=kept)
    lines = kept.read_text().splitlines()
    kept.write_text("\n".join(lines[:3]) + "\n" + lines[3][:100])
    again = run_grid(SMALL, kept=kept, progress=lambda done, total, label: told.append((done, total)))
    assert again == cells and told == [(n, 8) for n in range(3, 9)]
    assert run_grid(SMALL, kept=kept, progress=lambda *_: pytest.fail("nothing is left to run")) == cells
    other = Grid(**{**vars(SMALL), "steps": 64})
    assert run_grid(other, kept=kept)[0].marks[-1].step == 64
    assert all(math.isfinite(value) for line in kept.read_text().split("\n") if line.endswith("}")
               for cell in json.loads(line)["cells"] for mark in cell["marks"] for value in mark.values())


def test_bands_are_over_seeds_alone() -> None:
    found = bands(run_grid(SMALL))
    assert len(found) == 4 and all(len(band.cells) == 2 for band in found)
    low, mean, high = found[0].of(lambda cell: cell.marks[-1].relative)
    assert low < mean < high


@pytest.mark.parametrize(("fields", "said"), [
    ({"decays": (1.0,)}, "decay must be between 0 and 1, got 1.0"), ({"drives": ("loud",)}, "drive must be one of"),
    ({"elements": 100}, "elements must be a multiple of 256, got 100"), ({"steps": 10}, "steps must be at least the period 16, got 10"),
    ({"seeds": 0}, "seeds must be at least 1, got 0"), ({"formats": ("fp12",)}, "format must be one of"),
])
def test_a_run_that_cannot_be_is_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Grid(**fields)  # type: ignore[arg-type]
