"""A kernel nobody here wrote, judged as published: what holds and what does not is written down as it was found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from replaycheck.adapters.foreign.published import SELECTIVE_STATE_UPDATE, Unavailable
from replaycheck.adapters.foreign.selective_state_update import CLAIMS
from replaycheck.cases.case import Case
from replaycheck.cases.layers import preset
from replaycheck.cases.schedule import Schedule, mixed, plain
from replaycheck.contract.claims import Formats
from replaycheck.judge.windows import judge_play
from replaycheck.play.worker import Worker
from replaycheck_reference.gauge.functions import load_table
from replaycheck_reference.variant import Mamba2Variant

pytestmark = pytest.mark.xdist_group("sglang-selective-state-update")


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    try:
        SELECTIVE_STATE_UPDATE.fetch()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with Worker("replaycheck.adapters.foreign.selective_state_update:kernel") as started:
        yield started


def case_of(regime: str, schedule: Schedule, *, layer: str = "tiny", variant: Mamba2Variant | None = None, **formats: str) -> Case:
    geometry = preset(layer)
    return Case(
        name=regime, heads=geometry.heads, head_dim=geometry.head_dim, state_dim=geometry.state_dim, groups=geometry.groups,
        variant=variant or Mamba2Variant(), formats=Formats(**formats), capacity=1, slots=3, regime=regime, seed=1, schedule=schedule,
    )


@pytest.mark.parametrize("regime", ["trained-like", "slow", "fast", "spike", "extreme-dt", "positive", "subnormal"])
@pytest.mark.parametrize("state", ["fp32", "bf16"])
def test_its_outputs_and_states_stay_within_the_budgets_of_its_own_policy(worker: Worker, regime: str, state: str) -> None:
    play = worker.play(case_of(regime, plain(2, 5), state=state, layer="nano-4b-small" if regime == "trained-like" else "tiny"))
    measured = judge_play(play, CLAIMS, load_table("numpy"))
    assert {"outputs", "state"} <= {m.guarantee for m in measured}
    assert [m for m in measured if not m.passed] == []


FORMS = {
    "gated": Mamba2Variant(gated=True),
    "dt as given": Mamba2Variant(softplus=False),
    "bare": Mamba2Variant(bias=False, skip=False),
}


@pytest.mark.parametrize("variant", FORMS.values(), ids=FORMS)
def test_every_claimed_form_stays_within_its_budgets(worker: Worker, variant: Mamba2Variant) -> None:
    play = worker.play(case_of("trained-like", plain(2, 4), variant=variant, state="fp16", activation="fp32", output="fp32"))
    assert [m for m in judge_play(play, CLAIMS, load_table("numpy")) if not m.passed] == []


def test_it_writes_the_output_rows_of_pads_that_it_says_it_does_not_process(worker: Worker) -> None:
    play = worker.play(case_of("trained-like", mixed(1, slots=3, forwards=6)))
    broken = {m.guarantee for m in play.findings if not m.passed}
    assert broken == {"pads"}, "docs/foreign.md says that this is the one guarantee it breaks"
