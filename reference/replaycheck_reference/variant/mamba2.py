"""The parameters of form of Mamba-2."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import inf
from typing import Any, ClassVar, Literal

from .numbers import is_fp32

__all__ = ["Mamba2Variant"]


@dataclass(frozen=True, kw_only=True)
class Mamba2Variant:
    """Which form of Mamba-2 is meant; the reference computes every combination exactly.

    softplus: dt = log(1 + e^raw) where True, dt = raw where False (raw includes the bias).
    bias: raw = dt_raw + dt_bias[head].
    skip: y gains D[head] * x.
    skip_rows: D is one number a row of a head, D[head, row], not one a head. Only with skip.
    gated: y is multiplied by z * sigmoid(z).
    decay_parameter: "A", the kernel is handed A (negative fp32); "A_log", it is handed A_log and A = -exp(A_log).
    dt_limits: dt is clamped to [low, high], after the softplus where there is one; two fp32 numbers, 0 <= low <= high; None does not clamp.
    Raises ValueError where decay_parameter is neither, skip_rows goes without skip, or dt_limits are not such numbers.
    """

    softplus: bool = True
    bias: bool = True
    skip: bool = True
    gated: bool = False
    decay_parameter: Literal["A", "A_log"] = "A"
    skip_rows: bool = False
    dt_limits: tuple[float, float] | None = None

    LATER: ClassVar[tuple[str, ...]] = ("skip_rows", "dt_limits")

    def __post_init__(self) -> None:
        if self.decay_parameter not in ("A", "A_log"):
            raise ValueError(f"variant.decay_parameter must be 'A' or 'A_log', got {self.decay_parameter!r}")
        if self.skip_rows and not self.skip:
            raise ValueError("variant.skip_rows must be False where variant.skip is False, got True")
        if self.dt_limits is not None:
            object.__setattr__(self, "dt_limits", _limits(self.dt_limits))

    def to_json(self) -> dict[str, Any]:
        """The form as JSON values. Parameters that came later are left out at their default, so that older cases keep their ids."""
        plain = type(self)()
        return {name: value for name, value in asdict(self).items() if name not in self.LATER or value != getattr(plain, name)}


def _limits(given: Any) -> tuple[float, float]:
    """The two limits. Raises ValueError naming them."""
    numbers = isinstance(given, (tuple, list)) and len(given) == 2 and all(type(v) in (int, float) for v in given)
    if not numbers or not 0 <= given[0] <= given[1] < inf or not all(is_fp32(v) for v in given):
        raise ValueError(f"variant.dt_limits must be two fp32 numbers with 0 <= low <= high, got {given!r}")
    return float(given[0]), float(given[1])
