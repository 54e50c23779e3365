"""A step in a few lines of torch, right and wrong, for the tests of the player."""

from __future__ import annotations

import torch
from torch import Tensor

from replaycheck.contract.claims import Claims
from replaycheck.contract.session import PAD
from replaycheck_reference.layer import Mamba2Layer, Mamba2Tokens

__all__ = ["CLAIMS", "functional", "inplace"]

CLAIMS = Claims(name="simple", states=("fp32", "bf16"), activations=("fp32", "bf16"), outputs=("fp32", "bf16"),
                guarantees=("batch_invariant", "nan_poison"))


def functional(state: Tensor, tokens: Mamba2Tokens, layer: Mamba2Layer) -> tuple[Tensor, Tensor]:
    """One token a row, in fp32."""
    assert layer.dt_bias is not None and layer.D is not None
    group = layer.group_of_head()
    dt = torch.nn.functional.softplus(tokens.dt.float() + layer.dt_bias)
    x, B, C = tokens.x.float(), tokens.B.float()[:, group], tokens.C.float()[:, group]
    new = state.float() * torch.exp(layer.decay * dt)[:, :, None, None] + (dt[:, :, None] * x)[..., None] * B[:, :, None]
    y = (new * C[:, :, None]).sum(-1) + layer.D[:, None] * x
    return y.to(tokens.x.dtype), new.to(state.dtype)


def inplace(pool: Tensor, slots: Tensor, tokens: Mamba2Tokens, layer: Mamba2Layer) -> Tensor:
    """The same on a pool; pad rows get NaN, which nobody may look at."""
    out = torch.full_like(tokens.x, float("nan"))
    live = (slots != PAD).nonzero().flatten()
    out[live], pool[slots[live]] = functional(pool[slots[live]], tokens[live], layer)
    return out
