"""A play: one execution of a case by a kernel, and all that was observed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from replaycheck.verdict.measurement import Measurement

from .windows import Window

if TYPE_CHECKING:
    from replaycheck.cases.case import Case

__all__ = ["Play"]


@dataclass(frozen=True, kw_only=True)
class Play:
    """What one execution of `case` left behind. Tensors are on the CPU.

    windows: in the order they closed. outputs: (request, layer) -> [tokens, heads, head_dim], row i the token at position i; a copy of a
    request holds the rows of its source up to the copy. published: (request, layer) -> [(position, bits)], the state bits a request
    published and how many tokens they contain. settled: (schedule step, slot) of every commit after which all tokens of
    the slot's request were published in every layer. rounds: (tokens, accepted tokens, whether a state was published) of every row
    that had tokens. findings: measurements that only the player can make. poison: what free memory held.
    launches: of interpreter.recorder, where the kernel ran in the interpreter. stopped: why the play ended early, empty where it did not.
    """

    case: Case
    windows: list[Window]
    outputs: dict[tuple[int, int], Tensor]
    published: dict[tuple[int, int], list[tuple[int, Tensor]]]
    settled: list[tuple[int, int]]
    findings: list[Measurement]
    rounds: list[tuple[int, int, bool]] = field(default_factory=list)
    poison: str = "finite"
    launches: list[Any] = field(default_factory=list)
    seconds: float = 0.0
    stopped: str = ""
