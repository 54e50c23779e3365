"""Sizes of single roundings: how products, sums and decays of a policy err, relative and near underflow."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from ..formats.arrays import smallest_normal, smallest_subnormal, ulp, unit
from ..policy import Path, Policy, Storage

__all__ = ["ProductError", "accumulator_unit", "additions", "growth", "product_error", "storage_error", "sum_bias", "tiny"]


def growth(count: float, size: float) -> float:
    """(1 + size)^count - 1: how far `count` roundings of relative size `size` can take a value."""
    return math.expm1(count * math.log1p(size))


def accumulator_unit(name: str) -> float:
    """Relative size of one addition. "tensor": matrix units cut aligned addends instead of rounding, twice the fp32 unit."""
    return 2 * unit("fp32") if name == "tensor" else unit(name)


def additions(count: int, order: str) -> int:
    """Additions that one of `count` summands can pass through: count - 1 in any order, log2 in a balanced tree."""
    if count <= 1:
        return 0
    return math.ceil(math.log2(count)) if order == "tree" else count - 1


def sum_bias(count: int, path: Path) -> float:
    """Relative error of one sign that a sum of `count` terms may have: none where each addition rounds to nearest in fp32 or wider.

    "tensor": addends cut toward zero lost at most 2.8 units of 2^-24 over 128 positive terms on an H200; four a 128 terms are allowed.
    Narrower formats stop moving where a term is below half an ulp of the sum: their whole growth is allowed.
    """
    if path.accumulator == "tensor":
        return 4 * unit("fp32") * max(1.0, count / 128)
    return growth(additions(count, path.order), unit(path.accumulator)) if path.accumulator in ("fp16", "bf16") else 0.0


def tiny(policy: Policy, path: Path) -> float:
    """Absolute size of one rounding near zero: the smallest normal number where results may be flushed, else the smallest subnormal."""
    narrow = "fp32" if path.accumulator == "tensor" else path.accumulator
    floor = smallest_normal if policy.ftz else smallest_subnormal
    return max(floor("fp32"), floor(narrow)) if narrow != "fp64" else floor("fp32")


def storage_error(exact: Tensor, error: Tensor, storage: Storage) -> Tensor:
    """What storing adds: half an ulp (a whole one unless nearest) of the format at |exact| + error, where the stored value may lie."""
    step = ulp(exact.abs() + error, storage.format)
    return step * (0.5 if storage.rounding == "nearest" else 1.0)


@dataclass(frozen=True, kw_only=True)
class ProductError:
    """Error of one product computed * given.

    relative: of the product. operand: what cutting the computed operand to its format adds, part of `relative`, shared by every product
    that uses it. absolute: of the computed operand, near underflow of its format.
    """

    relative: float
    operand: float
    absolute: float = 0.0


def product_error(method: str, *, given: str) -> ProductError:
    """Error of a named product (policy.PRODUCTS) of a computed fp32 operand with an input in the format `given`."""
    fp32 = unit("fp32")
    if method in ("fp32", "fp64"):
        return ProductError(relative=unit(method), operand=0.0)
    if method == "tf32x3":
        # lo parts carry a relative 2^-11 of a relative 2^-11; lo * lo is dropped, and is zero where the input is exact in tf32
        dropped = 2.0**-22 if _holds("tf32", given) else 3 * 2.0**-22
        return ProductError(relative=dropped + fp32, operand=dropped, absolute=smallest_subnormal("tf32"))
    if method == "bf16x3":
        # three parts of 8 bits leave 2^-24; an input that bf16 does not hold is split too, and its smallest cross products are dropped
        dropped = 2.0**-24 if _holds("bf16", given) else 2.0**-21
        return ProductError(relative=dropped + fp32, operand=dropped, absolute=smallest_subnormal("bf16"))
    cut = {"tf32": 2.0**-10, "tf32_rna": 2.0**-11, "fp16": unit("fp16"), "bf16": unit("bf16")}[method]
    narrow = method if method in ("fp16", "bf16") else "tf32"
    both = cut if _holds(narrow, given) else growth(2, cut)
    return ProductError(relative=(1 + both) * (1 + fp32) - 1, operand=both, absolute=smallest_subnormal(narrow))


def _holds(narrow: str, given: str) -> bool:
    """Whether every value of the format `given` is exact in the format `narrow`."""
    return given in {"tf32": ("tf32", "bf16", "fp16"), "fp16": ("fp16",), "bf16": ("bf16",)}[narrow]
