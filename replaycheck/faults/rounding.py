"""Narrow and wrong roundings that faults and variants use. All take and give float32 (or float64) tensors."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["flush_subnormals", "tf32", "tf32_nearest", "tf32x3", "through", "toward_zero"]


def through(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x rounded to nearest in `dtype`, widened again."""
    return x.to(dtype).to(x.dtype)


def toward_zero(x: Tensor, dtype: torch.dtype) -> Tensor:
    """float32 x cut to bf16 or fp16: the neighbour in `dtype` nearest to x that is not larger in magnitude."""
    near = x.to(dtype)
    too_far = near.to(x.dtype).abs() > x.abs()
    return torch.where(too_far, torch.nextafter(near, torch.zeros_like(near)), near)


def tf32(x: Tensor) -> Tensor:
    """float32 x with the low 13 bits cut off: what a matrix unit reads of a raw fp32 operand."""
    return (x.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)


def tf32_nearest(x: Tensor) -> Tensor:
    """float32 x rounded to tf32, ties away from zero."""
    return ((x.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def tf32x3(left: Tensor, right: Tensor) -> Tensor:
    """The product of two float32 tensors as three tf32 products, small parts first."""
    left_high, right_high = tf32_nearest(left), tf32_nearest(right)
    left_low, right_low = tf32_nearest(left - left_high), tf32_nearest(right - right_high)
    return (left_low * right_high + left_high * right_low) + left_high * right_high


def flush_subnormals(x: Tensor) -> Tensor:
    """float32 x with results below the smallest normal number set to zero."""
    return torch.where(x.abs() < torch.finfo(torch.float32).tiny, torch.zeros_like(x), x)
