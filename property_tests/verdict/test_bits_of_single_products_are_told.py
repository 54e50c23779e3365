"""Implied bits of one product alone: told from the regimes that isolate it, in the formats that do not hide it."""

from __future__ import annotations

import pytest

from replaycheck.cases.case import Case
from replaycheck.cases.schedule import plain
from replaycheck.contract.claims import Claims, Formats
from replaycheck.faults.base import STEP
from replaycheck.faults.faults import FAULTS
from replaycheck.judge.windows import judge_play
from replaycheck.play.player import play
from replaycheck.verdict.bits import BitsTable
from replaycheck.verdict.measurement import Measurement
from replaycheck_reference.gauge.functions import envelope
from replaycheck_reference.policy import Path, Policy

WIDE = Formats(state="fp32", activation="fp32", output="fp32")


def table(policy: Policy, formats: Formats, regime: str, implied: float = 17.5) -> dict[str, tuple[float, float]]:
    bits = BitsTable(policy)
    for guarantee in ("outputs", "state"):
        bits.add(Measurement(guarantee=guarantee, value=0.0, budget=1.0, regime=regime, facts={"implied bits": implied}), formats, case="c")
    return {entry.quantity: (entry.claimed, entry.implied) for entry in bits.quoted}


@pytest.mark.parametrize(("method", "claimed"), [("fp32", 24.0), ("tf32", 9.0), ("bf16", 7.0), ("bf16x3", 20.8), ("tf32x3", 20.3)])
def test_a_product_claims_the_bits_that_the_gauge_gives_it(method: str, claimed: float) -> None:
    policy = Policy(paths={"step": Path(token=method, readout=method)})
    assert table(policy, WIDE, "erase")["token product"] == (claimed, 17.5)
    assert table(policy, WIDE, "readout")["readout"] == (claimed, 17.5)


def test_the_least_precise_path_is_the_one_that_is_claimed() -> None:
    policy = Policy(paths={"output": Path(token="fp32"), "flush": Path(token="bf16")})
    assert table(policy, WIDE, "erase")["token product"][0] == 7.0


@pytest.mark.parametrize(("regime", "hiding"), [("erase", "activation"), ("erase", "state"), ("readout", "state"), ("readout", "output")])
def test_a_format_that_hides_the_product_tells_nothing_of_it(regime: str, hiding: str) -> None:
    parts = {"state": "fp32", "activation": "fp32", "output": "fp32", hiding: "bf16"}
    assert not {"token product", "readout"} & set(table(Policy(), Formats(**parts), regime))


def test_other_regimes_tell_nothing_of_single_products() -> None:
    assert set(table(Policy(), WIDE, "trained-like")) == {"outputs, fp32", "state, fp32"}


@pytest.mark.parametrize(("name", "low", "high"), [("", 22.0, 25.0), ("bf16-token-operands", 7.0, 9.5)])
def test_a_kernel_that_rounds_its_operands_shows_their_bits(name: str, low: float, high: float) -> None:
    kernel = FAULTS[name].kernel if name else STEP
    claims: Claims = kernel.claims
    case = Case(name="erase", heads=2, head_dim=16, state_dim=16, capacity=2 if claims.kind == "replay" else 1, slots=1, regime="erase",
                formats=WIDE, schedule=plain(1, 6))
    bits = BitsTable(claims.policy)
    for m in judge_play(play(kernel, case), claims, envelope()):
        bits.add(m, WIDE, case=case.id)
    implied = {entry.quantity: entry.implied for entry in bits.quoted}["token product"]
    assert low <= implied <= high
