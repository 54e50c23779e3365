"""The shipped weights."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import load_file

from .model import HybridModel

__all__ = ["WEIGHTS", "trained_model", "training"]

WEIGHTS = Path(__file__).with_name("weights.safetensors")


def trained_model() -> HybridModel:
    """The model trained here, fp32, on the CPU, without gradients."""
    model = HybridModel()
    model.load_state_dict(load_file(WEIGHTS))
    return model.requires_grad_(False).eval()


def training() -> dict[str, str]:
    """How it was trained: seed, steps, held-out loss before and after in nats a byte, digest of the text, versions."""
    with safe_open(str(WEIGHTS), framework="pt") as file:
        said: dict[str, str] = json.loads((file.metadata() or {})["trained"])
    return said
