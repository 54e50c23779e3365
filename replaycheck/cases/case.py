"""A case: layer, variant, formats, schedule, regime and seed; it makes every input bit for bit."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path as FilePath
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from replaycheck.contract.claims import Formats
from replaycheck.contract.memory import POISONS, fill_poison
from replaycheck_reference.layer import Layer, Tokens
from replaycheck_reference.variant import Mamba2Variant, Variant

from . import casefile, drawn, recorded
from . import schedule as events
from .families import family
from .layers import Geometry
from .recordings import RecordingFile
from .regimes import Regime, regime
from .stream import Stream

__all__ = ["Case"]

FORMATS = ("fp32", "fp16", "bf16")
#: Elements that a play of a case may hold: of the pool, the tokens, and a state for every token that may be published. A Nemotron-3 Ultra
#: layer has 2^21 a state.
LARGEST = 1 << 27
#: Drafts are drawn as the tokens of a request that nobody admits.
_DRAFTS = 1 << 30


@dataclass(frozen=True, kw_only=True)
class Case:
    """What a play is made from. Two equal cases make the same bits on every machine; tensors are made anew, on the CPU, at every call.

    heads, head_dim, state_dim, groups, variant: every layer's. layers: how many share the cursors. capacity: ring rows. window:
    the most tokens of a row, where some may be taken back. slots: of the pool.
    regime, seed: which inputs. recording: where they come from instead, in regime "recorded". schedule: events, see schedule.py.
    drafts: what rejected drafts hold, "drawn" by the laws of the regime, or a poison of contract.memory.POISONS.
    name: for reports only; it changes no bit and no id.
    Raises ValueError naming field and value where the case cannot be made.
    """

    name: str
    recurrence: str = "mamba2"
    heads: int
    head_dim: int
    state_dim: int
    groups: int = 1
    variant: Variant = field(default_factory=Mamba2Variant)
    formats: Formats = field(default_factory=Formats)
    capacity: int = 1
    window: int = 1
    slots: int = 1
    layers: int = 1
    regime: str = "trained-like"
    seed: int = 0
    schedule: events.Schedule = ()
    recording: RecordingFile | None = None
    drafts: str = "drawn"

    def __post_init__(self) -> None:
        own = family(self.recurrence)
        if not isinstance(self.variant, own.variant):
            raise ValueError(f"variant of recurrence {self.recurrence!r} must be a {own.variant.__name__}, got {self.variant!r}")
        for name, value in own.plain.items():
            if getattr(self.variant, name) != value:
                raise ValueError(f"variant.{name} must be {value!r} for recurrence {self.recurrence!r}")
        for name, least in (("capacity", 1), ("window", 1), ("slots", 1), ("layers", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
        for name in ("state", "activation", "output"):
            if getattr(self.formats, name) not in FORMATS:
                raise ValueError(f"formats.{name} must be one of {', '.join(FORMATS)}, got {getattr(self.formats, name)!r}")
        events.validate(self.schedule, self.slots)
        self._check_drafts()
        if self.elements > LARGEST:
            raise ValueError(f"a case may hold at most {LARGEST} elements in states and tokens, got {self.elements}: layers {self.layers}, "
                             f"slots {self.slots}, heads {self.heads}, head_dim {self.head_dim}, state_dim {self.state_dim}, "
                             f"tokens {self.moved}")
        for request, root in self.roots.items():
            if root.start not in ("zero", self.inputs.START):
                raise ValueError(f"start of request {request} must be 'zero' or {self.inputs.START!r} in regime {self.regime!r}, "
                                 f"got {root.start!r}")
        self.inputs.check(self)

    def _check_drafts(self) -> None:
        """Hold rows to the window, where the case has one."""
        if self.drafts not in ("drawn", *POISONS):
            raise ValueError(f"drafts must be one of drawn, {', '.join(POISONS)}, got {self.drafts!r}")
        if self.window > self.capacity:
            raise ValueError(f"window must be at most the capacity {self.capacity}, got {self.window}")
        if self.speculative and self.longest_row > self.window:
            raise ValueError(f"a row of {self.longest_row} tokens does not fit into a window of {self.window}")
        if self.rejected and self.recording is not None:
            raise ValueError("a recording has no drafts that were rejected")

    @property
    def speculative(self) -> bool:
        """Whether tokens may be taken back."""
        return self.window > 1 or any(isinstance(op, events.Forward) and op.counts is not None for op in self.schedule)

    @property
    def longest_row(self) -> int:
        return max((length for op in self.schedule if isinstance(op, events.Forward) for _, length in op.rows), default=0)

    @cached_property
    def rejected(self) -> dict[tuple[int, int], int]:
        """By schedule step and slot, the place of a row's first rejected draft among those of its request."""
        return events.rejected(self.schedule)

    @property
    def inputs(self) -> ModuleType:
        """Where the inputs come from: the module `drawn` or `recorded`."""
        return drawn if self.recording is None else recorded

    @property
    def geometry(self) -> Geometry:
        return Geometry(heads=self.heads, head_dim=self.head_dim, state_dim=self.state_dim, groups=self.groups)

    @property
    def law(self) -> Regime:
        return regime(self.regime)

    @property
    def moved(self) -> int:
        """Tokens in all rows of all forwards, pads included."""
        return sum(length for op in self.schedule if isinstance(op, events.Forward) for _, length in op.rows)

    @property
    def elements(self) -> int:
        """Elements of the pool, of all tokens with their outputs, and of a published state a token, over all layers."""
        state = self.heads * self.head_dim * self.state_dim
        token = self.heads * self.head_dim + sum(map(math.prod, family(self.recurrence).received(self.geometry, self.variant).values()))
        return self.layers * (self.slots * state + self.moved * (token + state))

    @cached_property
    def lengths(self) -> dict[int, int]:
        """By request, the position it reaches in its tokens."""
        return events.lengths(self.schedule)

    @cached_property
    def roots(self) -> dict[int, events.Admit]:
        """By request, the Admit that its start state and tokens come from; a copy has its source's."""
        return events.roots(self.schedule)

    def stream_of(self, request: int) -> int:
        """The request whose tokens `request` sees: its own id, or that of the one it was copied from."""
        return self._root(request).request

    def layer(self, i: int) -> Layer:
        """Layer i with its exact parameters."""
        made: Layer = self.inputs.layer(self, i)
        return made

    def start(self, request: int, i: int) -> Tensor | None:
        """The state `request` is admitted with in layer i: [heads, head_dim, state_dim] in the state format; None for a zero start."""
        root = self._root(request)
        if root.start == "zero":
            return None
        made: Tensor | None = self.inputs.start(self, root.request, i)
        return made

    def tokens(self, request: int, i: int) -> Tokens:
        """Layer i's tokens of `request` from position 0 to the last it consumes, in the activation format.

        A copy's begin at position 0 of its source, so that a position means the same token for both.
        """
        self._root(request)
        return _tokens(self, self.stream_of(request), self.lengths[request], i).map(Tensor.clone)

    def draft_tokens(self, request: int, step: int, slot: int, count: int, i: int) -> Tokens:
        """Layer i's tokens of the `count` drafts that `request` in `slot` had rejected at a schedule step: drawn like its own tokens, and
        none of them."""
        first = self.rejected[step, slot]
        made = _tokens(self, _DRAFTS + self.stream_of(request), first + count, i)[slice(first, first + count)].map(Tensor.clone)
        if self.drafts != "drawn":
            for value in made.tensors().values():
                fill_poison(value, self.drafts)
        return made

    def _root(self, request: int) -> events.Admit:
        if request not in self.roots:
            raise ValueError(f"request {request} is not in the schedule; it has {', '.join(map(str, self.roots)) or 'none'}")
        return self.roots[request]

    def stream(self, purpose: str, i: int, request: int = -1) -> Stream:
        """The random numbers of one purpose in layer i, for one request or for none."""
        if not 0 <= i < self.layers:
            raise ValueError(f"layer must be in 0..{self.layers - 1}, got {i}")
        return Stream((self.regime, self.seed, purpose, i, request))

    @cached_property
    def id(self) -> str:
        """12 hex digits of the SHA-256 of everything that makes the case but its name."""
        made = {**casefile.fields_of(self), "name": ""}
        if self.recording is not None:
            made["recording"] = self.recording.sha256       # wherever the file lies
        return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:12]

    @cached_property
    def digest(self) -> str:
        """SHA-256, in hex, of every bit the case makes: parameters, start states and tokens, with their dtypes and shapes."""
        total = hashlib.sha256()
        for tensor in self._tensors():
            total.update(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
            total.update(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())
        return total.hexdigest()

    def _tensors(self) -> Iterator[Tensor]:
        for i in range(self.layers):
            layer = self.layer(i)
            yield from layer.parameters().values()
            for request, root in self.roots.items():
                if root.request == request:
                    start = self.start(request, i)
                    yield from () if start is None else (start,)
                    yield from self._longest(request, i).tensors().values()

    def _longest(self, root: int, i: int) -> Tokens:
        """The tokens of `root` up to the last that it or a copy of it consumes."""
        made: Tokens = self.inputs.tokens(self, root, max(n for r, n in self.lengths.items() if self.stream_of(r) == root), i)
        return made

    def to_json(self) -> dict[str, Any]:
        """The case as JSON values, with its version, id and digest."""
        return casefile.to_json(self)

    @staticmethod
    def from_json(data: Any) -> Case:
        """The case of `to_json`. Raises ValueError naming field and value; a digest that is given must agree with the bits made here."""
        return casefile.from_json(data)

    def save(self, path: FilePath) -> None:
        """Write the case as a small readable JSON file. Raises UsageError naming the path where it cannot be written."""
        casefile.save(self, path)

    @staticmethod
    def load(path: FilePath) -> Case:
        """The case of a file. Raises UsageError naming file, field and value where it cannot be read or makes other bits than it says."""
        return casefile.load(path)


@lru_cache(maxsize=32)
def _tokens(case: Case, root: int, count: int, i: int) -> Tokens:
    """The first `count` tokens of a request that was admitted; kept, since a player asks for them at every forward."""
    made: Tokens = case.inputs.tokens(case, root, count, i)
    return made
