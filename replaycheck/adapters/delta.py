"""Our kernels of the gated delta rules as the checker sees them: `gdn_step` and `kda_step`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from replaycheck.contract.claims import Claims, Formats
from replaycheck.contract.memory import Memory
from replaycheck.contract.session import Session
from replaycheck_kernels import delta
from replaycheck_kernels.delta.configs import StepConfig
from replaycheck_kernels.pool import DIMS, Geometry
from replaycheck_reference.formats.arrays import TORCH_DTYPE
from replaycheck_reference.layer import DeltaLayer, DeltaTokens
from replaycheck_reference.policy import Path, Policy, Softplus

from .decode import FORMATS, DecodeSession, allocator, check_build

__all__ = ["DeltaKernel", "gdn_step", "kda_step"]

_FEATURES = ("bias", "groups", "lower_bound", "no_A_log", "doubled", "norm_outside", "norm_max", "norm_off")


def _step_claims(recurrence: str) -> Claims:
    return Claims(
        name=f"replaycheck {recurrence} step", recurrence=recurrence, kind="step",
        policy=Policy(paths={"step": Path()}, softplus=Softplus(form="relative", units=8.0)),
        states=FORMATS, activations=FORMATS, outputs=FORMATS, head_dims=tuple(DIMS), state_dims=tuple(DIMS), capacities=(1, 1),
        features=_FEATURES, guarantees=("batch_invariant", "nan_poison"), pad_output="untouched",
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
            geometry = Geometry(heads=layer.heads, head_dim=layer.head_dim, state_dim=layer.state_dim, groups=layer.groups)
            pools.append(
                delta.allocate(
                    geometry, channels=layer.variant.channels, slots=slots, state=TORCH_DTYPE[formats.state],
                    allocator=allocator(memory, index),
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


def _config(pool: delta.DeltaPool) -> StepConfig | None:
    """That of the build on a device; the one with the fewest programs, which has the same bits, where kernels are interpreted."""
    return None if pool.state.is_cuda else StepConfig(tile=1 << (pool.geometry.head_dim - 1).bit_length())


gdn_step = DeltaKernel(_step_claims("gdn"), delta.step)
kda_step = DeltaKernel(_step_claims("kda"), delta.step)
