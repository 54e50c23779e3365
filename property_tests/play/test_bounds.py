"""A Triton kernel that leaves its tensors fails the play; it is no error."""

from pathlib import Path

from replaycheck.cases.case import Case
from replaycheck.cases.schedule import plain
from replaycheck.contract.claims import Formats
from replaycheck.play.worker import Worker

FP32 = Formats(activation="fp32", output="fp32")


def test_a_read_behind_the_pool_fails_the_bounds() -> None:
    case = Case(name="bounds", heads=2, head_dim=4, state_dim=4, slots=2, formats=FP32, schedule=plain(2, 3))
    with Worker(f"{Path(__file__).parent / 'overreading.py'}:kernel") as worker:
        made = worker.play(case)
    failed = {m.guarantee: m for m in made.findings if not m.passed}
    assert set(failed) == {"bounds"} and failed["bounds"].value == 1 and failed["bounds"].place["step"] == 2
    assert "_peek" in failed["bounds"].diagnosis and "read of 1 element outside argument pool" in failed["bounds"].diagnosis
    assert made.stopped == failed["bounds"].diagnosis and made.launches


def test_a_store_without_its_mask_fails_the_write_set() -> None:
    case = Case(name="bounds", heads=2, head_dim=12, state_dim=16, slots=1, formats=FP32, schedule=plain(1, 2))
    with Worker("replaycheck.faults.triton_kernels:out_of_bounds_store") as worker:
        made = worker.play(case)
    failed = {m.guarantee: m for m in made.findings if not m.passed}
    assert "write-set" in failed and "write of" in failed["write-set"].diagnosis and "argument pool" in failed["write-set"].diagnosis
    assert made.stopped
