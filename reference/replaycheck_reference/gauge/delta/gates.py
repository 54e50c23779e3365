"""Errors of what a delta rule computes of its inputs under a policy: log decays, decays and their products, beta, normalised keys."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...formats.arrays import smallest_subnormal, unit
from ...layer import DeltaLayer
from ...policy import Path, Policy
from ...recurrences.batched.delta import DeltaTerms
from ..functions import FunctionTable
from ..gates import decay_exponents, function_error, softplus_error
from ..units import additions, growth, tiny

__all__ = ["DeltaErrors", "delta_errors", "held_unit", "log_decay_error"]

#: A sigmoid, below this where its exponential overflows, may be flushed.
_FLUSHED = 2.0**-124


@dataclass(frozen=True, kw_only=True)
class DeltaErrors:
    """How far what a kernel computes of its inputs may lie from the exact values.

    one: relative error of each token's own decay, [..., tokens, heads, channels]. decay: absolute error of e^total, of that shape; weight:
    of e^span, [..., tokens, tokens, heads, channels]. beta: relative, [..., tokens, heads]; beta_floor: absolute. key_norm, query_norm:
    relative error of the whole vector, [..., tokens, heads]; key, query: of each of its elements by itself. lost: absolute, of an element
    near underflow.
    """

    one: Tensor
    decay: Tensor
    weight: Tensor
    beta: Tensor
    beta_floor: float
    key_norm: Tensor
    query_norm: Tensor
    key: float
    query: float
    lost: float


@dataclass(frozen=True, kw_only=True)
class _Decays:
    """Log decays with heads and channels in one dim, as the decays of `gates`."""

    rate: Tensor
    log_decay: Tensor
    total: Tensor
    span: Tensor


def delta_errors(layer: DeltaLayer, terms: DeltaTerms, policy: Policy, path: Path, table: FunctionTable) -> DeltaErrors:
    """Errors of the window's decays, evaluated as `path.weights` says, and of its betas, keys and queries."""
    inherited = log_decay_error(layer, terms, policy, path, table)
    own = inherited + unit(policy.gate) * (terms.log_decay.abs() + inherited)
    flat = _Decays(
        rate=terms.log_decay.new_ones(terms.log_decay.shape[-2] * terms.log_decay.shape[-1]),
        log_decay=terms.log_decay.flatten(-2), total=terms.total.flatten(-2), span=terms.span.flatten(-2),
    )
    span, total = decay_exponents(flat, policy, path, table, inherited.flatten(-2), torch.zeros_like(flat.rate))
    floor = tiny(policy, path)
    past = torch.exp(terms.span)
    weight = past * torch.expm1(span.view_as(past)) + torch.where(torch.isfinite(terms.span), floor, 0.0)
    decay = torch.exp(terms.total)
    form, computed = layer.variant, layer.variant.beta != "given"
    beta = _sigmoid_error(terms.raw_beta, torch.zeros_like(terms.raw_beta), policy, table) if computed else torch.zeros_like(terms.beta)
    held, divided = held_unit(policy.key), policy.norm_units * unit("fp32") if form.norm != "off" else 0.0
    return DeltaErrors(
        one=torch.expm1(own + function_error(policy, table, terms.log_decay)), decay=decay * torch.expm1(total.view_as(decay)) + floor,
        weight=weight, beta=(1 + beta) * (1 + held_unit(policy.beta)) - 1, beta_floor=2 * _FLUSHED if computed else 0.0,
        key_norm=_norm_error(layer, path, terms.k_squares), query_norm=_norm_error(layer, path, terms.q_squares), key=divided + held,
        query=(1 + divided + held) * (1 + unit("fp32")) - 1,
        lost=max(floor, smallest_subnormal(policy.key) if held else 0.0),
    )


def held_unit(name: str) -> float:
    """Relative error of holding an fp32 value in a format, or in a pair of values of one ("bf16x2")."""
    if name in ("fp32", "fp64"):
        return 0.0
    return unit(name[:-2]) ** 2 if name.endswith("x2") else unit(name)


def log_decay_error(layer: DeltaLayer, terms: DeltaTerms, policy: Policy, path: Path, table: FunctionTable) -> Tensor:
    """Absolute error of the log decay of each token, as computed and as held in the ring."""
    form, size, gate = layer.variant, terms.log_decay.abs(), unit(policy.gate)
    narrow = gate * (policy.gate not in ("fp32", "fp64"))
    raw_error = gate * terms.raw.abs() if layer.dt_bias is not None else torch.zeros_like(terms.raw)
    rate, rate_error = terms.rate[:, None], torch.zeros_like(terms.rate)[:, None]
    if layer.A_log is not None:
        rate_error = table.error("exp", layer.A_log.to(torch.float64))[:, None].to(size.device)
    grown = (1 + rate_error) * (1 + gate)
    if form.gate == "classic":
        free = softplus_error(terms.raw, raw_error, policy, path, table)
        error = size * (grown - 1) + rate * free * grown
    elif form.gate == "lower_bound":
        slope = rate * terms.raw
        argument = slope.abs() * (grown - 1) + rate * raw_error * grown + tiny(policy, path)
        error = size * ((1 + _sigmoid_error(slope, argument, policy, table)) * (1 + gate) - 1) + abs(form.lower_bound) * _FLUSHED
    else:
        error = narrow * size
    error = error + narrow * (size + error)
    return error + unit(policy.ring_dt) * (size + error) * (policy.ring_dt != policy.gate)


def _sigmoid_error(x: Tensor, error: Tensor, policy: Policy, table: FunctionTable) -> Tensor:
    """Relative error of sigmoid(x), where x itself is known within `error`.

    Its slope is 1 - sigmoid of its size. By way of the policy's exponential: a sum and a division, five roundings in every form.
    """
    slope = torch.sigmoid(-(x - error))
    exponential = torch.maximum(table.error(policy.exponential, x), table.error(policy.exponential, -x))
    return torch.exp(slope * error) * (1 + slope * exponential) * (1 + growth(5, unit("fp32"))) - 1


def _norm_error(layer: DeltaLayer, path: Path, squares: Tensor) -> Tensor:
    """Relative error that the sum of squares puts into the norm; inf where squares are lost near underflow and no eps stands in."""
    form, count = layer.variant, layer.state_dim
    if form.norm == "off":
        return torch.zeros_like(squares)
    lost = 2 * count * 2.0**-126
    root = torch.sqrt(squares)
    norm = {"inside": torch.sqrt(squares + form.eps), "outside": root + form.eps, "max": root.clamp(min=form.eps)}[form.norm]
    absolute = torch.minimum(torch.full_like(root, lost**0.5), torch.where(root > 0, lost / root, torch.inf))
    if form.norm == "inside":
        absolute = torch.minimum(absolute, torch.where(norm > 0, lost / norm, torch.inf))
    relative = growth(additions(count, path.order) + 2, unit("fp32")) / 2 + absolute / norm
    return torch.where(relative < 0.5, relative / (1 - relative), torch.inf)
