"""Our Mamba-2 kernels as the checker sees them: `step` and `replay`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from replaycheck.contract.claims import Claims, Formats
from replaycheck.contract.memory import Memory
from replaycheck.contract.session import PAD, Session, Stored
from replaycheck_kernels import cursors, mamba2
from replaycheck_kernels.mamba2.configs import ReplayConfig, StepConfig, replay_config, walk_length
from replaycheck_kernels.pool import DIMS, MAX_CAPACITY, Allocator, Geometry, Pool, allocate
from replaycheck_reference.formats.arrays import TORCH_DTYPE
from replaycheck_reference.layer import Mamba2Layer, Mamba2Tokens
from replaycheck_reference.policy import Path, Policy, Softplus

Config = StepConfig | ReplayConfig

__all__ = ["Mamba2Kernel", "allocator", "replay", "step"]

_ROLES = {"state": "state", "ring.x": "ring", "ring.B": "ring", "ring.dt": "ring", "cursor": "cursor", "origin": "cursor"}

#: dt within this many fp32 roundings; measured: 5.4 interpreted.
_SOFTPLUS = Softplus(form="relative", units=8.0)

_FORMATS = ("fp32", "fp16", "bf16")
_DIMS = tuple(DIMS)
_FEATURES = ("bias", "skip", "gated", "groups", "no_softplus", "skip_rows", "dt_limits")
_GUARANTEES = ("batch_invariant", "nan_poison")

#: Where activations are bf16: bf16 checkpoints are read and windows are folded on the matrix unit, a computed operand in three parts.
_SCORES = Path(
    output="scores", weights="sum", token="bf16x3", readout="bf16x3", score="bf16x3", value="bf16x3", accumulator="tensor"
)

STEP_CLAIMS = Claims(
    name="replaycheck mamba2 step", kind="step", policy=Policy(paths={"step": Path()}, softplus=_SOFTPLUS),
    states=_FORMATS, activations=_FORMATS, outputs=_FORMATS, head_dims=_DIMS, state_dims=_DIMS, capacities=(1, 1),
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
    states=_FORMATS, activations=_FORMATS, outputs=_FORMATS, head_dims=_DIMS, state_dims=_DIMS, capacities=(1, MAX_CAPACITY),
    features=_FEATURES, guarantees=_GUARANTEES, pad_output="untouched",
)


class Mamba2Session:
    """A stack of layers over one memory; layers of a replay stack share the cursor of the first."""

    def __init__(
        self, layers: Sequence[Mamba2Layer], pools: Sequence[Pool], launch: Callable[..., Tensor], configs: Sequence[Config | None]
    ) -> None:
        self._layers = layers
        self._pools = pools
        self._launch = launch
        self._configs = configs
        self._committed = [0] * pools[0].slots
        self._slots = torch.empty(0, dtype=torch.int32, device=pools[0].state.device)
        self._rows: list[tuple[int, int]] = []

    def admit(self, slot: int, states: Sequence[Tensor] | None) -> None:
        for index, pool in enumerate(self._pools):
            if states is None:
                pool.state[slot].zero_()
            else:
                pool.state[slot].copy_(states[index])
        ring = self._pools[0].ring
        if ring is not None:
            ring.cursor[slot] = 0
        self._committed[slot] = 0

    def begin(self, rows: Sequence[tuple[int, int]]) -> None:
        for slot, length in rows:
            if length not in (0, 1):
                raise ValueError(f"a row of a decode step holds one token, got length {length} for slot {slot}")
        self._rows = list(rows)
        named = [slot for slot, length in rows if length]
        self._slots = torch.tensor(named, dtype=torch.int32, device=self._slots.device)

    def run(self, layer: int, tokens: Mamba2Tokens, out: Tensor) -> None:
        parameters = self._layers[layer]
        self._launch(
            self._pools[layer], self._slots, x=tokens.x, dt=tokens.dt, B=tokens.B, C=tokens.C, z=tokens.z, A=parameters.decay,
            dt_bias=parameters.dt_bias, D=parameters.D, softplus=parameters.variant.softplus,
            dt_limits=parameters.variant.dt_limits, out=out,
            config=self._configs[layer],
        )

    def commit(self, counts: Sequence[int | None]) -> None:
        for (slot, length), count in zip(self._rows, counts, strict=True):
            if count is not None and count != length:
                raise ValueError(f"a decode step cannot be taken back: commit of {count} of {length} tokens for slot {slot}")
        ring = self._pools[0].ring
        if ring is not None:
            cursors.advance(ring.cursor, self._slots, capacity=ring.capacity)
        for slot, length in self._rows:
            if slot != PAD:
                self._committed[slot] += length

    def copy(self, src: int, dst: int) -> None:
        for pool in self._pools:
            buffers = [pool.state] if pool.ring is None else [pool.state, pool.ring.x, pool.ring.B, pool.ring.dt]
            for buffer in buffers:
                buffer[dst].copy_(buffer[src])
        ring = self._pools[0].ring
        if ring is not None:
            ring.cursor[dst] = ring.cursor[src]
        self._committed[dst] = self._committed[src]

    def release(self, slot: int) -> None:
        """Nothing to do: admit starts a slot afresh, and rows past the cursor are never read."""

    def stored(self, slot: int, layer: int) -> Stored:
        ring = self._pools[layer].ring
        pending = 0 if ring is None else int(ring.cursor[slot])
        return Stored(bits=self._pools[layer].state[slot], folded=self._committed[slot] - pending)


class Mamba2Kernel:
    """A kernel path: `claims`, and `open` for sessions that run `launch`."""

    def __init__(self, claims: Claims, launch: Callable[..., Tensor]) -> None:
        self.claims = claims
        self._launch = launch

    def open(
        self, layers: Sequence[Mamba2Layer], *, formats: Formats, capacity: int, slots: int, memory: Memory, seed: int
    ) -> Session:
        low, high = self.claims.capacities
        if not low <= capacity <= high:
            raise ValueError(f"capacity must be from {low} to {high}, got {capacity}")
        for part in ("state", "activation", "output"):
            if getattr(formats, part) not in _FORMATS:
                raise ValueError(f"{part} format must be one of {', '.join(_FORMATS)}, got {getattr(formats, part)}")
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
        return Mamba2Session([layer.to(pools[0].state.device) for layer in layers], pools, self._launch, configs)


def _config(pool: Pool, activation: torch.dtype) -> Config | None:
    """The measured configuration on a device; the one with the fewest programs, which has the same bits, where kernels are interpreted."""
    if pool.state.is_cuda:
        return None
    if pool.ring is None:
        return StepConfig(tile=max(16, pool.geometry.head_dim & -pool.geometry.head_dim))
    walking = replay_config(pool.geometry, state=pool.state.dtype, activation=activation, rows=1 << 20)
    return replace(walking, rows=walk_length(pool.geometry))


def allocator(memory: Memory, layer: int) -> Allocator:
    """The checker's memory as an allocator: slots come first, ring rows third."""

    def alloc(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        role = _ROLES[name]
        return memory.alloc(
            f"layer{layer}.{name}", shape, dtype, role=role, slot_axis=0, row_axis=2 if role == "ring" else None
        )

    return alloc


step = Mamba2Kernel(STEP_CLAIMS, mamba2.step)
replay = Mamba2Kernel(REPLAY_CLAIMS, mamba2.replay)
