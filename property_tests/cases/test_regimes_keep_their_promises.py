"""Every regime draws what its description says, in every variant and format, and stays finite."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from replaycheck.cases.case import Case
from replaycheck.cases.regimes import REGIMES
from replaycheck.cases.schedule import plain
from replaycheck.contract.claims import Formats
from replaycheck_reference.formats.arrays import round_to
from replaycheck_reference.variant import Mamba2Variant

LARGEST_FP16 = 65504


def variants(regime: str) -> list[Mamba2Variant]:
    exact = regime in ("decay-one", "readout", "representable")
    return [
        Mamba2Variant(softplus=softplus, bias=bias, gated=gated, decay_parameter=decay)
        for softplus, bias, gated, decay in product((True, False), (True, False), (True, False), ("A", "A_log"))
        if not (exact and decay == "A_log") and not (regime == "representable" and gated) and not (regime == "bend" and not softplus)
    ]


def case(regime: str, *, variant: Mamba2Variant | None = None, tokens: int = 24, seed: int = 0, activation: str = "bf16",
         state: str = "fp32", heads: int = 8, head_dim: int = 8, state_dim: int = 16) -> Case:
    return Case(name="", heads=heads, head_dim=head_dim, state_dim=state_dim, groups=2, variant=variant or Mamba2Variant(), regime=regime,
                seed=seed, formats=Formats(state=state, activation=activation, output=activation), schedule=plain(1, tokens))


def gates(made: Case) -> tuple[Tensor, Tensor]:
    """dt and z = A * dt of request 0: float64 [tokens, heads]."""
    layer, raw = made.layer(0), made.tokens(0, 0).dt.double()
    if layer.dt_bias is not None:
        raw = raw + layer.dt_bias.double()
    dt = torch.nn.functional.softplus(raw) if made.variant.softplus else raw
    a = layer.decay.double() if made.variant.decay_parameter == "A" else -layer.decay.double().exp()
    return dt, a * dt


def walk(made: Case) -> tuple[Tensor, Tensor]:
    """Outputs [tokens, heads, head_dim] and states after every token, in float64."""
    layer, tokens, (dt, z) = made.layer(0), made.tokens(0, 0).map(Tensor.double), gates(made)
    start, group = made.start(0, 0), layer.group_of_head()
    assert start is not None
    state, outputs, states = start.double(), [], []
    for t in range(len(tokens)):
        new = (dt[t, :, None] * tokens.x[t])[..., None] * tokens.B[t, group][:, None, :]
        state = z[t].exp()[:, None, None] * state + new
        y = (state * tokens.C[t, group][:, None, :]).sum(-1)
        if layer.D is not None:
            y = y + layer.D.double()[:, None] * tokens.x[t]
        if tokens.z is not None:
            y = y * tokens.z[t] * torch.sigmoid(tokens.z[t])
        outputs.append(y)
        states.append(state)
    return torch.stack(outputs), torch.stack(states)


@pytest.mark.parametrize("regime", REGIMES)
def test_states_and_outputs_stay_finite_in_every_variant_and_format(regime: str) -> None:
    for variant, activation in product(variants(regime), ("bf16", "fp16", "fp32")):
        made = case(regime, variant=variant, activation=activation, state="fp16")
        dt, z = gates(made)
        assert bool((dt >= 0).all()) and bool((z <= 0).all())
        for values in walk(made):
            assert bool(values.isfinite().all()) and float(values.abs().max()) < LARGEST_FP16


@pytest.mark.parametrize("regime", REGIMES)
def test_every_regime_says_why_it_exists_in_one_line(regime: str) -> None:
    text = REGIMES[regime].description
    assert 30 < len(text) < 130 and "\n" not in text and REGIMES[regime].name == regime


SPANS = {  # of dt, and of -z
    "trained-like": ((8e-4, 0.14), (8e-4, 2.2)),
    "fast": ((0.19, 0.6), (1.55, 5.4)),
    "slow": ((2.9e-5, 1.4e-4), (2.9e-5, 2.8e-4)),
    "decay-one": ((8e-4, 0.14), (0, 0)),
    "faint": ((2.0**-24, 3.5e-4), (2.0**-24, 6e-3)),
    "bend": ((0.018, 14.1), (2.8e-4, 1.8)),
    "erase": ((32, 64), (250, 520)),
    "readout": ((8e-4, 0.14), (0, 0)),
    "positive": ((8e-4, 0.14), (8e-4, 2.2)),
    "sparse": ((8e-4, 0.14), (8e-4, 2.2)),
    "outlier": ((8e-4, 0.14), (8e-4, 2.2)),
}


@pytest.mark.parametrize("regime", SPANS)
def test_gates_lie_in_the_span_of_the_regime(regime: str) -> None:
    (dt_low, dt_high), (z_low, z_high) = SPANS[regime]
    for variant in variants(regime):
        dt, z = gates(case(regime, variant=variant, tokens=64))
        assert dt_low <= float(dt.min()) and float(dt.max()) <= dt_high, variant
        assert z_low <= float(-z.max()) and float(-z.min()) <= z_high, variant


def test_trained_like_gates_reach_both_ends_of_their_span() -> None:
    dt, z = gates(case("trained-like", tokens=200, heads=64))
    assert float(dt.min()) < 2e-3 and float(dt.max()) > 0.06 and float(z.min()) < -0.7 and float(z.max()) > -5e-3


def test_the_bend_of_softplus_is_drawn_from_end_to_end() -> None:
    for activation in ("bf16", "fp32"):
        dt, _ = gates(case("bend", activation=activation, tokens=64))
        assert bool((torch.histc(dt[dt > 1], 12, 1.0, 13.0) > 0).all()) and float(dt.min()) < 0.1


def test_the_bend_of_softplus_is_not_drawn_without_softplus() -> None:
    with pytest.raises(ValueError, match="regime 'bend' needs a variant with softplus True"):
        case("bend", variant=Mamba2Variant(softplus=False))


def test_a_decay_of_one_is_minus_zero() -> None:
    for regime in ("decay-one", "readout", "representable"):
        decay = case(regime).layer(0).decay
        assert bool((decay == 0).all()) and bool(torch.signbit(decay).all())


@pytest.mark.parametrize("variant", variants("spike"), ids=str)
def test_a_spike_comes_to_every_head_once_in_eight_tokens(variant: Mamba2Variant) -> None:
    _, z = gates(case("spike", variant=variant))
    spikes = z < -50
    assert bool((spikes.view(3, 8, -1).sum(1) == 1).all())
    assert bool((z[spikes] > -68).all()) and bool((z[~spikes] > -3e-3).all())


def test_extreme_dt_has_every_branch_point_and_the_neighbours_of_20() -> None:
    for activation in ("bf16", "fp32"):
        made = case("extreme-dt", activation=activation, tokens=64)
        bias = made.layer(0).dt_bias
        assert bias is not None
        raw = (made.tokens(0, 0).dt.float() + bias).flatten()
        seen = set(raw.tolist())
        assert {20 - 2.0**-19, 20.0, 20 + 2.0**-19} <= seen
        for value in (-30, -17, -12, 88, 1e4):
            assert any(abs(value - s) <= abs(value) * 2.0**-8 for s in seen)


def test_subnormal_states_fall_at_once_in_even_heads_and_in_steps_in_odd_ones() -> None:
    for variant in variants("subnormal"):
        made = case("subnormal", variant=variant, tokens=12)
        _, z = gates(made)
        even, odd = z[:, 0::2], z[:, 1::2]
        assert bool(((even[0] > -112) & (even[0] < -78)).all()) and bool((even[1:] > -1.5).all())
        assert bool((odd > -18).all()) and bool((odd.cumsum(0)[7] < -70).all())
        _, states = walk(made)
        for heads in (states[:, 0::2], states[:, 1::2]):
            assert bool(((heads != 0) & (heads.abs() < 2.0**-126) & (heads.abs() > 2.0**-149)).any())
        assert bool((made.tokens(0, 0).x == 0).all())


def test_positive_values_are_positive() -> None:
    made = case("positive", variant=Mamba2Variant(gated=True))
    tokens, start = made.tokens(0, 0), made.start(0, 0)
    assert tokens.z is not None and start is not None
    for values in (tokens.x, tokens.B, tokens.C, tokens.z, start):
        assert bool((values >= 0).all()) and bool((values > 0).any())


def test_sparse_tokens_are_mostly_zero_and_else_single_entries() -> None:
    tokens = case("sparse", tokens=200).tokens(0, 0)
    awake = (tokens.x != 0).any(-1).any(-1)
    assert 0.1 < awake.float().mean() < 0.4
    assert bool(((tokens.x != 0).sum(-1) <= 1).all()) and bool(((tokens.B != 0).sum(-1) <= 1).all())


def test_the_outlier_row_is_the_same_in_tokens_and_start_state() -> None:
    made = case("outlier", tokens=100)
    start = made.start(0, 0)
    assert start is not None
    size = made.tokens(0, 0).x.float().square().mean(0).sqrt()
    row = size.argmax(-1)
    assert torch.equal(row, start.square().mean(-1).argmax(-1))
    others = size.scatter(1, row[:, None], 0).max()
    assert float(size.max(-1).values.min()) > 500 * float(others)


@examples(25)
@given(seed=st.integers(0, 10**6), softplus=st.booleans(), bias=st.booleans(), activation=st.sampled_from(["bf16", "fp16", "fp32"]),
       state_dim=st.sampled_from([4, 8, 12, 16, 80]), tokens=st.integers(1, 40))
def test_representable_values_are_exact_in_any_order_and_format(
    seed: int, softplus: bool, bias: bool, activation: str, state_dim: int, tokens: int,
) -> None:
    made = case("representable", seed=seed, variant=Mamba2Variant(softplus=softplus, bias=bias), activation=activation, state="bf16",
                state_dim=state_dim, tokens=tokens, heads=4, head_dim=4)
    assert len(set(gates(made)[0].flatten().tolist())) == 1
    tokens_, start, group = made.tokens(0, 0), made.start(0, 0), made.layer(0).group_of_head()
    outputs, states = walk(made)
    assert start is not None
    products = (states * tokens_.C.double()[:, group][:, :, None, :]).abs().sum(-1)      # bounds every partial sum
    for values in (outputs, states, products):
        whole = values.round()
        assert float((values - whole).abs().max()) < 1e-9           # float64 softplus(32) is 32 + 1e-14
        assert float(whole.abs().max()) <= 256 and torch.equal(round_to(whole, "bf16"), whole)


def test_representable_tokens_meet_again_in_one_column_and_are_read_back() -> None:
    tokens = case("representable", tokens=40, state_dim=128).tokens(0, 0)
    column = tokens.B.abs().argmax(-1)
    assert bool((column[0::2] == column[1::2]).all()) and len(set(column[:, 0].tolist())) == 20
    scores = (tokens.B[:, None].float() * tokens.C[None].float()).sum(-1).abs() > 0        # [older token, reader, group]
    for age in range(8):
        assert bool(torch.diagonal(scores[..., 0], offset=age).any()), f"no token of age {age} is ever read"


def test_representable_refuses_more_tokens_than_its_bound_allows() -> None:
    with pytest.raises(ValueError, match="regime 'representable' cannot keep 500 tokens below 256 at state_dim 4"):
        case("representable", tokens=500, state_dim=4)


@pytest.mark.parametrize("regime,change,message", [
    ("representable", {"gated": True}, "needs a variant with gated False"),
    ("representable", {"decay_parameter": "A_log"}, "needs decay_parameter 'A', got 'A_log'"),
    ("decay-one", {"decay_parameter": "A_log"}, "needs decay_parameter 'A', got 'A_log'"),
])
def test_a_variant_a_regime_cannot_draw_is_refused(regime: str, change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=f"regime '{regime}' {message}"):
        case(regime, variant=replace(Mamba2Variant(), **change))  # type: ignore[arg-type]


@pytest.mark.parametrize("regime", REGIMES)
def test_heads_groups_and_layers_differ(regime: str) -> None:
    made = replace(case(regime, tokens=40), layers=2)
    assert not torch.equal(made.tokens(0, 0).dt, made.tokens(0, 1).dt) or regime in ("erase", "representable")
    tokens, other = made.tokens(0, 0), made.tokens(0, 1)
    assert not torch.equal(tokens.C[:, 0], tokens.C[:, 1]) and not torch.equal(tokens.C, other.C)
    if regime not in ("readout", "subnormal"):
        assert not torch.equal(tokens.x[:, 0], tokens.x[:, 1])
