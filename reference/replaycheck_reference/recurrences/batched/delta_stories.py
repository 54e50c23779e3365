"""What a delta rule computes when one line of it is misread: stories that a residual may tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...layer import DeltaLayer, DeltaTokens
from .delta import DeltaTerms, decompose

__all__ = ["Told", "stories"]


@dataclass(frozen=True, kw_only=True)
class Told:
    """Outputs [tokens, heads, head_dim] and end state [heads, head_dim, state_dim] of a window as a story has them, float64."""

    made: Tensor
    left: Tensor

    def outputs(self) -> Tensor:
        return self.made

    def end(self) -> Tensor:
        return self.left


def stories(layer: DeltaLayer, start: Tensor, tokens: DeltaTokens) -> Iterator[tuple[str, Told | DeltaTerms]]:
    """Each story in words that follow "acts as if", and the window it makes."""
    right, form = decompose(layer, start, tokens), layer.variant
    yield "the state were decayed after the prediction", _again(right, decayed=False, updated=True)
    yield "outputs were read before the update", _again(right, decayed=True, updated=False)
    for name, other in (("keys and queries were not normalised", "off"), ("eps stood inside the root", "inside"),
                        ("eps stood outside the root", "outside")):
        if form.norm not in ("off", other):
            yield name, decompose(replace(layer, variant=replace(form, norm=other)), start, tokens)  # type: ignore[arg-type]
    if form.beta != "given":
        other_beta = "sigmoid" if form.beta == "doubled" else "doubled"
        told = "beta were not doubled" if form.beta == "doubled" else "beta were doubled"
        yield told, decompose(replace(layer, variant=replace(form, beta=other_beta)), start, tokens)  # type: ignore[arg-type]
    if layer.dt_bias is not None:
        yield "the gate had no bias", decompose(replace(layer, dt_bias=torch.zeros_like(layer.dt_bias)), start, tokens)
    if layer.A_log is not None:
        yield "the gate had no A_log", decompose(replace(layer, A_log=torch.zeros_like(layer.A_log)), start, tokens)
    if layer.scale != 1:
        yield "queries were not scaled", decompose(replace(layer, scale=1.0), start, tokens)


def _again(terms: DeltaTerms, *, decayed: bool, updated: bool) -> Told:
    """The window with predictions of the decayed state or of the one before, and outputs of the updated state or of the one before."""
    state, outputs = terms.start, []
    for m in range(terms.k.shape[-3]):
        k, q, beta = terms.k[m], terms.q[m], terms.beta[m][:, None]
        before = state * torch.exp(terms.log_decay[m])[:, None, :]
        delta = beta * (terms.v[m] - torch.einsum("hpn,hn->hp", before if decayed else state, k))
        state = before + delta[:, :, None] * k[:, None, :]
        outputs.append(torch.einsum("hpn,hn->hp", state if updated else before, q))
    return Told(made=torch.stack(outputs), left=state)
