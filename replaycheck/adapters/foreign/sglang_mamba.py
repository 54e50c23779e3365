"""sglang's `kernels/ops/mamba/triton_ops/mamba_ssm.py`: importing this module fetches that file and becomes it.

It keeps this name, so that a process which recorded a launch and one which compiles it import the same kernel.
Raises Unavailable at import where the package cannot be fetched.
"""

import contextlib
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch

from .alone import load_alone
from .published import SELECTIVE_STATE_UPDATE

selective_state_update: Callable[..., None]  # the published launcher


class _Torch(SimpleNamespace):
    """torch, but for the launcher's device guard, which torch has for no CPU."""

    @staticmethod
    def get_device_module(device: torch.device) -> Any:
        if device.type == "cpu":
            return SimpleNamespace(device=lambda _index: contextlib.nullcontext())
        return torch.get_device_module(device)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


# Dependent launch is off: it moves the start of a launch, never a bit of its result, and needs the framework's device queries.
_published = load_alone(SELECTIVE_STATE_UPDATE.fetch(), __name__, {"sglang.kernels.jit.utils": {"is_arch_support_pdl": lambda: False}})
vars(_published)["torch"] = _Torch()
sys.modules[__name__] = _published
