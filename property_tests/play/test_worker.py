"""Whatever a kernel does to its process, the parent goes on and says in one line what happened."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from replaycheck.cases.case import Case
from replaycheck.cases.schedule import mixed
from replaycheck.contract.bits import same_bits
from replaycheck.contract.claims import Formats
from replaycheck.contract.errors import KernelError, UsageError
from replaycheck.faults.base import STEP
from replaycheck.play.player import play
from replaycheck.play.worker import Worker

KERNELS = Path(__file__).parent / "kernels_for_workers.py"


def _case(seed: int) -> Case:
    return Case(name="worker", heads=2, head_dim=4, state_dim=4, slots=3, seed=seed, formats=Formats(state="bf16"),
                schedule=mixed(0, slots=3, forwards=4))


@pytest.fixture(scope="module")
def dying() -> Iterator[Worker]:
    with Worker(f"{KERNELS}:dying", time_limit=60, memory_limit=1 << 30) as worker:
        yield worker


def test_a_play_in_a_worker_is_the_play_in_process_bit_for_bit(dying: Worker) -> None:
    case = _case(0)
    there, here = dying.play(case), play(STEP, case)
    assert there.case is case and there.findings == here.findings
    assert there.outputs.keys() == here.outputs.keys() and len(there.windows) == len(here.windows) > 0
    assert all(same_bits(there.outputs[key], here.outputs[key]) for key in here.outputs)
    assert all(same_bits(one.start, two.start) and same_bits(one.tokens.dt, two.tokens.dt) and one.steps == two.steps
               for one, two in zip(there.windows, here.windows, strict=True))
    assert there.windows[0].start.dtype == torch.bfloat16


def test_a_play_is_made_once_and_another_take_is_another_play(dying: Worker) -> None:
    case = _case(0)
    assert dying.play(case) is dying.play(case)
    assert dying.play(case, take=1) is not dying.play(case)
    assert dying.play(case, poison="nan") is not dying.play(case)
    assert dying.claims.name == "dying"


@pytest.mark.parametrize(("seed", "said"), [
    (1, "run of layer 0 raised IndexError: no such row 7 (schedule step {first}), while playing case {id}"),
    (3, "kernel exited with code 3 while playing case {id}"),
    (4, "admit exited with code 5 (schedule step 0), while playing case {id}"),
    (5, "kernel crashed with SIGSEGV while playing case {id}"),
    (11, "stored(slot 0, layer 0).bits has shape (32,), expected (2, 4, 4) (schedule step 0), while playing case {id}"),
    (12, "stored(slot 0, layer 0).bits has dtype torch.float64, expected torch.bfloat16 (schedule step 0), while playing case {id}"),
    (13, "stored(slot 0, layer 0).bits has device meta, expected cpu (schedule step 0), while playing case {id}"),
    (14, "stored(slot 0, layer 0) must return Stored with a tensor of bits, got Tensor (schedule step 0), while playing case {id}"),
    (15, "stored(slot 0, layer 0).folded must be an integer, got 0.5 (schedule step 0), while playing case {id}"),
])
def test_an_end_of_the_kernel_is_one_line(dying: Worker, seed: int, said: str) -> None:
    case = _case(seed)
    first = next(step for step, op in enumerate(case.schedule) if type(op).__name__ == "Forward")
    with pytest.raises(KernelError) as caught:
        dying.play(case)
    assert str(caught.value) == said.format(first=first, id=case.id)


def test_what_the_kernel_printed_and_its_traceback_stay_with_the_error(dying: Worker) -> None:
    with pytest.raises(KernelError) as caught:
        dying.play(_case(1))
    assert "the kernel said this" in caught.value.output and "in run" in caught.value.traceback


@pytest.mark.parametrize("seed", [6, 7])
def test_a_kernel_that_wants_too_much_memory_is_told_the_limit(dying: Worker, seed: int) -> None:
    with pytest.raises(KernelError, match=r"out of memory: it may use 1024 MiB .* while playing case"):
        dying.play(_case(seed))


def test_a_hanging_kernel_is_killed_and_the_next_play_has_a_new_process(dying: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dying.play(_case(8)).windows                 # there is a process to hang
    monkeypatch.setattr(dying, "time_limit", 1.0)
    started = time.perf_counter()
    with pytest.raises(KernelError, match=f"kernel hung: no answer in 1 s while playing case {_case(2).id}"):
        dying.play(_case(2))
    assert time.perf_counter() - started < 5
    monkeypatch.undo()
    assert dying.play(_case(9)).windows


PARENT = f"""
import sys
from replaycheck.cases.case import Case
from replaycheck.cases.schedule import plain
from replaycheck.play.worker import Worker

case = Case(name="worker", heads=2, head_dim=4, state_dim=4, slots=2, schedule=plain(2, 3))
with Worker({f"{KERNELS}:right"!r}) as worker:
    assert worker.play(case).windows
assert not [name for name in sys.modules if name.startswith(("triton", "kernels_for_workers"))]
"""


def test_the_parent_never_imports_triton_or_the_kernel() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", PARENT], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_path_that_does_not_resolve_is_a_usage_error() -> None:
    with pytest.raises(UsageError) as caught, Worker(f"{KERNELS}:nothing"):
        pass
    assert str(caught.value) == f"kernel '{KERNELS}:nothing': {KERNELS} has no object 'nothing'; its kernels are STEP, dying, right"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="device 'cuda': torch finds no CUDA device"), Worker(f"{KERNELS}:right", device="cuda"):
        pass


@pytest.mark.parametrize("limit", ["time_limit", "memory_limit"])
def test_a_limit_of_zero_is_refused(limit: str) -> None:
    arguments: dict[str, Any] = {limit: 0}
    with pytest.raises(ValueError, match=f"{limit} must be more than 0"):
        Worker("anything", **arguments)
