"""The rational answer of a delta rule on representable inputs."""

from __future__ import annotations

import torch
from torch import Tensor

from replaycheck_reference.layer import DeltaLayer, Tokens

from .dyadic import Dyadic
from .rational import Rational

__all__ = ["RATIONAL"]

#: What a key or query has as its one entry where there is a norm: no eps in use changes what it is after it, in fp32.
_LEAST = 4096.0
_SHUT = -1e4        # softplus and sigmoid from here down are zero in every format


def _answer(layer: DeltaLayer, start: Tensor | None, tokens: Tokens) -> tuple[Tensor, list[Tensor]]:
    """Outputs [tokens, heads, head_dim] and states at positions 0..tokens, float64.

    Raises ValueError where inputs are not exact ones: a decay other than 1, a beta other than 1/2 (1 where doubled),
    keys of several entries.
    """
    given = tokens.tensors()
    half = _beta(layer, given["b"])
    _check_decay(layer, given["g"])
    group = layer.group_of_head()
    k, q = (_unit(name, layer, given[name])[:, group] for name in ("k", "q"))
    state = Dyadic.of(torch.zeros(layer.state_shape) if start is None else start)
    outputs, states = [torch.empty(0, layer.heads, layer.head_dim, dtype=torch.float64)], [state.to_float64()]
    scale = Dyadic.of(torch.tensor(layer.scale))
    for t in range(len(tokens)):
        key, query = Dyadic.of(k[t]), Dyadic.of(q[t])
        minus = Dyadic.of(-k[t])
        delta = Dyadic.of(half) * (Dyadic.of(given["v"][t]) + (state * minus[:, None, :]).sum(-1))
        state = state + delta[:, :, None] * key[:, None, :]
        outputs.append((scale * (state * query[:, None, :]).sum(-1)).to_float64()[None])
        states.append(state.to_float64())
    return torch.cat(outputs), states


def _beta(layer: DeltaLayer, b: Tensor) -> Tensor:
    if bool((b != (0.5 if layer.variant.beta == "given" else 0)).any()):
        raise ValueError(f"exact inputs need a beta of 1/2 before any doubling, got {b.tolist()}")
    return torch.tensor(1.0 if layer.variant.beta == "doubled" else 0.5)


def _check_decay(layer: DeltaLayer, g: Tensor) -> None:
    raw = g.double() if layer.dt_bias is None else g.double() + layer.dt_bias.double()
    if bool(((raw != 0) if layer.variant.gate == "given" else (raw > _SHUT / 2)).any()):
        raise ValueError("exact inputs need a decay of 1: log decays of 0, or raw gates far below 0")


def _unit(name: str, layer: DeltaLayer, x: Tensor) -> Tensor:
    """Keys or queries after the norm: one entry of 1 or -1 each."""
    least = 1.0 if layer.variant.norm == "off" else _LEAST
    if bool(((x != 0).sum(-1) != 1).any()) or bool((x.abs().amax(-1) != least).any()):
        raise ValueError(f"exact inputs need {name} of one entry of {least:g} each")
    return torch.sign(x.double())


#: Gates are shut or given: a decay of 1 and a beta of 1/2 are owed by every kernel, in every form.
RATIONAL = Rational(owed=lambda claims: True, promised=lambda variant, claims: variant, form=lambda variant: variant, answer=_answer)
