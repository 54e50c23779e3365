"""Our kernels of the gated delta rules as the checker sees them: step, and replay with a ring in fp32 or in bf16."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from replaycheck.contract.claims import Claims, Formats
from replaycheck.contract.memory import Memory
from replaycheck.contract.session import Session
from replaycheck_kernels import delta
from replaycheck_kernels.delta.configs import ReplayConfig, StepConfig
from replaycheck_kernels.pool import DIMS, MAX_CAPACITY, Geometry
from replaycheck_reference.formats.arrays import TORCH_DTYPE
from replaycheck_reference.layer import DeltaLayer, DeltaTokens
from replaycheck_reference.policy import Path, Policy, Softplus

from .decode import FORMATS, DecodeSession, allocator, check_build

__all__ = ["DeltaKernel", "gdn_replay", "gdn_replay_bf16", "gdn_step", "kda_replay", "kda_replay_bf16", "kda_step"]

_FEATURES = ("bias", "groups", "lower_bound", "no_A_log", "doubled", "norm_outside", "norm_max", "norm_off")
_GUARANTEES = ("batch_invariant", "nan_poison")
#: Log decays within this many fp32 roundings of the softplus in them; measured: 5.4 interpreted.
_SOFTPLUS = Softplus(form="relative", units=8.0)
_SCORES = Path(output="scores", weights="sum")


def _claims(recurrence: str, kind: str, ring: str = "fp32") -> Claims:
    """ring: format of keys and deltas in between steps. A key is rounded to it before its first use, a delta after."""
    paths = {"step": {"step": Path()}, "replay": {"output": _SCORES, "flush": _SCORES}}[kind]
    return Claims(
        name=f"replaycheck {recurrence} {kind}" + ("" if ring == "fp32" else f", {ring} ring"), recurrence=recurrence, kind=kind,
        policy=Policy(paths=paths, softplus=_SOFTPLUS, key=ring, ring_delta=ring),
        states=FORMATS, activations=FORMATS, outputs=FORMATS, head_dims=tuple(DIMS), state_dims=tuple(DIMS),
        capacities=(1, MAX_CAPACITY) if kind == "replay" else (1, 1), features=_FEATURES, guarantees=_GUARANTEES, pad_output="untouched",
    )


def _form(layer: DeltaLayer) -> delta.Form:
    variant = layer.variant
    for name in ("gate", "beta"):
        if getattr(variant, name) == "given":
            raise ValueError(f"{name} must be handed over raw, got it given")
    return delta.Form(
        scale=layer.scale, gate=variant.gate, lower_bound=variant.lower_bound, doubled=variant.beta == "doubled", norm=variant.norm,
        eps=variant.eps,
    )


class DeltaKernel:
    """A kernel path: `claims`, and `open` for sessions that run `launch`."""

    def __init__(self, claims: Claims, launch: Callable[..., Tensor]) -> None:
        self.claims = claims
        self._launch = launch

    def open(
        self, layers: Sequence[DeltaLayer], *, formats: Formats, capacity: int, slots: int, memory: Memory, seed: int
    ) -> Session:
        check_build(self.claims, formats, capacity)
        pools: list[delta.DeltaPool] = []
        for index, layer in enumerate(layers):
            first = pools[0].ring if pools else None
            geometry = Geometry(heads=layer.heads, head_dim=layer.head_dim, state_dim=layer.state_dim, groups=layer.groups)
            pools.append(
                delta.allocate(
                    geometry, channels=layer.variant.channels, slots=slots, state=TORCH_DTYPE[formats.state],
                    ring=TORCH_DTYPE[self.claims.policy.ring_delta], capacity=capacity if self.claims.kind == "replay" else None,
                    cursor=None if first is None else first.cursor, allocator=allocator(memory, index),
                )
            )
        moved, forms = [layer.to(pools[0].state.device) for layer in layers], [_form(layer) for layer in layers]

        def launch(index: int, slots: Tensor, tokens: DeltaTokens, out: Tensor) -> Tensor:
            own = moved[index]
            return self._launch(
                pools[index], slots, q=tokens.q, k=tokens.k, v=tokens.v, g=tokens.g, b=tokens.b, A_log=own.A_log, dt_bias=own.dt_bias,
                form=forms[index], out=out, config=_config(pools[index]),
            )

        return DecodeSession(pools, launch)


def _config(pool: delta.DeltaPool) -> StepConfig | ReplayConfig | None:
    """That of the build on a device; the one with the fewest programs, which has the same bits, where kernels are interpreted."""
    whole = 1 << (pool.geometry.head_dim - 1).bit_length()
    return None if pool.state.is_cuda else StepConfig(tile=whole) if pool.ring is None else ReplayConfig(tile=whole)


gdn_step = DeltaKernel(_claims("gdn", "step"), delta.step)
gdn_replay = DeltaKernel(_claims("gdn", "replay"), delta.replay)
gdn_replay_bf16 = DeltaKernel(_claims("gdn", "replay", "bf16"), delta.replay)
kda_step = DeltaKernel(_claims("kda", "step"), delta.step)
kda_replay = DeltaKernel(_claims("kda", "replay"), delta.replay)
kda_replay_bf16 = DeltaKernel(_claims("kda", "replay", "bf16"), delta.replay)
