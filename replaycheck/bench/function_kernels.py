"""Triton kernels that evaluate one elementary function each, as decode kernels call it."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["evaluate"]

_BLOCK = 1024


@triton.jit
def _exp(x, y, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.exp(tl.load(x + i, mask=i < n, other=0.0)), mask=i < n)


@triton.jit
def _exp2(x, y, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.exp2(tl.load(x + i, mask=i < n, other=0.0) * 1.4426950408889634), mask=i < n)


@triton.jit
def _softplus_naive(x, y, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.log(1.0 + tl.exp(tl.load(x + i, mask=i < n, other=0.0))), mask=i < n)


@triton.jit
def _silu(x, y, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, v * tl.sigmoid(v), mask=i < n)


_KERNELS = {"exp": _exp, "exp2": _exp2, "softplus_naive": _softplus_naive, "silu": _silu}


def evaluate(function: str, x: Tensor) -> Tensor:
    """`function` of every element of the fp32 CUDA tensor x."""
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel():
        _KERNELS[function][(triton.cdiv(x.numel(), _BLOCK),)](x, y, x.numel(), BLOCK=_BLOCK)
    return y
