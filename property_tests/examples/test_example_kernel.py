"""The example in examples/ does what README says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from replaycheck.cases.case import Case
from replaycheck.cases.schedule import plain
from replaycheck.judge.windows import judge_play
from replaycheck.play.worker import Worker
from replaycheck.verdict.measurement import Measurement
from replaycheck_reference.gauge.functions import load_table

SOURCE = Path(__file__).parents[2] / "examples" / "my_kernel.py"
SOFTPLUS = "    policy=Policy(softplus=Softplus(form=\"naive\"))"


def measured(file: Path, regime: str) -> list[Measurement]:
    case = Case(name=regime, heads=2, head_dim=16, state_dim=16, capacity=1, slots=2, regime=regime, seed=3, schedule=plain(2, 4))
    with Worker(f"{file}:kernel") as worker:
        play = worker.play(case)
        return [*play.findings, *judge_play(play, worker.claims, load_table("numpy"))]


@pytest.mark.parametrize("regime", ["trained-like", "slow"])
def test_the_example_keeps_what_it_claims(regime: str) -> None:
    found = measured(SOURCE, regime)
    assert {"outputs", "state", "gates", "write-set"} <= {m.guarantee for m in found}
    assert [m for m in found if not m.passed] == []


def test_the_example_without_its_softplus_claim_is_rejected(tmp_path: Path) -> None:
    lines = SOURCE.read_text().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(SOFTPLUS)]
    assert len(kept) == len(lines) - 1
    copy = tmp_path / "my_kernel.py"
    copy.write_text("".join(kept))
    assert "state" in {m.guarantee for m in measured(copy, "slow") if not m.passed}
