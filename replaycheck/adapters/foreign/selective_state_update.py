"""`selective_state_update` of mamba-ssm in the copy that sglang publishes, as a step kernel.

The claims are read off its source, and nothing is claimed that it does not state; docs/foreign.md names the lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from replaycheck.contract.claims import Claims, Formats
from replaycheck.contract.memory import Memory
from replaycheck.contract.session import PAD, Stored
from replaycheck_reference.formats.arrays import TORCH_DTYPE
from replaycheck_reference.layer import Mamba2Layer, Mamba2Tokens
from replaycheck_reference.policy import Path, Policy, Softplus

__all__ = ["SelectiveStateUpdate", "kernel"]

CLAIMS = Claims(
    name="selective_state_update (sglang 0.5.23)",
    kind="step",
    policy=Policy(
        paths={"step": Path(output="state", weights="product", token="fp32", readout="fp32", accumulator="fp32", reads="unrounded")},
        softplus=Softplus(form="naive", identity_from=20 + 2**-19),  # the next fp32 above 20: "dt <= 20" takes the logarithm
        exponential="exp",
    ),
    states=("fp32", "fp16", "bf16"),
    activations=("fp32", "fp16", "bf16"),
    outputs=("fp32", "fp16", "bf16"),
    features=("bias", "skip", "gated", "groups", "no_softplus"),
    guarantees=(),
    pad_output="untouched",
)


class SelectiveStateUpdate:
    """The kernel: pool [slots, heads, head_dim, state_dim], updated in place; rows name slots, -1 names none."""

    claims = CLAIMS

    def open(
        self, layers: Sequence[Mamba2Layer], *, formats: Formats, capacity: int, slots: int, memory: Memory, seed: int
    ) -> _Session:
        """A session over `layers`. Raises ValueError for a layer that is handed A_log, Unavailable without the published package."""
        for layer in layers:
            if layer.variant.decay_parameter != "A":
                raise ValueError(f"selective_state_update is handed A, not {layer.variant.decay_parameter}")
        from . import sglang_mamba  # late: only a process that launches needs the package

        pools = [
            memory.alloc(f"state.{index}", (slots, *layer.state_shape), TORCH_DTYPE[formats.state], role="state", slot_axis=0)
            for index, layer in enumerate(layers)
        ]
        return _Session(layers, pools, sglang_mamba.selective_state_update)


class _Session:
    def __init__(self, layers: Sequence[Mamba2Layer], pools: list[Tensor], update: Any) -> None:
        self._layers = [_Parameters(layer) for layer in layers]
        self._pools = pools
        self._update = update
        self._slots = torch.empty(0)
        self._folded: dict[int, int] = {}
        self._rows: list[tuple[int, int]] = []

    def admit(self, slot: int, states: Sequence[Tensor] | None) -> None:
        for index, pool in enumerate(self._pools):
            pool[slot].zero_() if states is None else pool[slot].copy_(states[index])
        self._folded[slot] = 0

    def begin(self, rows: Sequence[tuple[int, int]]) -> None:
        longest = max((length for _, length in rows), default=0)
        if longest > 1:
            raise ValueError(f"selective_state_update takes rows of one token as a step kernel, got a row of {longest}")
        self._rows = list(rows)
        named = [slot for slot, length in rows if length]
        self._slots = torch.tensor(named, dtype=torch.int32, device=self._pools[0].device)

    def run(self, layer: int, tokens: Mamba2Tokens, out: Tensor) -> None:
        if len(tokens) == 0:
            return
        given = self._layers[layer]
        heads, head_dim, _ = given.shape
        self._update(
            self._pools[layer], tokens.x, tokens.dt[..., None].expand(-1, heads, head_dim), given.A, tokens.B, tokens.C, D=given.D,
            z=tokens.z, dt_bias=given.dt_bias, dt_softplus=given.softplus, state_batch_indices=self._slots, pad_slot_id=PAD, out=out,
        )

    def commit(self, counts: Sequence[int | None]) -> None:
        for (slot, length), count in zip(self._rows, counts, strict=True):
            kept = length if count is None else count
            if kept != length:
                raise ValueError(f"a step kernel commits whole rows, got {kept} of {length} in slot {slot}")
            if slot != PAD:
                self._folded[slot] += length

    def copy(self, src: int, dst: int) -> None:
        for pool in self._pools:
            pool[dst].copy_(pool[src])
        self._folded[dst] = self._folded[src]

    def release(self, slot: int) -> None:
        del self._folded[slot]

    def stored(self, slot: int, layer: int) -> Stored:
        return Stored(bits=self._pools[layer][slot], folded=self._folded[slot])


class _Parameters:
    """A layer in the shapes the launcher takes: one value a head, broadcast with stride 0 so that it takes its scalar branch.

    The launcher reads the strides of dt_bias and D even where it is handed none, and fails; zeros stand in, which change no value.
    """

    def __init__(self, layer: Mamba2Layer) -> None:
        self.shape = layer.state_shape
        heads, head_dim, state_dim = layer.state_shape
        self.A = layer.decay[:, None, None].expand(heads, head_dim, state_dim)
        self.dt_bias = _or_zeros(layer.dt_bias, layer.decay)[:, None].expand(heads, head_dim)
        self.D = _or_zeros(layer.D, layer.decay)[:, None].expand(heads, head_dim)
        self.softplus = layer.variant.softplus


def _or_zeros(given: Tensor | None, like: Tensor) -> Tensor:
    return torch.zeros_like(like) if given is None else given


kernel = SelectiveStateUpdate()
