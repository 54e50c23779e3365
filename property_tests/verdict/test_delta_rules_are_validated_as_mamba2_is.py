"""The delta rules go the whole way, from a suite's line to a measurement: right host kernels stay within their budgets."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from replaycheck.cases.case import Case
from replaycheck.cases.families import family
from replaycheck.cases.recordings import RecordingFile
from replaycheck.cases.regimes import DELTA_REGIMES, REGIMES
from replaycheck.cases.schedule import plain
from replaycheck.faults.delta_host import gdn_replay, gdn_step, kda_replay, kda_step
from replaycheck.judge.relations import exact
from replaycheck.judge.windows import judge_play
from replaycheck.play.player import play
from replaycheck.verdict.confirmation import confirmed
from replaycheck.verdict.plan import Plan, variants
from replaycheck.verdict.recorded import RecordedPlan
from replaycheck.verdict.suites import SUITES
from replaycheck.verdict.tables import table_of

KERNELS = {"gdn step": gdn_step, "gdn replay": gdn_replay, "kda step": kda_step, "kda replay": kda_replay}


class Here:
    """Plays of a kernel in this process."""

    def __init__(self, kernel: Any) -> None:
        self.kernel, self.claims = kernel, kernel.claims

    def play(self, case: Case, **more: Any) -> Any:
        return play(self.kernel, case)


@pytest.mark.parametrize("name", KERNELS)
def test_a_right_host_kernel_stays_within_its_budgets_in_every_regime_of_quick(name: str) -> None:
    kernel, met = KERNELS[name], set()
    for job in Plan(suite=SUITES["quick"], claims=kernel.claims).jobs():
        found = judge_play(play(kernel, job.case), kernel.claims, table_of("cpu")) if "windows" in job.checks else []
        found += exact.check(Here(kernel), job.case) if "exact" in job.checks else []       # type: ignore[arg-type]
        assert all(m.ratio <= 1 for m in found), (job.case.name, job.case.variant, max(found, key=lambda m: m.ratio))
        assert found or "windows" not in job.checks
        met.add(job.case.regime)
    assert met == {*REGIMES, *DELTA_REGIMES}


@pytest.mark.parametrize("recurrence", ["gdn", "kda"])
@pytest.mark.parametrize("regime", [*REGIMES, *DELTA_REGIMES])
def test_every_regime_can_be_drawn_and_saved_for_a_delta_rule(recurrence: str, regime: str) -> None:
    drawn = 0
    for variant in variants(KERNELS[f"{recurrence} step"].claims):
        try:
            case = Case(name="", recurrence=recurrence, heads=4, head_dim=5, state_dim=8, groups=2, variant=variant, regime=regime, seed=3,
                        schedule=plain(1, 6))
        except ValueError as error:
            assert "lower_bound" in str(error) and regime in ("bend", "erase")
            continue
        assert Case.from_json(case.to_json()) == case
        assert all(torch.isfinite(t).all() for t in case.tokens(0, 0).tensors().values())
        drawn += 1
    assert drawn >= 6


def test_channels_of_a_head_decay_apart() -> None:
    case = Case(name="", recurrence="kda", heads=2, head_dim=4, state_dim=8, groups=2, variant=family("kda").forms(("bias",), "raw")[0],
                schedule=plain(1, 4))
    raw = case.tokens(0, 0).tensors()["g"]
    assert raw.shape == (4, 2, 8) and all(len(row.unique()) > 4 for row in raw.reshape(-1, 8))


@pytest.mark.parametrize("kernel", [gdn_step, gdn_replay])
def test_the_gated_delta_layers_of_a_recording_are_played(kernel: Any) -> None:
    job = next(RecordedPlan(recording=RecordingFile.of("trained-here"), claims=kernel.claims).jobs())
    assert job.case.recurrence == "gdn" and job.case.recording is not None
    found = judge_play(play(kernel, job.case), kernel.claims, table_of("cpu"))
    assert found and all(m.ratio <= 1 for m in found)


@pytest.mark.parametrize("kernel", [gdn_replay, kda_step])
def test_the_worst_elements_of_a_delta_rule_are_confirmed_by_the_scalar_specification(kernel: Any) -> None:
    case = next(job.case for job in Plan(suite=SUITES["quick"], claims=kernel.claims).jobs() if job.case.regime == "trained-like")
    played = play(kernel, case)
    worst = [m for m in judge_play(played, kernel.claims, table_of("cpu")) if m.guarantee in ("outputs", "state")]
    assert {m.guarantee for m in worst} == {"outputs", "state"}
    for m in worst:
        said = confirmed(m, played)
        assert "confirmed to 50 digits by" in said
        assert "agrees to the last bit" in said or float(said.rsplit(", ", 1)[1].split()[0]) < 1e-6  # of the budget
