"""Our Mamba-2 kernels as the checker sees them: `step` and `replay`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from replaycheck.contract.claims import Claims, Formats
from replaycheck.contract.memory import Memory
from replaycheck.contract.session import Session
from replaycheck_kernels import mamba2
from replaycheck_kernels.mamba2.configs import ReplayConfig, StepConfig, replay_config, walk_length
from replaycheck_kernels.pool import DIMS, MAX_CAPACITY, Geometry, Pool, allocate
from replaycheck_reference.formats.arrays import TORCH_DTYPE
from replaycheck_reference.layer import Mamba2Layer, Mamba2Tokens
from replaycheck_reference.policy import Path, Policy, Softplus

from .decode import FORMATS, DecodeSession, allocator, check_build

Config = StepConfig | ReplayConfig

__all__ = ["Mamba2Kernel", "replay", "step"]

#: dt within this many fp32 roundings; measured: 5.4 interpreted.
_SOFTPLUS = Softplus(form="relative", units=8.0)

_DIMS = tuple(DIMS)
_FEATURES = ("bias", "skip", "gated", "groups", "no_softplus", "skip_rows", "dt_limits")
_GUARANTEES = ("batch_invariant", "nan_poison")

#: Where activations are bf16: bf16 checkpoints are read and windows are folded on the matrix unit, a computed operand in three parts.
_SCORES = Path(
    output="scores", weights="sum", token="bf16x3", readout="bf16x3", score="bf16x3", value="bf16x3", accumulator="tensor"
)

STEP_CLAIMS = Claims(
    name="replaycheck mamba2 step", kind="step", policy=Policy(paths={"step": Path()}, softplus=_SOFTPLUS),
    states=FORMATS, activations=FORMATS, outputs=FORMATS, head_dims=_DIMS, state_dims=_DIMS, capacities=(1, 1),
    features=_FEATURES, guarantees=_GUARANTEES, pad_output="untouched",
)

REPLAY_CLAIMS = Claims(
    name="replaycheck mamba2 replay", kind="replay",
    policy=Policy(
        paths={
            "output": _SCORES,
            "flush": _SCORES,
        },
        softplus=_SOFTPLUS,
    ),
    states=FORMATS, activations=FORMATS, outputs=FORMATS, head_dims=_DIMS, state_dims=_DIMS, capacities=(1, MAX_CAPACITY),
    features=_FEATURES, guarantees=_GUARANTEES, pad_output="untouched",
)


class Mamba2Kernel:
    """A kernel path: `claims`, and `open` for sessions that run `launch`."""

    def __init__(self, claims: Claims, launch: Callable[..., Tensor]) -> None:
        self.claims = claims
        self._launch = launch

    def open(
        self, layers: Sequence[Mamba2Layer], *, formats: Formats, capacity: int, slots: int, memory: Memory, seed: int
    ) -> Session:
        check_build(self.claims, formats, capacity)
        pools: list[Pool] = []
        for index, layer in enumerate(layers):
            if layer.variant.decay_parameter != "A":
                raise ValueError(f"the decay parameter must be handed over as A, got {layer.variant.decay_parameter}")
            first = pools[0].ring if pools else None
            pools.append(
                allocate(
                    Geometry(heads=layer.heads, head_dim=layer.head_dim, state_dim=layer.state_dim, groups=layer.groups),
                    slots=slots, state=TORCH_DTYPE[formats.state], activation=TORCH_DTYPE[formats.activation],
                    capacity=capacity if self.claims.kind == "replay" else None, cursor=None if first is None else first.cursor,
                    allocator=allocator(memory, index),
                )
            )
        configs = [_config(pool, TORCH_DTYPE[formats.activation]) for pool in pools]
        moved = [layer.to(pools[0].state.device) for layer in layers]

        def launch(index: int, slots: Tensor, tokens: Mamba2Tokens, out: Tensor) -> Tensor:
            own = moved[index]
            return self._launch(
                pools[index], slots, x=tokens.x, dt=tokens.dt, B=tokens.B, C=tokens.C, z=tokens.z, A=own.decay, dt_bias=own.dt_bias,
                D=own.D, softplus=own.variant.softplus, dt_limits=own.variant.dt_limits, out=out, config=configs[index],
            )

        return DecodeSession(pools, launch)


def _config(pool: Pool, activation: torch.dtype) -> Config | None:
    """The measured configuration on a device; the one with the fewest programs, which has the same bits, where kernels are interpreted."""
    if pool.state.is_cuda:
        return None
    if pool.ring is None:
        return StepConfig(tile=max(16, pool.geometry.head_dim & -pool.geometry.head_dim))
    walking = replay_config(pool.geometry, state=pool.state.dtype, activation=activation, rows=1 << 20)
    return replace(walking, rows=walk_length(pool.geometry))


step = Mamba2Kernel(STEP_CLAIMS, mamba2.step)
replay = Mamba2Kernel(REPLAY_CLAIMS, mamba2.replay)
