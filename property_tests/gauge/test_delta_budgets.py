"""Budgets of the delta rules are valid and tight: the random-rounding twin stays within them and comes near them."""

from __future__ import annotations

import pytest
import torch
from delta_windows import KEYS, window
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from replaycheck_reference.gauge.delta import bound
from replaycheck_reference.gauge.delta.gates import delta_errors, log_decay_error
from replaycheck_reference.gauge.delta.twin import DeltaTwin
from replaycheck_reference.gauge.functions import load_table
from replaycheck_reference.gauge.twin import independent_signs, site_signs
from replaycheck_reference.policy import RINGS, WEIGHTS, Path, Policy, Softplus
from replaycheck_reference.recurrences.batched.delta import decompose
from replaycheck_reference.variant import DeltaVariant

TABLE = load_table("numpy")
GIVEN = DeltaVariant(gate="given", A_log=False, bias=False, beta="given")


def paths_of(kind: str, tokens: int) -> tuple[str, ...]:
    return ("step",) * tokens if kind == "step" else ("output",) * (tokens - 1) + ("flush",)


def ratios(seed: int, tokens: int, path: Path, kind: str, *, coherent: bool, variant: DeltaVariant, policy: dict[str, str] | None = None,
           **data: object) -> tuple[float, float]:
    """Largest |twin - exact| / budget of the outputs and of the end state; inf where a budget is not finite."""
    layer, start, run = window(seed, tokens, variant=variant, **data)  # type: ignore[arg-type]
    terms, paths = decompose(layer, start, run), paths_of(kind, tokens)
    whole = Policy(paths=dict.fromkeys(("step", "output", "flush"), path), **(policy or {}))  # type: ignore[arg-type]
    budget = bound(layer, terms, whole, paths, TABLE, activation="bf16")
    if not bool(torch.isfinite(budget.outputs).all() and torch.isfinite(budget.end).all()):
        return float("inf"), float("inf")
    signs = (site_signs if coherent else independent_signs)(torch.Generator().manual_seed(seed))
    twin = DeltaTwin(layer, terms, whole, TABLE, signs, paths, activation="bf16")
    output = (twin.outputs() - terms.outputs()).abs() / budget.outputs
    return float(output.max()), float(((twin.end() - terms.end()).abs() / budget.end).max())


@examples(200)
@given(
    seed=st.integers(0, 10**6), tokens=st.integers(1, 8), kind=st.sampled_from(("step", "replay")), weights=st.sampled_from(WEIGHTS),
    output=st.sampled_from(("state", "scores")), product=st.sampled_from(("fp32", "tf32", "tf32x3", "bf16")), channels=st.booleans(),
    accumulator=st.sampled_from(("fp32", "tensor", "bf16")), keys=st.sampled_from(KEYS), coherent=st.booleans(),
    beta=st.sampled_from((None, 0.0, 1.0, 2 - 2.0**-10)), gate=st.sampled_from((None, 0.0, -60.0)),
    held=st.sampled_from(("fp32", "bf16")), ring=st.sampled_from(RINGS),
)
def test_the_random_rounding_twin_never_leaves_its_budget(
    seed: int, tokens: int, kind: str, weights: str, output: str, product: str, channels: bool, accumulator: str, keys: str, coherent: bool,
    beta: float | None, gate: float | None, held: str, ring: str,
) -> None:
    variant = DeltaVariant(gate="given", A_log=False, bias=False, beta="given", channels=channels)
    path = Path(output=output, weights=weights, token=product, readout=product, score=product, value=product, predict=product,
                accumulator=accumulator)
    policy = {"beta": held, "key": held, "ring_key": ring, "ring_delta": ring}
    found = ratios(seed, tokens, path, kind, coherent=coherent, variant=variant, policy=policy, keys=keys, beta=beta, gate=gate)
    assert max(found) <= 1


@pytest.mark.parametrize("channels", [False, True])
@pytest.mark.parametrize(("kind", "output"), [("step", "state"), ("replay", "state"), ("replay", "scores")])
def test_the_random_rounding_twin_reaches_half_of_its_budget(kind: str, output: str, channels: bool) -> None:
    best = (0.0, 0.0)
    for seed in range(40):
        variant = DeltaVariant(channels=channels) if seed % 2 else DeltaVariant(gate="given", A_log=False, bias=False, channels=channels)
        found = ratios(seed, 1 + seed % 4, Path(output=output, weights=WEIGHTS[seed % 3]), kind, coherent=seed % 3 > 0, variant=variant,
                       keys=KEYS[seed % 6])
        best = (max(best[0], found[0]), max(best[1], found[1]))
    assert 0.5 <= min(best) and max(best) <= 1


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("beta", [0.0, 1.0, 2 - 2.0**-10])
def test_long_windows_keep_budgets_near_a_rounding_of_their_terms(keys: str, beta: float) -> None:
    """Moduli of single transitions would have grown by orders of magnitude."""
    for channels in (False, True):
        variant = DeltaVariant(gate="given", A_log=False, bias=False, beta="given", channels=channels)
        layer, start, run = window(7, 32, variant=variant, keys=keys, beta=beta, gate=0.0, state_dim=16)
        terms = decompose(layer, start, run)
        budget = bound(layer, terms, Policy(paths={"output": Path(), "flush": Path()}), paths_of("replay", 32), TABLE, activation="bf16")
        size = terms.before.abs().amax() + terms.after.abs().amax() + run.v.abs().amax()
        assert float(budget.end.max()) < 2.0**-10 * float(size) and float(budget.outputs.max()) < 2.0**-10 * float(size)


@examples(60)
@given(
    seed=st.integers(0, 10**6), gate=st.sampled_from(("classic", "lower_bound")), channels=st.booleans(),
    beta=st.sampled_from(("sigmoid", "doubled")),
    scale=st.sampled_from((0.1, 1.0, 8.0)), A_log=st.booleans(), norm=st.sampled_from(("inside", "outside", "max")),
)
def test_gates_betas_and_keys_worked_out_in_fp32_stay_within_their_errors(
    seed: int, gate: str, channels: bool, beta: str, scale: float, A_log: bool, norm: str
) -> None:
    variant = DeltaVariant(gate=gate, channels=channels, beta=beta, A_log=A_log, norm=norm)  # type: ignore[arg-type]
    layer, start, run = window(seed, 5, variant=variant)
    run = run.map(lambda t: (t * scale).to(t.dtype))
    terms, policy = decompose(layer, start, run), Policy(softplus=Softplus(units=8))
    assert layer.dt_bias is not None
    raw = run.g + layer.dt_bias
    rate = torch.ones(layer.heads) if layer.A_log is None else torch.exp(layer.A_log)
    rate = rate[:, None] if channels else rate
    softplus = torch.where(raw > 20, raw, torch.clamp(raw, min=0) + torch.log1p(torch.exp(-raw.abs())))
    g = -rate * softplus if gate == "classic" else variant.lower_bound * (1 / (1 + torch.exp(-(rate * raw))))
    wrong = log_decay_error(layer, terms, policy, policy.paths["step"], TABLE)
    assert bool(((g.double().view_as(terms.log_decay) - terms.log_decay).abs() <= wrong).all())
    assert float((wrong / terms.log_decay.abs()).median()) < 2.0**-18
    errors = delta_errors(layer, terms, policy, policy.paths["step"], TABLE)
    b = 1 / (1 + torch.exp(-run.b)) * (2 if beta == "doubled" else 1)
    assert bool(((b.double() - terms.beta).abs() <= errors.beta * terms.beta + errors.beta_floor).all())
    k = run.k.float()
    root = (k * k).sum(-1, keepdim=True)
    eps = torch.tensor(variant.eps)
    norms = {"inside": (root + eps).sqrt(), "outside": root.sqrt() + eps, "max": root.sqrt().clamp(min=variant.eps)}
    seen = (k / norms[norm])[:, layer.group_of_head()].double()
    assert bool(((seen - terms.k).abs() <= (errors.key_norm[..., None] + errors.key) * terms.k.abs() + errors.lost).all())


def test_a_narrow_ring_is_allowed_its_rounding_and_a_faithful_one_is_not() -> None:
    layer, start, run = window(3, 6, variant=GIVEN)
    terms, paths = decompose(layer, start, run), {"output": Path(), "flush": Path()}
    policies = [Policy(paths=paths, ring_delta=ring, ring_key=ring) for ring in ("fp32", "bf16x2", "bf16")]
    sizes = [bound(layer, terms, policy, paths_of("replay", 6), TABLE, activation="bf16").end.max() for policy in policies]
    assert 100 * float(sizes[0]) < float(sizes[2]) and float(sizes[0]) < float(sizes[1]) < float(sizes[2]) / 20
