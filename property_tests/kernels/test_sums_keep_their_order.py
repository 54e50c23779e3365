"""Batch invariance as it is compiled: every configuration that a batch size may choose spreads a sum over lanes in the same way."""

from __future__ import annotations

import re

import pytest
import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

from replaycheck_kernels.mamba2.configs import StepConfig, replay_config, step_config, verify_config
from replaycheck_kernels.mamba2.step import step_kernel
from replaycheck_kernels.pool import Geometry

_TYPES = {torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.float16: "*fp16"}
_POINTERS = {"slots": "*i32", **dict.fromkeys(("x", "dt", "B", "C", "out"), "*bf16"), **dict.fromkeys(("A", "dt_bias", "D"), "*fp32")}


def reduction_layout(geometry: Geometry, state: torch.dtype, config: StepConfig) -> str:
    """The layout of the tile that the step kernel sums over the state dim, for sm_90."""
    dims = {"H": geometry.heads, "P": geometry.head_dim, "N": geometry.state_dim, "G": geometry.groups,
            "COLUMNS": geometry.columns}
    fixed = {**dims, "SOFTPLUS": True, "SKIP_ROWS": False, "LOW": None, "HIGH": None, "TILE": config.tile, "z": None}
    types = {name: "constexpr" if name in fixed else _POINTERS.get(name, "i32") for name in step_kernel.arg_names}
    types["state"] = _TYPES[state]
    places = {name: (place,) for place, name in enumerate(step_kernel.arg_names)}
    aligned = {places[name]: [["tt.divisibility", 16]] for name, kind in types.items() if kind != "constexpr"}
    source = ASTSource(fn=step_kernel, signature=types, constexprs={places[name]: value for name, value in fixed.items()}, attrs=aligned)
    text = compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1}).asm["ttgir"]
    layouts = dict(re.findall(r"(#\w+) = (#ttg\.\w+<\{.*\}>)", text))
    reduced = re.search(r'"tt\.reduce"[\s\S]*?\}\) : \(tensor<[^,]*, (#\w+)>', text)
    assert reduced is not None
    return layouts[reduced.group(1)]


@pytest.mark.parametrize("state", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("head_dim", "state_dim"), [(64, 16), (64, 32), (64, 128), (60, 20), (20, 100)])
def test_a_step_sums_over_the_state_dim_in_one_order_at_every_batch(state: torch.dtype, head_dim: int, state_dim: int) -> None:
    geometry = Geometry(heads=8, head_dim=head_dim, state_dim=state_dim, groups=1)
    configs = {step_config(geometry, state=state, rows=rows) for rows in (1, 16, 64, 1000)}
    assert len({reduction_layout(geometry, state, config) for config in configs}) == 1


def test_tiles_too_small_to_fill_a_warp_are_summed_in_another_order() -> None:
    geometry = Geometry(heads=8, head_dim=64, state_dim=16, groups=1)
    assert reduction_layout(geometry, torch.float32, StepConfig(tile=4)) != reduction_layout(geometry, torch.float32, StepConfig(tile=8))


@pytest.mark.parametrize(("activation", "head_dim"), [(torch.bfloat16, 60), (torch.bfloat16, 20), (torch.float32, 64)], ids=str)
def test_walks_that_would_change_the_order_of_sums_are_of_one_length_at_every_batch(activation: torch.dtype, head_dim: int) -> None:
    geometry = Geometry(heads=96, head_dim=head_dim, state_dim=100, groups=8)
    walks = {replay_config(geometry, state=torch.float32, activation=activation, rows=rows).rows for rows in (1, 16, 64, 1000)}
    assert walks == {16}
    if head_dim % 16:
        assert {verify_config(geometry, rows=rows).rows for rows in (1, 16, 64, 1000)} == {16}
