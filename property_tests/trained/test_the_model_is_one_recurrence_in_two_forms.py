"""The model trained here: chunked and one token at a time are the same recurrence, and it is the one of the reference."""

from __future__ import annotations

import argparse
import doctest

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from replaycheck.trained.corpus import digest
from replaycheck.trained.model import HybridModel, Sizes
from replaycheck.trained.recurrences import GatedDeltaRecurrence, Mamba2Recurrence
from replaycheck.trained.weights import WEIGHTS, trained_model, training
from replaycheck_reference.layer import Mamba2Layer, Mamba2Tokens
from replaycheck_reference.recurrences.batched.mamba2 import decompose
from replaycheck_reference.variant import Mamba2Variant

#: An exact identity in float64: products of at most 64 roundings a token, over at most 80 tokens of size about 1.
_CLOSE = 1e-11


def _relative(got: torch.Tensor, exact: torch.Tensor) -> float:
    return float((got - exact).abs().max() / exact.abs().max().clamp(min=1e-30))


@given(seed=st.integers(0, 10**6), tokens=st.integers(1, 70), prefill=st.integers(0, 70))
@settings(deadline=None, max_examples=8)
def test_a_chunked_prefill_and_a_decode_are_the_same_recurrence(seed: int, tokens: int, prefill: int) -> None:
    torch.manual_seed(seed)
    model = HybridModel(Sizes(width=24, layers=("mamba2", "gdn"), heads=4, head_dim=8, state_dim=8, dim=8)).double().requires_grad_(False)
    text = torch.randint(256, (2, tokens))
    whole, ended = model(text, model.empty(2))
    first = min(prefill, tokens)
    logits, caches = model(text[:, :first], model.empty(2)) if first else (whole[:, :0], model.empty(2))
    parts = [logits]
    for at in range(first, tokens):
        logits, caches = model(text[:, at:at + 1], caches)
        parts.append(logits)
    assert _relative(torch.cat(parts, dim=1), whole) < _CLOSE
    for got, exact in zip(caches, ended, strict=True):
        assert _relative(got.state, exact.state) < _CLOSE
        assert _relative(got.history, exact.history) < _CLOSE


@given(seed=st.integers(0, 10**6), tokens=st.integers(1, 70))
@settings(deadline=None, max_examples=8)
def test_a_mamba2_layer_of_the_model_is_the_reference_recurrence(seed: int, tokens: int) -> None:
    torch.manual_seed(seed)
    made = Mamba2Recurrence(4, 8, 16, 2).requires_grad_(False)
    x, z = torch.randn(2, 1, tokens, 4, 8)
    dt, (B, C), start = torch.randn(1, tokens, 4), torch.randn(2, 1, tokens, 2, 16), torch.randn(1, 4, 8, 16)
    A = made.decay.clone()
    made.double()
    made.A_log.copy_((-A.double()).log())           # the reference is handed A itself
    y, end = made(x.double(), dt.double(), B.double(), C.double(), z.double(), start.double())
    layer = Mamba2Layer(heads=4, head_dim=8, state_dim=16, groups=2, decay=A, dt_bias=made.dt_bias.float(), D=made.D.float(),
                        variant=Mamba2Variant(gated=True))
    exact = decompose(layer, start[0], Mamba2Tokens(x=x[0], dt=dt[0], B=B[0], C=C[0], z=z[0]))
    assert _relative(y[0], exact.outputs()) < _CLOSE
    assert _relative(end[0], exact.end()) < _CLOSE


@given(seed=st.integers(0, 10**6), tokens=st.integers(1, 50))
@settings(deadline=None, max_examples=8)
def test_a_gated_delta_layer_decays_then_predicts_then_reads(seed: int, tokens: int) -> None:
    torch.manual_seed(seed)
    made = GatedDeltaRecurrence(2, 4, 8, 6, chunk=16).double().requires_grad_(False)
    q, k = torch.randn(2, 1, tokens, 2, 8, dtype=torch.float64)
    v, (a, b) = torch.randn(1, tokens, 4, 6, dtype=torch.float64), torch.randn(2, 1, tokens, 4, dtype=torch.float64)
    start = torch.randn(1, 4, 6, 8, dtype=torch.float64)
    o, end = made(q, k, v, a, b, start)
    for head in range(4):
        S = start[0, head].clone()
        for t in range(tokens):
            unit = [row[0, t, head // 2] / (row[0, t, head // 2].square().sum() + 1e-6).sqrt() for row in (q, k)]
            S = torch.exp(-made.A_log[head].exp() * F.softplus(a[0, t, head] + made.dt_bias[head])) * S
            S = S + torch.sigmoid(b[0, t, head]) * torch.outer(v[0, t, head] - S @ unit[1], unit[1])
            assert _relative(o[0, t, head], S @ unit[0] / 8**0.5) < 1e-9        # what is left may be small beside what cancels
        assert _relative(end[0, head], S) < _CLOSE


def test_the_shipped_weights_are_small_and_trained() -> None:
    assert WEIGHTS.stat().st_size <= 2_000_000
    said, model = training(), trained_model()
    assert float(said["loss_after"]) < 0.5 * float(said["loss_before"]) and "trained here" in said["description"]
    text = f"{argparse.__doc__}{doctest.__doc__}".encode()[:600]
    rows = torch.tensor([list(text)])
    loss = {name: float(F.cross_entropy(m(rows[:, :-1], m.empty(1))[0][0], rows[0, 1:]))
            for name, m in (("trained", model), ("not", HybridModel().requires_grad_(False)))}
    assert loss["trained"] < 3.0 < 5.0 < loss["not"]


def test_the_digest_names_the_text() -> None:
    assert digest(b"a") != digest(b"b") and len(digest(b"")) == 64
