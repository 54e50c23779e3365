"""Tensors as bit patterns: what "bitwise equal" means everywhere."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["as_bits", "count_differing", "first_differing", "same_bits"]

_INTEGER = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def as_bits(tensor: Tensor) -> Tensor:
    """The bit patterns of `tensor`: an integer view of the same shape and strides."""
    return tensor.view(_INTEGER[tensor.element_size()])


def same_bits(left: Tensor, right: Tensor) -> bool:
    """Whether two tensors of one shape and dtype hold the same bits (-0.0 differs from 0.0, a NaN equals itself)."""
    return torch.equal(as_bits(left), as_bits(right))


def count_differing(left: Tensor, right: Tensor) -> int:
    """How many elements differ in their bits."""
    return int((as_bits(left) != as_bits(right)).sum())


def first_differing(left: Tensor, right: Tensor) -> tuple[int, ...]:
    """Coordinates of the first element, in row-major order, whose bits differ. Raises ValueError where none does."""
    found = (as_bits(left) != as_bits(right)).nonzero()
    if not len(found):
        raise ValueError("the tensors hold the same bits")
    return tuple(int(i) for i in found[0])
