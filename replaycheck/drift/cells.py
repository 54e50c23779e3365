"""What a run of drift leaves: errors at marks, cell by cell."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from .storage import Storage

__all__ = ["Cell", "Mark", "half_life"]


@dataclass(frozen=True, kw_only=True)
class Mark:
    """Errors at one step, over all elements, in units of the state.

    state: rms of the exact state. scale: what errors are set in relation to: `state`, or where nothing arrives the rms of the state at the
    start. error: rms error of the stored state. bias: mean error toward larger moduli. output: rms of exact outputs, reads with vectors of
    unit length. output_error: their rms error. frozen: share of elements that the last store left as the one before it did. bound: of the
    error that float64 leaves in the exact trajectory of any element.
    """

    step: int
    state: float
    scale: float
    error: float
    bias: float
    output: float
    output_error: float
    frozen: float
    bound: float

    @property
    def relative(self) -> float:
        """rms error over the scale."""
        return self.error / self.scale

    @property
    def output_relative(self) -> float:
        """The same of outputs."""
        return self.output_error / (self.output if self.scale == self.state else self.scale)

    @property
    def spread(self) -> float:
        """What is left of the rms error without the bias."""
        return math.sqrt(max(self.error**2 - self.bias**2, 0.0))


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One policy, decay, drive and seed. samples: of the first elements, where the exact trajectory ended."""

    storage: Storage
    decay: float
    drive: str
    seed: int
    elements: int
    marks: tuple[Mark, ...]
    samples: tuple[float, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Cell:
        marks = tuple(Mark(**mark) for mark in data["marks"])
        return Cell(**{**data, "storage": Storage(**data["storage"]), "marks": marks, "samples": tuple(data["samples"])})


def half_life(decay: float) -> float:
    """Tokens after which half of a state is left."""
    return math.inf if decay == 1 else math.log(0.5) / math.log(decay)
