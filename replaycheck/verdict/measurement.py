"""A measurement: value, budget, ratio, place. It never raises; the verdict is made of measurements."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Measurement", "Status"]

Status = str  # "pass", "suspicious", "not proven", "fail", "error"


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One number held to one budget.

    guarantee: what was promised ("outputs", "state", "gates", "rounding", "continuity", "write-set", ...). regime, case: where it was
    measured (case: an id that the report can replay). value, budget: in `unit`. derivation: where the budget comes from, one line.
    place: coordinates (request, slot, step, token, head, row, column, path). got, exact: the worst element. diagnosis: what it looks like.
    suspicious: within the budget, but beyond what right kernels show.
    """

    guarantee: str
    value: float
    budget: float
    unit: str = "absolute"
    regime: str = ""
    case: str = ""
    derivation: str = ""
    place: dict[str, int | str] = field(default_factory=dict)
    got: float | None = None
    exact: float | None = None
    diagnosis: str = ""
    suspicious: bool = False
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """value / budget; NaN or infinite values, and any value over a budget of zero or without end, give inf."""
        if not math.isfinite(self.value):
            return math.inf
        if self.budget == 0 or not math.isfinite(self.budget):
            return 0.0 if self.value == 0 else math.inf
        return self.value / self.budget

    @property
    def passed(self) -> bool:
        return self.ratio <= 1

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "passed": self.passed}
