"""Tensors of proven balls: exact values enclosed, read out as float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ...arithmetic.balls import radius_above

if TYPE_CHECKING:
    from flint import arb, arb_mat

__all__ = ["Balls"]


class Balls:
    """Balls held as one matrix [rows, columns] a head, seen as one tensor with the heads along `axis`.

    axis 0: [heads, rows, columns]; axis 1: [rows, heads, columns].
    """

    def __init__(self, heads: Sequence[arb_mat], *, axis: int) -> None:
        if axis not in (0, 1):
            raise ValueError(f"axis must be 0 or 1, got {axis}")
        self._heads = tuple(heads)
        self._axis = axis

    @property
    def shape(self) -> tuple[int, int, int]:
        rows, columns = self._heads[0].nrows(), self._heads[0].ncols()
        return (len(self._heads), rows, columns) if self._axis == 0 else (rows, len(self._heads), columns)

    def __getitem__(self, index: tuple[int, int, int]) -> arb:
        head, row = (index[0], index[1]) if self._axis == 0 else (index[1], index[0])
        return self._heads[head][row, index[2]]

    def nearest(self) -> Tensor:
        """The float64 nearest to the middle of every ball."""
        return self._read(float)

    def radius(self) -> Tensor:
        """Proven radii, rounded up: |exact - middle| is not above; float64."""
        return self._read(radius_above)

    def error(self, values: Tensor) -> Tensor:
        """values - exact, rounded to float64 once: what is left of `values`, also where they agree to all 53 bits.

        values: float64 of this shape, finite. It differs from the true error by no more than radius() and that one rounding.
        Raises ValueError naming a wrong shape or dtype.
        """
        if tuple(values.shape) != self.shape or values.dtype != torch.float64:
            raise ValueError(f"values must be float64 {self.shape}, got {values.dtype} {tuple(values.shape)}")
        parts = [_error(matrix, part) for matrix, part in zip(self._heads, values.unbind(self._axis), strict=True)]
        return torch.stack(parts, dim=self._axis)

    def _read(self, read: Callable[[arb], float]) -> Tensor:
        parts = [torch.tensor([read(v) for v in matrix.entries()], dtype=torch.float64) for matrix in self._heads]
        shaped = [part.view(m.nrows(), m.ncols()) for part, m in zip(parts, self._heads, strict=True)]
        return torch.stack(shaped, dim=self._axis)


def _error(matrix: arb_mat, values: Tensor) -> Tensor:
    # A difference is rounded after it was taken, so that python-flint's default of 53 bits is one rounding to float64.
    flat = [float(v - exact) for v, exact in zip(values.flatten().tolist(), matrix.entries(), strict=True)]
    return torch.tensor(flat, dtype=torch.float64).view(values.shape)
