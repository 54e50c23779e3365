"""Many policies, decays, drives and seeds: run in processes, kept as they are done, taken up again where a run ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import torch

from .cells import Cell
from .engine import check, simulate
from .storage import Storage

__all__ = ["Band", "Grid", "Job", "bands", "run_grid"]

#: Told after every job: jobs done, jobs in all, what was done.
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, kw_only=True)
class Job:
    """What one process does at a time: every decay and drive of one policy and seed."""

    storage: Storage
    seed: int


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What is run. elements: of a cell. seeds: how many. Raises ValueError naming the thing and the value."""

    formats: tuple[str, ...] = ("fp16", "bf16", "fp8_e4m3", "int8")
    roundings: tuple[str, ...] = ("nearest", "stochastic")
    periods: tuple[int, ...] = (1, 4, 16, 64)
    decays: tuple[float, ...] = (0.9, 0.99, 0.999, 0.9999)
    drives: tuple[str, ...] = ("zero-mean", "positive")
    elements: int = 256
    steps: int = 16384
    seeds: int = 1

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise ValueError(f"seeds must be at least 1, got {self.seeds}")
        for job in self.jobs():
            check(self.decays, self.drives, self.elements, self.steps, job.storage.period)

    def jobs(self) -> list[Job]:
        """Longest first, so that processes end together."""
        storages = [Storage(format=name, rounding=rounding, period=period)
                    for period in sorted(self.periods) for name in self.formats for rounding in self.roundings]
        return [Job(storage=storage, seed=seed) for storage in storages for seed in range(self.seeds)]


@dataclass(frozen=True, kw_only=True)
class Band:
    """Cells that differ in their seed alone."""

    cells: tuple[Cell, ...]

    @property
    def first(self) -> Cell:
        return self.cells[0]

    def of(self, value: Callable[[Cell], float]) -> tuple[float, float, float]:
        """Smallest, mean and largest over the seeds."""
        values = [value(cell) for cell in self.cells]
        return min(values), sum(values) / len(values), max(values)


def bands(cells: Sequence[Cell]) -> list[Band]:
    """Cells put together over their seeds, in the order of the first of each."""
    found: dict[tuple[Storage, float, str], list[Cell]] = {}
    for cell in cells:
        found.setdefault((cell.storage, cell.decay, cell.drive), []).append(cell)
    return [Band(cells=tuple(sorted(group, key=lambda cell: cell.seed))) for group in found.values()]


def run_grid(
    grid: Grid, *, processes: int = 1, device: str = "cpu", kept: Path | None = None, progress: Progress | None = None,
) -> list[Cell]:
    """The cells of a grid, in the order of its jobs, whatever the number of processes.

    kept: a file of one line a job, added to as jobs are done. What it holds already of the same size, horizon and device is not run again.
    """
    jobs = grid.jobs()
    key = {"decays": list(grid.decays), "drives": list(grid.drives), "elements": grid.elements, "steps": grid.steps, "device": device}
    done = {job: cells for job, cells in _read(kept, key) if job in set(jobs)} if kept is not None else {}
    todo = [job for job in jobs if job not in done]
    for job, cells in _computed(todo, grid, processes, device):
        done[job] = cells
        if kept is not None:
            with kept.open("a") as file:
                file.write("\n" + json.dumps({**key, "seed": job.seed, "cells": [cell.to_json() for cell in cells]}))
        if progress is not None:
            progress(len(done), len(jobs), job.storage.label)
    return [cell for job in jobs for cell in done[job]]


def _computed(jobs: Sequence[Job], grid: Grid, processes: int, device: str) -> Iterator[tuple[Job, list[Cell]]]:
    if processes == 1 or len(jobs) < 2:
        for job in jobs:
            yield job, _one(job, grid, device)
        return
    with ProcessPoolExecutor(min(processes, len(jobs)), mp_context=get_context("spawn"),
                             initializer=torch.set_num_threads, initargs=(1,)) as pool:
        running = {pool.submit(_one, job, grid, device): job for job in jobs}
        try:
            for future in as_completed(running):
                yield running[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _one(job: Job, grid: Grid, device: str) -> list[Cell]:
    return simulate(job.storage, decays=grid.decays, drives=grid.drives, elements=grid.elements, steps=grid.steps, seed=job.seed,
                    device=device)


def _read(kept: Path, key: dict[str, object]) -> Iterator[tuple[Job, list[Cell]]]:
    """What a file holds of runs with this key. Every line begins with its end of line: a run that was killed leaves half of one, alone."""
    for line in kept.read_text().splitlines() if kept.is_file() else ():
        try:
            data = json.loads(line)
        except ValueError:
            continue
        if {name: data[name] for name in key} == key:
            cells = [Cell.from_json(cell) for cell in data["cells"]]
            yield Job(storage=cells[0].storage, seed=data["seed"]), cells
