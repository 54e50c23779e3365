"""The right host kernels of Mamba-2, and their claims: what faults and variants start from; and how a part is changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from replaycheck.contract.claims import Claims
from replaycheck_reference.policy import Path, Policy

from .host import HostKernel, ReplaySession, StepSession

__all__ = ["REPLAY", "REPLAY_CLAIMS", "STEP", "STEP_CLAIMS", "mixed"]

STEP_CLAIMS = Claims(
    name="host-step", kind="step",
    policy=Policy(paths={"step": Path(order="tree")}, ftz=False),
    states=("fp32", "fp16", "bf16"), activations=("fp32", "fp16", "bf16"), outputs=("fp32", "fp16", "bf16"),
    features=("bias", "skip", "gated", "groups", "no_softplus", "A_log", "skip_rows", "dt_limits"),
    guarantees=("batch_invariant", "nan_poison"),
)

_REPLAY_PATHS = {"output": Path(output="scores", weights="sum", order="tree"), "flush": Path(weights="sum", order="tree")}

REPLAY_CLAIMS = replace(STEP_CLAIMS, name="host-replay", kind="replay", capacities=(1, 32), policy=Policy(paths=_REPLAY_PATHS, ftz=False))

#: The plain step, and replay decode, both in fp32.
STEP = HostKernel(claims=STEP_CLAIMS, session=StepSession)
REPLAY = HostKernel(claims=REPLAY_CLAIMS, session=ReplaySession)


def mixed(part: type[Any], base: type[Any]) -> type[Any]:
    """`base` with what `part` overrides of a class that both derive from; `part` itself where it derives from `base`."""
    return part if issubclass(part, base) else type(part.__name__, (part, base), {})
