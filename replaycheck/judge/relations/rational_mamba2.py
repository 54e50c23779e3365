"""The rational answer of Mamba-2 on representable inputs."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from replaycheck.contract.claims import Claims
from replaycheck_reference.layer import Mamba2Layer, Mamba2Tokens
from replaycheck_reference.variant import Mamba2Variant

from .dyadic import Dyadic
from .rational import Rational

__all__ = ["RATIONAL"]

_SOFTPLUS_IS_IDENTITY = 30.0      # softplus(x) exceeds x by less than e^-x: from here on less than a quarter ulp of x in any format used


def _owed(claims: Claims) -> bool:
    """Whether the kernel can be given a dt that it promises to use exactly."""
    return _identity(claims) or "no_softplus" in claims.features


def _identity(claims: Claims) -> bool:
    from_ = claims.policy.softplus.identity_from
    return from_ is not None and from_ <= _SOFTPLUS_IS_IDENTITY


def _promised(variant: Mamba2Variant, claims: Claims) -> Mamba2Variant:
    """Without softplus where the kernel does not promise that it is the identity at large dt."""
    return variant if _identity(claims) else replace(variant, softplus=False)


def _form(variant: Mamba2Variant) -> Mamba2Variant:
    return replace(variant, gated=False, decay_parameter="A", dt_limits=None)


def _answer(layer: Mamba2Layer, start: Tensor | None, tokens: Mamba2Tokens) -> tuple[Tensor, list[Tensor]]:
    """Raises ValueError where the decay is not 1 or a softplus would round."""
    if bool((layer.decay != 0).any()) or layer.variant.decay_parameter != "A" or layer.variant.gated:
        raise ValueError(f"exact inputs need an ungated layer and a decay of 1, got {layer.variant} and decay {layer.decay.tolist()}")
    group, skip = layer.group_of_head(), layer.skip_of_rows()
    state = Dyadic.of(torch.zeros(layer.state_shape) if start is None else start)
    outputs, states = [torch.empty(0, layer.heads, layer.head_dim, dtype=torch.float64)], [state.to_float64()]
    for t in range(len(tokens)):
        x, B, C = Dyadic.of(tokens.x[t]), Dyadic.of(tokens.B[t][group]), Dyadic.of(tokens.C[t][group])
        state = state + (_dt(layer, tokens.dt[t]) * x)[:, :, None] * B[:, None, :]
        y = (state * C[:, None, :]).sum(-1)
        if skip is not None:
            y = y + Dyadic.of(skip) * x
        outputs.append(y.to_float64()[None])
        states.append(state.to_float64())
    return torch.cat(outputs), states


def _dt(layer: Mamba2Layer, raw: Tensor) -> Dyadic:
    """dt [heads, 1] of one token."""
    dt = Dyadic.of(raw) if layer.dt_bias is None else Dyadic.of(raw) + Dyadic.of(layer.dt_bias)
    smallest = float(dt.to_float64().min())
    if layer.variant.softplus and smallest < _SOFTPLUS_IS_IDENTITY:
        raise ValueError(f"exact inputs need raw dt of at least {_SOFTPLUS_IS_IDENTITY:g} where softplus is on, got {smallest}")
    return dt[:, None]


RATIONAL = Rational(owed=_owed, promised=_promised, form=_form, answer=_answer)
