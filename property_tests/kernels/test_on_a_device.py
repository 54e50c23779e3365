"""What only a device can show: captured graphs, batch invariance over every configuration, offsets past 32 bits, device functions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from exactness import widths
from launches import DTYPES, made_inputs, made_pool, rows_of
from torch import Tensor

from replaycheck.adapters.mamba2 import step as step_kernel
from replaycheck_kernels import cursors, mamba2
from replaycheck_kernels.numerics import softplus
from replaycheck_kernels.pool import Geometry, Pool

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

SUPER = Geometry(heads=128, head_dim=64, state_dim=128, groups=8)
NANO = Geometry(heads=96, head_dim=80, state_dim=128, groups=8)
TINY = Geometry(heads=2, head_dim=16, state_dim=16, groups=1)
NARROW = Geometry(heads=8, head_dim=64, state_dim=32, groups=2)
ODD = Geometry(heads=96, head_dim=60, state_dim=100, groups=8)
SMALL = Geometry(heads=128, head_dim=20, state_dim=24, groups=128)


@triton.jit
def softplus_kernel(x, y, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(y + i, softplus(tl.load(x + i)))


def test_softplus_keeps_its_claim_on_the_device() -> None:
    x = torch.cat([-87 * torch.rand(1 << 22, device="cuda"), 60 * torch.rand(1 << 22, device="cuda")])
    got = torch.empty_like(x)
    softplus_kernel[(len(x) >> 10,)](x, got, N=1024)
    exact = torch.clamp(x.double(), min=0) + torch.log1p(torch.exp(-x.double().abs()))
    assert float(((got.double() - exact).abs() / exact).max()) * 2**24 <= step_kernel.claims.policy.softplus.units


every_geometry = pytest.mark.parametrize(
    "geometry", [SUPER, NANO, TINY, NARROW, ODD, SMALL], ids=["super", "nano-4b", "tiny", "narrow", "odd", "small"]
)
every_dtype = pytest.mark.parametrize(
    ("state", "activation"), [("fp32", "bf16"), ("bf16", "bf16"), ("fp16", "bf16"), ("fp32", "fp32"), ("fp16", "fp16")]
)


@every_geometry
@every_dtype
@pytest.mark.parametrize("kind", ["step", "replay"])
def test_a_request_has_the_same_bits_in_every_batch(geometry: Geometry, state: str, activation: str, kind: str) -> None:
    rows = 160
    pool = made_pool(geometry, slots=rows, state=state, activation=activation, capacity=16, device="cuda")
    assert pool.ring is not None
    pool.ring.x.normal_()
    pool.ring.B.normal_()
    pool.ring.dt.uniform_(1e-3, 1e-1)
    pool.ring.cursor.copy_(torch.arange(rows) % 16)
    launch = mamba2.replay if kind == "replay" else mamba2.step
    inputs = made_inputs(geometry, rows=rows, activation=activation, device="cuda", gated=True)
    slots, start = torch.randperm(rows, device="cuda").int(), pool.state.clone()
    out, stored = launch(pool, slots, **inputs).clone(), pool.state.clone()
    for count in (1, 2, 5, 20, 50, 100):
        chosen = torch.randperm(rows, device="cuda")[:count]
        pool.state.copy_(start)
        assert torch.equal(launch(pool, slots[chosen], **rows_of(inputs, chosen)), out[chosen]), f"outputs of a batch of {count}"
        assert torch.equal(pool.state[slots[chosen]], stored[slots[chosen]]), f"states of a batch of {count}"


@every_geometry
@every_dtype
def test_a_row_of_drafts_has_the_same_bits_in_every_batch(geometry: Geometry, state: str, activation: str) -> None:
    rows, window = 100, 4
    pool = made_pool(geometry, slots=rows, state=state, activation=activation, capacity=12, window=window, device="cuda")
    assert pool.ring is not None and pool.ring.origin is not None
    pool.ring.x.normal_()
    pool.ring.B.normal_()
    pool.ring.dt.uniform_(1e-3, 1e-1)
    pool.ring.cursor.copy_(torch.arange(rows) % 13)
    pool.ring.origin.copy_(torch.arange(rows) % 16)
    inputs = made_inputs(geometry, rows=rows * window, activation=activation, device="cuda", gated=True)
    slots, start = torch.randperm(rows, device="cuda").int(), pool.state.clone()

    def launch(chosen: Tensor) -> tuple[Tensor, Tensor]:
        pool.state.copy_(start)
        tokens = (chosen[:, None] * window + torch.arange(window, device="cuda")).flatten()
        starts = torch.arange(len(chosen) + 1, dtype=torch.int32, device="cuda") * window
        out = mamba2.verify(pool, slots[chosen], starts, **rows_of(inputs, tokens))
        return out.clone().unflatten(0, (-1, window)), pool.state[slots[chosen].long()]

    out, stored = launch(torch.arange(rows, device="cuda"))
    for count in (1, 2, 5, 20, 50):
        chosen = torch.randperm(rows, device="cuda")[:count]
        got = launch(chosen)
        assert torch.equal(got[0], out[chosen]), f"outputs of a batch of {count}"
        assert torch.equal(got[1], stored[chosen]), f"states of a batch of {count}"


def _eager(pool: Pool, slots: Tensor, tokens: list[dict[str, Any]]) -> list[Tensor]:
    assert pool.ring is not None
    outs = []
    for inputs in tokens:
        outs.append(mamba2.replay(pool, slots, **inputs).clone())
        cursors.advance(pool.ring.cursor, slots, capacity=pool.ring.capacity)
    return outs


@pytest.mark.parametrize("state", ["fp32", "bf16"])
def test_a_graph_captured_at_one_phase_serves_two_periods(state: str) -> None:
    capacity, slots = 5, torch.tensor([3, -1, 1], dtype=torch.int32, device="cuda")
    tokens = [made_inputs(SUPER, rows=3, activation="bf16", device="cuda", seed=seed) for seed in range(2 * capacity)]
    for inputs in tokens:
        inputs["A"] = tokens[0]["A"]
    pools = [made_pool(SUPER, slots=4, state=state, activation="bf16", capacity=capacity, device="cuda") for _ in range(2)]
    wanted = _eager(pools[0], slots, tokens)

    given = {name: value.clone() if isinstance(value, Tensor) else value for name, value in tokens[0].items()}
    replayed, ring = pools[1], pools[1].ring
    assert ring is not None
    cuda: Any = torch.cuda
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        out = mamba2.replay(replayed, slots, **given)
        cursors.advance(ring.cursor, slots, capacity=capacity)
    for token, inputs in enumerate(tokens):
        for name in ("x", "dt", "B", "C"):
            given[name].copy_(inputs[name])
        out.fill_(7.0)
        graph.replay()
        assert torch.equal(out, wanted[token]), f"token {token}"
    assert torch.equal(replayed.state, pools[0].state)
    assert ring.cursor.tolist() == [0, 0, 0, 0]


def test_whole_numbers_give_the_rational_answer_at_every_width_on_the_device() -> None:
    assert [name for name, holds in widths("cuda").items() if not holds] == []


@pytest.mark.parametrize("power", [31, 32])
@pytest.mark.parametrize("kind", ["step", "replay"])
def test_slots_past_32_bit_offsets_are_the_slots_named(kind: str, power: int) -> None:
    slots = 2**power // 2**20 + 152
    far = made_pool(SUPER, slots=slots, state="bf16", activation="bf16", capacity=2, device="cuda")
    near = made_pool(SUPER, slots=1, state="bf16", activation="bf16", capacity=2, device="cuda")
    assert (slots - 1) << 20 > 2**power and far.ring is not None and near.ring is not None
    last = slots - 1
    near.state[0].copy_(far.state[last])
    before = far.state[0].clone()
    for token in range(2):
        inputs = made_inputs(SUPER, rows=1, activation="bf16", device="cuda", seed=token)
        outs = []
        for pool, slot in ((far, last), (near, 0)):
            named = torch.tensor([slot], dtype=torch.int64, device="cuda")
            launch = mamba2.replay if kind == "replay" else mamba2.step
            outs.append(launch(pool, named, **{**inputs, "out": inputs["out"].clone()}))
            if kind == "replay" and pool.ring is not None:
                cursors.advance(pool.ring.cursor, named, capacity=2)
        assert torch.equal(*outs)
    assert torch.equal(far.state[last], near.state[0]) and torch.equal(far.state[0], before)


@pytest.mark.parametrize("state", ["fp32", "bf16"])
@pytest.mark.parametrize("activation", ["bf16", "fp32"])
def test_small_integers_give_the_rational_answer_on_the_device(state: str, activation: str) -> None:
    geometry = Geometry(heads=4, head_dim=64, state_dim=64, groups=2)
    replayed = made_pool(geometry, slots=2, state=state, activation=activation, capacity=3, device="cuda")
    assert replayed.ring is not None
    replayed.state.copy_(torch.randint(-3, 4, replayed.state.shape))
    stepped = replace(replayed, state=replayed.state.clone(), ring=None)
    slots, exact = torch.tensor([1, 0], dtype=torch.int32, device="cuda"), replayed.state.double()
    for token in range(3):
        inputs = made_inputs(geometry, rows=2, activation=activation, device="cuda", seed=token)
        for name in ("x", "B", "C"):
            inputs[name] = torch.randint(-1, 2, inputs[name].shape, device="cuda").to(DTYPES[activation])
        inputs.update(A=torch.full((4,), -0.0, device="cuda"), dt_bias=None, dt=torch.ones_like(inputs["dt"]))
        x, B, C = (inputs[name].double() for name in ("x", "B", "C"))
        B, C = B.repeat_interleave(2, 1), C.repeat_interleave(2, 1)
        exact = exact + (x[..., None] * B[:, :, None])[[1, 0]]
        wanted = torch.einsum("rhpn,rhn->rhp", exact[[1, 0]], C) + x
        for launch, pool in ((mamba2.replay, replayed), (mamba2.step, stepped)):
            assert torch.equal(launch(pool, slots, **inputs, softplus=False).double(), wanted)
        cursors.advance(replayed.ring.cursor, slots, capacity=3)
    assert torch.equal(replayed.state.double(), exact) and torch.equal(stepped.state.double(), exact)
