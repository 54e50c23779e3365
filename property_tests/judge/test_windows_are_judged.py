"""Window checks: exact values pass at ratio zero, and each change is seen by the guarantee that should see it, and named."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from made_windows import POLICY, decayed_by, exactly, failed, judged, layer, windows, without_token

from replaycheck.judge.windows import continuity_measurement, judge_windows
from replaycheck_reference.gauge.functions import load_table
from replaycheck_reference.policy import Softplus
from replaycheck_reference.recurrences.batched.mamba2 import Mamba2Terms, decompose


@examples(25)
@given(
    seed=st.integers(0, 10**6), tokens=st.integers(1, 6), rate=st.sampled_from((0.0, 1e-3, 1.0, 16.0, 900.0)), groups=st.integers(1, 2),
    state=st.sampled_from(("fp32", "fp16", "bf16")), output=st.sampled_from(("fp32", "fp16", "bf16")),
)
def test_exact_values_rounded_once_use_nothing_of_their_budget(
    seed: int, tokens: int, rate: float, groups: int, state: str, output: str
) -> None:
    made = layer(head_dim=16, state_dim=16, groups=groups, rate=rate)
    measurements = judged(made, windows(made, tokens=tokens, state=state, output=output, seed=seed), state=state, output=output)
    assert {m.guarantee for m in measurements} >= {"outputs", "state"}
    assert all(m.ratio == 0 for m in measurements if m.guarantee in ("outputs", "state", "rounding"))
    assert all(m.passed for m in measurements)


def test_a_lost_token_is_named_with_its_age() -> None:
    made = layer(head_dim=16, state_dim=16)
    found = failed(judged(made, windows(made, lambda t: exactly(without_token(t, 0)))))
    assert found["state"].diagnosis == "acts as if the token of age 3 had weight 0"
    assert "the weight of the token of age 3" in found["gates"].diagnosis


def test_a_token_that_never_came_is_named_with_its_age() -> None:
    made = layer(head_dim=16, state_dim=16)
    right = windows(made, count=1)
    short = decompose(made, right[0].start, right[0].tokens[torch.tensor([0, 1, 3])])
    found = failed(judged(made, [replace(right[0], end=short.end().float())]))
    assert found["state"].diagnosis == "acts as if the token of age 1 had never come"


def test_a_wrong_group_is_named() -> None:
    made = layer(heads=4, head_dim=16, state_dim=16, groups=2)
    other = replace(made, groups=2)
    object.__setattr__(other, "group_of_head", lambda: torch.arange(4) % 2)
    right = windows(made)
    wrong = windows(other)
    mixed = [replace(r, outputs=w.outputs) for r, w in zip(right[:1], wrong[:1], strict=True)]
    told = {f"acts as if head {h} used group {h % 2} instead of {h // 2}" for h in (1, 2)}
    assert failed(judged(made, mixed))["outputs"].diagnosis in told


@pytest.mark.parametrize("tokens", [1, 4])
def test_a_wrong_group_is_named_where_rounding_is_coarse(tokens: int) -> None:
    made = layer(heads=4, head_dim=16, state_dim=16, groups=2)
    other = replace(made)
    object.__setattr__(other, "group_of_head", lambda: torch.arange(4) % 2)
    right, wrong = (windows(of, tokens=tokens, output="bf16") for of in (made, other))
    mixed = [replace(r, outputs=w.outputs, end=w.end) for r, w in zip(right[:1], wrong[:1], strict=True)]
    found = failed(judged(made, mixed, output="bf16"))
    told = {f"acts as if head {h} used group {h % 2} instead of {h // 2}" for h in (1, 2)}
    assert found["outputs"].diagnosis in told and found["state"].diagnosis in told


def test_a_weight_that_is_a_little_off_is_not_told_as_one_of_the_skip_term() -> None:
    made = layer(head_dim=16, state_dim=16)
    found = failed(judged(made, windows(made, lambda t: exactly(replace(t, weight=t.weight * (1 + 2.0**-10))), tokens=1)))
    assert found["outputs"].diagnosis.startswith("acts as if the token of age 0 had a weight off by +9.77e-04")


def test_values_that_have_nothing_to_do_with_the_answer_are_not_called_a_rounding() -> None:
    made = layer()
    wrong = [replace(w, outputs=1e3 * torch.randn(w.outputs.shape, generator=torch.Generator().manual_seed(1))) for w in windows(made)]
    diagnosis = judged(made, wrong)[0].diagnosis
    assert "too far for a rounding" in diagnosis and "significand" not in diagnosis
    for found in failed(judged(made, wrong)).values():
        assert "truncation" not in found.diagnosis and "stochastic" not in found.diagnosis


def test_a_coherent_decay_error_of_2_to_the_minus_20_is_seen_at_a_decay_of_0_9999() -> None:
    made = layer(rate=0.005)
    found = failed(judged(made, windows(made, lambda t: exactly(decayed_by(t, 1 + 2.0**-20)), count=4, tokens=1)))
    assert "the decay of the start state is off by" in found["gates"].diagnosis


def test_a_decay_error_of_outputs_alone_is_seen_by_pooling_where_no_output_shows_it() -> None:
    made = layer(heads=8, rate=0.005)
    found = failed(judged(made, windows(made, lambda t: (decayed_by(t, 1 + 2.0**-19).outputs(), t.end()), count=16)))
    assert set(found) == {"gates"}
    assert "on average" in found["gates"].diagnosis


@pytest.mark.parametrize("output", ["bf16", "fp16"])
def test_truncated_outputs_are_named(output: str) -> None:
    made = layer(head_dim=16, state_dim=16)
    right = windows(made, output=output)
    toward_zero = [replace(w, outputs=_truncated(w.outputs, e.outputs)) for w, e in zip(right, windows(made), strict=True)]
    found = failed(judged(made, toward_zero, output=output))
    assert "truncation, where rounding to nearest is claimed" in found["rounding"].diagnosis
    assert "outputs" in found


def _truncated(rounded: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """The rounded values, one code toward zero where they lie beyond the exact ones."""
    beyond = rounded.float().abs() > exact.abs()
    return torch.where(beyond, rounded.view(torch.int16) - 1, rounded.view(torch.int16)).view(rounded.dtype)


def test_a_state_changed_between_windows_is_a_break_of_continuity() -> None:
    made = layer(head_dim=16, state_dim=16)
    right = windows(made, count=3)
    whole = continuity_measurement(right)
    assert whole is not None and whole.passed and whole.facts["pairs"] == 2
    start = right[1].start.clone()
    start[0, 3, 5] += 1
    broken = continuity_measurement([right[0], replace(right[1], start=start), right[2]])
    assert broken is not None and broken.value == 1
    assert broken.diagnosis == "1 element(s) of the state changed between two windows of request 0"
    assert continuity_measurement(right[:1]) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_not_finite_fail_without_stopping_the_judge(value: float) -> None:
    made = layer(head_dim=16, state_dim=16)
    right = windows(made)
    outputs, end = right[0].outputs.clone(), right[1].end
    assert end is not None
    outputs[1, 0, 2] = value
    end = end.clone()
    end[1, 2, 3] = value
    found = failed(judged(made, [replace(right[0], outputs=outputs), replace(right[1], end=end)]))
    assert found["outputs"].place["row"] == 2 and found["state"].place["column"] == 3
    assert found["outputs"].diagnosis == "not finite where the exact value is"


def test_coverage_counts_only_cells_in_which_a_lost_token_would_show() -> None:
    made = layer(head_dim=16, state_dim=16, rate=4.0)
    cells = judged(made, windows(made))[0].facts["coverage"]
    assert {(p, a) for p, a, _ in cells} == {(p, a) for p in range(4) for a in range(p + 1)}
    forgetful = layer(head_dim=16, state_dim=16, rate=1e5)
    cells = judged(forgetful, windows(forgetful))[0].facts["coverage"]
    assert {(p, a) for p, a, _ in cells} == {(p, 0) for p in range(4)}


def test_a_window_without_publication_is_judged_by_its_outputs() -> None:
    made = layer(head_dim=16, state_dim=16)
    cut = [replace(w, end=None, paths=("output",) * 4) for w in windows(made)]
    assert {m.guarantee for m in judged(made, cut)} == {"outputs", "gates"}


def test_a_budget_without_end_lets_nothing_pass() -> None:
    made = layer(head_dim=16, state_dim=16)
    policy = replace(POLICY, softplus=Softplus(units=1e308)).built(state="fp32", output="fp32")
    found = failed(judge_windows(windows(made), [made], policy, load_table("numpy")))
    assert {"outputs", "state"} <= set(found)
    assert found["state"].diagnosis == "the claimed policy sets no bound here: anything would pass"


def test_operands_cut_toward_zero_are_no_gate_error_where_the_claim_cuts_them() -> None:
    made = layer(heads=4, rate=0.005)

    def cut_readout(terms: Mamba2Terms) -> tuple[torch.Tensor, torch.Tensor]:
        start = (terms.start.float().view(torch.int32) & -8192).view(torch.float32).double()
        return replace(terms, readout=torch.einsum("hpn,mhn->mhp", start, terms.C)).outputs(), terms.end()

    cut = [replace(w, start=w.start.abs(), tokens=replace(w.tokens, C=w.tokens.C.abs())) for w in windows(made, count=16)]
    cut = [replace(w, outputs=cut_readout(decompose(made, w.start, w.tokens))[0].float(), end=None) for w in cut]
    policy = replace(POLICY, paths={name: replace(path, readout="tf32") for name, path in POLICY.paths.items()})
    claimed = judge_windows(cut, [made], policy.built(state="fp32", output="fp32"), load_table("numpy"))
    assert not failed(claimed)
    assert "gates" in failed(judged(made, cut))
