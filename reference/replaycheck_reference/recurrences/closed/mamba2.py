"""Mamba-2 over a run of tokens as three matrix products a head, on balls: proven and cheap enough for full layers.

With w_ij = a_i a_(i-1) ... a_(j+1) dt_j, the weight token j has at token i, and g_i = a_i ... a_1,

    Y = (w o C B^T) X + X diag(D) + diag(g) C S_0^T    (o: element by element, j <= i), then times z sigmoid(z) where gated
    S = g_T S_0 + X^T diag(w_T) B

which is the recurrence summed up; C B^T is shared by the heads of a group. Same source as the scalar specification, section 6 there
(the dual form with a one-semiseparable mask).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...arithmetic.balls import Arb, bits_of
from ...layer import Mamba2Layer, Mamba2Tokens
from ..mamba2 import Gate, gate
from .balls import Balls

if TYPE_CHECKING:
    from flint import arb, arb_mat

__all__ = ["Enclosure", "closed_form"]

#: Tokens summed up at once; the state is carried between chunks as balls. Work a token grows with it, and the state's share falls.
_CHUNK = 64


@dataclass(frozen=True, kw_only=True)
class Enclosure:
    """Proven balls around everything a run of tokens gives.

    outputs: [tokens, heads, head_dim]; end: [heads, head_dim, state_dim], the state after the last token. `heads` are the ones computed.
    """

    heads: tuple[int, ...]
    outputs: Balls
    end: Balls


def closed_form(
    layer: Mamba2Layer, start: Tensor | None, tokens: Mamba2Tokens, *, digits: int = 50, heads: Sequence[int] | None = None,
) -> Enclosure:
    """Outputs and end state of `heads` (all of them where None), enclosed.

    start: [heads, head_dim, state_dim], any float dtype, None is zero. Radii stay below 10^-digits times the sum of the moduli of an
    element's terms: only cancellation makes them larger beside the value. Raises ValueError naming a head out of range, a wrong shape,
    an empty run, or inputs that are not finite; ImportError where python-flint is absent.
    """
    chosen = tuple(range(layer.heads)) if heads is None else tuple(heads)
    _validate(layer, start, tokens, chosen)
    runs = [_runs_of_group(layer, start, tokens, group, list(members), digits)
            for group, members in groupby(chosen, key=lambda head: head // (layer.heads // layer.groups))]
    outputs, ends = zip(*(run for of_group in runs for run in of_group), strict=True)
    return Enclosure(heads=chosen, outputs=Balls(outputs, axis=1), end=Balls(ends, axis=0))


def _validate(layer: Mamba2Layer, start: Tensor | None, tokens: Mamba2Tokens, heads: tuple[int, ...]) -> None:
    count, H, P, N, G = len(tokens), layer.heads, layer.head_dim, layer.state_dim, layer.groups
    if not count:
        raise ValueError("tokens must hold at least one token, got 0")
    if not heads:
        raise ValueError("heads must name at least one head, got none")
    for head in heads:
        if not 0 <= head < H:
            raise ValueError(f"heads must be in 0 .. {H - 1}, got {head}")
    if (tokens.z is not None) != layer.variant.gated:
        raise ValueError(f"tokens.z must be {'given' if layer.variant.gated else 'absent'} for {layer.variant}")
    wanted = {"start": (start, (H, P, N)), "tokens.x": (tokens.x, (count, H, P)), "tokens.dt": (tokens.dt, (count, H)),
              "tokens.B": (tokens.B, (count, G, N)), "tokens.C": (tokens.C, (count, G, N)), "tokens.z": (tokens.z, (count, H, P))}
    for name, (value, shape) in wanted.items():
        if value is not None and tuple(value.shape) != shape:
            raise ValueError(f"{name} must have shape {shape}, got {tuple(value.shape)}")
        if value is not None and not value.isfinite().all():
            raise ValueError(f"{name} must be finite, got {float(value[~value.isfinite()][0])}")


def _runs_of_group(
    layer: Mamba2Layer, start: Tensor | None, tokens: Mamba2Tokens, group: int, heads: list[int], digits: int,
) -> list[tuple[arb_mat, arb_mat]]:
    """Outputs [tokens, head_dim] and end state [head_dim, state_dim] of some heads of one group."""
    import flint

    zero = torch.zeros(layer.head_dim, layer.state_dim)
    with flint.ctx.workprec(bits_of(digits) + _extra_bits(layer, tokens)):
        states = [_matrix(zero if start is None else start[head]) for head in heads]
        outputs: list[list[list[arb]]] = [[] for _ in heads]
        for first in range(0, len(tokens), _CHUNK):
            chunk = tokens[first : first + _CHUNK]
            B, C = _matrix(chunk.B[:, group]), _matrix(chunk.C[:, group])
            Ct = C.transpose()
            scores = (B * Ct).transpose().tolist()
            for k, head in enumerate(heads):
                rows, states[k] = _run_chunk(layer, head, chunk, states[k], B, Ct, scores, digits)
                outputs[k] += rows
        return [(flint.arb_mat(rows), state) for rows, state in zip(outputs, states, strict=True)]


def _run_chunk(
    layer: Mamba2Layer, head: int, tokens: Mamba2Tokens, state: arb_mat, B: arb_mat, Ct: arb_mat, scores: list[list[arb]], digits: int,
) -> tuple[list[list[arb]], arb_mat]:
    """Output rows and end state of one chunk of one head. scores: C B^T, [tokens][tokens]."""
    import flint

    arithmetic = Arb(digits=digits)
    gates = [gate(arithmetic, layer, head, dt) for dt in tokens.dt[:, head].tolist()]
    X = _matrix(tokens.x[:, head])
    weights = _weights(gates)
    decays = _decays(gates)
    by_row = layer.variant.skip_rows
    masked = _masked(weights, scores, skip=None if layer.D is None or by_row else flint.arb(float(layer.D[head])))
    readout = (state * Ct).transpose().tolist()
    rows = [[v + s * g for v, s in zip(values, read, strict=True)]
            for values, read, g in zip((masked * X).tolist(), readout, decays, strict=True)]
    if layer.D is not None and by_row:
        D = _balls(layer.D[head])
        rows = [[y + d * x for y, d, x in zip(row, D, xs, strict=True)] for row, xs in zip(rows, X.tolist(), strict=True)]
    if tokens.z is not None:
        rows = [[y * (v * arithmetic.sigmoid(v)) for y, v in zip(row, _balls(z), strict=True)]
                for row, z in zip(rows, tokens.z[:, head], strict=True)]
    weighted = flint.arb_mat([[v * w for v in row] for row, w in zip(X.tolist(), weights[-1], strict=True)])
    return rows, state * decays[-1] + weighted.transpose() * B


def _weights(gates: list[Gate[arb]]) -> list[list[arb]]:
    """w[i][j], j <= i."""
    rows: list[list[arb]] = []
    for now in gates:
        older = rows[-1] if rows else []
        rows.append([now.decay * w for w in older] + [now.dt])
    return rows


def _decays(gates: list[Gate[arb]]) -> list[arb]:
    """g[i], the decay from before the chunk to token i."""
    products = [gates[0].decay]
    for now in gates[1:]:
        products.append(products[-1] * now.decay)
    return products


def _masked(weights: list[list[arb]], scores: list[list[arb]], *, skip: arb | None) -> arb_mat:
    """w o C B^T, plus a head's D on the diagonal, where token i meets its own x."""
    import flint

    rows = [[w * s for w, s in zip(row, seen[: len(row)], strict=True)] for row, seen in zip(weights, scores, strict=True)]
    if skip is not None:
        for row in rows:
            row[-1] = row[-1] + skip
    return flint.arb_mat([row + [0] * (len(rows) - len(row)) for row in rows])


def _extra_bits(layer: Mamba2Layer, tokens: Mamba2Tokens) -> int:
    """Bits that e^(A dt) loses, as an exponent of size 2^k costs k bits of the exponential."""
    bias = 0.0 if layer.dt_bias is None else layer.dt_bias.double().cpu()
    raw = (tokens.dt.double().cpu() + bias).abs()
    if layer.variant.dt_limits is not None:
        raw = raw.clamp(min=layer.variant.dt_limits[0])
    decay = layer.decay.double().cpu()
    A = decay.exp() if layer.variant.decay_parameter == "A_log" else decay
    return int((A * (1 + raw)).abs().max().clamp(1.0, 1e300).log2().ceil())


def _balls(values: Tensor) -> list[arb]:
    import flint

    return [flint.arb(v) for v in values.tolist()]


def _matrix(values: Tensor) -> arb_mat:
    import flint

    return flint.arb_mat(values.double().tolist())
