"""Errors of the Mamba-2 gates under a policy: processed dt, decays and weights of older tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ..formats.arrays import unit
from ..layer import Mamba2Layer
from ..policy import Path, Policy
from ..recurrences.batched.mamba2 import Mamba2Terms, free_dt, limited
from .functions import FP32_UNIT, FunctionTable
from .units import accumulator_unit, tiny

__all__ = ["Decays", "GateErrors", "decay_exponents", "function_error", "gate_errors", "softplus_error"]


class Decays(Protocol):
    """Decays of a window, rate * dt a token: see Mamba2Terms."""

    @property
    def rate(self) -> Tensor: ...

    @property
    def log_decay(self) -> Tensor: ...

    @property
    def total(self) -> Tensor: ...

    @property
    def span(self) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class GateErrors:
    """How far a kernel's gates may lie from the exact ones.

    decay: absolute error of e^total, [..., tokens, heads]. weight: absolute error of dt_j e^span, [..., tokens, tokens, heads].
    """

    decay: Tensor
    weight: Tensor


def gate_errors(layer: Mamba2Layer, terms: Mamba2Terms, policy: Policy, path: Path, table: FunctionTable) -> GateErrors:
    """Errors of the decay of the start state and of every token's weight, evaluated as `path.weights` says."""
    dt_error = _dt_error(layer, terms, policy, path, table)
    rate_error = torch.zeros_like(terms.rate)
    if layer.variant.decay_parameter == "A_log":
        rate_error = table.error("exp", layer.decay.to(torch.float64))
    exponent, start_exponent = decay_exponents(terms, policy, path, table, dt_error, rate_error)
    floor = tiny(policy, path)
    decay = terms.decay * torch.expm1(start_exponent) + floor
    past = torch.exp(terms.span)
    dt, slack = terms.dt.abs()[..., None, :, :], dt_error[..., None, :, :]
    held = torch.where(torch.isfinite(terms.span), floor * (1 + dt), 0.0)
    weight = (dt + slack) * past * torch.expm1(exponent) + slack * past + held
    return GateErrors(decay=decay, weight=weight)


def _dt_error(layer: Mamba2Layer, terms: Mamba2Terms, policy: Policy, path: Path, table: FunctionTable) -> Tensor:
    """Absolute error of processed dt: the sum with the bias, the softplus as declared, the format dt is held in.

    Limits are exact, so that they leave what of the error reaches inside them; rounding before them reaches no further than after them.
    """
    gate, free = unit(policy.gate), free_dt(layer, terms.raw)
    error = gate * terms.raw.abs() if layer.dt_bias is not None else torch.zeros_like(terms.raw)
    if layer.variant.softplus:
        error = softplus_error(terms.raw, error, policy, path, table)
    if layer.variant.dt_limits is not None:
        reached = [(limited(layer, free + side * error) - terms.dt).abs() for side in (-1, 1)]
        error = torch.maximum(*reached) + gate * terms.dt * (policy.gate != "fp32")
    if policy.ring_dt != policy.gate:
        error = error + unit(policy.ring_dt) * terms.dt.abs()
    return error


def softplus_error(raw: Tensor, error: Tensor, policy: Policy, path: Path, table: FunctionTable) -> Tensor:
    """Absolute error of softplus(raw) as declared, where raw itself is known within `error`."""
    gate = unit(policy.gate)
    error = error * torch.sigmoid(raw + error)    # softplus is convex: its slope is largest at the upper end
    largest = torch.clamp(raw, min=0) + torch.log1p(torch.exp(-raw.abs())) + error
    if policy.softplus.form == "naive":
        error = error + table.error("softplus_naive", raw) * (1 + largest)
    else:
        error = error + policy.softplus.units * FP32_UNIT * largest
    error = error + gate * largest * (policy.gate != "fp32")
    return error + tiny(policy, path)


def decay_exponents(
    terms: Decays, policy: Policy, path: Path, table: FunctionTable, dt_error: Tensor, rate_error: Tensor
) -> tuple[Tensor, Tensor]:
    """Log of the largest relative error of every e^span and of every e^total, evaluated as `path.weights` says."""
    return _EXPONENTS[path.weights](terms, policy, path, table, dt_error, rate_error)


def function_error(policy: Policy, table: FunctionTable, exponent: Tensor) -> Tensor:
    """Relative error of the exponential itself and of the format its result is held in."""
    if policy.decay == "fp64":
        return torch.full_like(exponent, 4 * unit("fp64"))
    held = unit(policy.decay) if policy.decay != "fp32" else 0.0
    finite = torch.where(torch.isfinite(exponent), exponent, 0.0)
    return table.error(policy.exponential, finite) + held


def _grown(size: Tensor, inherited: Tensor, rate_error: Tensor, roundings: Tensor | float, unit_: float) -> Tensor:
    """Absolute error of rate * sum: of a sum of exponents `size` with the error `inherited`, under a rate error and so many roundings."""
    factor = (1 + rate_error) * torch.exp(torch.as_tensor(roundings, dtype=size.dtype, device=size.device) * math.log1p(unit_))
    return size * (factor - 1) + inherited * factor


def _token_exponents(terms: Decays, policy: Policy, dt_error: Tensor, rate_error: Tensor) -> Tensor:
    """Absolute error of A dt of each token, its own rounding included: [..., tokens, heads]."""
    return _grown(terms.log_decay.abs(), terms.rate.abs() * dt_error, rate_error, 1.0, unit(policy.gate))


def _between(prefix: Tensor, span: Tensor) -> Tensor:
    """prefix_m - prefix_j for j <= m, else zero: [..., tokens, tokens, heads]."""
    return torch.where(torch.isfinite(span), prefix[..., :, None, :] - prefix[..., None, :, :], 0.0).clamp(min=0)


def _product(
    terms: Decays, policy: Policy, path: Path, table: FunctionTable, dt_error: Tensor, rate_error: Tensor
) -> tuple[Tensor, Tensor]:
    """Each token's own decay, multiplied in."""
    one = _token_exponents(terms, policy, dt_error, rate_error) + function_error(policy, table, terms.log_decay)
    prefix = torch.cumsum(one + accumulator_unit(path.accumulator), -2)
    return _between(prefix, terms.span), prefix


def _sum(
    terms: Decays, policy: Policy, path: Path, table: FunctionTable, dt_error: Tensor, rate_error: Tensor
) -> tuple[Tensor, Tensor]:
    """exp(A * sum of dt): the sum's roundings, one product, one exponential."""
    gate = unit(policy.gate)
    inherited = torch.cumsum(terms.rate.abs() * dt_error, -2)
    size = torch.cumsum(terms.log_decay.abs(), -2)
    count = torch.arange(1, size.shape[-2] + 1, device=size.device, dtype=size.dtype)[:, None]
    start = _grown(size, inherited, rate_error, count, gate) + function_error(policy, table, terms.total)
    apart = (count - count.transpose(0, 1))[..., None].clamp(min=1)
    span = _grown(_between(size, terms.span), _between(inherited, terms.span), rate_error, apart, gate)
    return span + function_error(policy, table, terms.span), start


def _difference(
    terms: Decays, policy: Policy, path: Path, table: FunctionTable, dt_error: Tensor, rate_error: Tensor
) -> tuple[Tensor, Tensor]:
    """exp(cum_now - cum_then): both prefix sums' roundings count, however near the two tokens are."""
    gate = unit(policy.gate)
    inherited = torch.cumsum(_token_exponents(terms, policy, dt_error, rate_error), -2)
    count = torch.arange(1, inherited.shape[-2] + 1, device=inherited.device, dtype=inherited.dtype)[:, None]
    size = torch.cumsum(terms.log_decay.abs(), -2)
    summed = _grown(size, inherited, torch.zeros_like(rate_error), count, gate) - inherited
    start = inherited + summed + function_error(policy, table, terms.total)
    both = summed[..., :, None, :] + summed[..., None, :, :]
    finite = torch.where(torch.isfinite(terms.span), terms.span, 0.0)
    span = _between(inherited, terms.span) + both + gate * (finite.abs() + both) + function_error(policy, table, terms.span)
    return span, start


_EXPONENTS = {"product": _product, "sum": _sum, "difference": _difference}
