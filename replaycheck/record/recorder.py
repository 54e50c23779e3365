"""The recorder: keeps a sample of what recurrent layers receive while a model decodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor, nn

from replaycheck.cases.recordings import RecordedLayer, Recording, forms_of
from replaycheck.contract.errors import UsageError

from .hooks import Call, Hook, hooks_of, watching

__all__ = ["Recorder", "Sampling", "record"]


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """What of a model's life is kept. A step is one decoded token; a prefill, any call of more than one token, starts the count again.

    layers: which, by their number in hooks_of; None for all. tokens: of a stretch. first: step at which the first stretch begins, 0 right
    after the prefill. stretches: how many of every request, `every` steps apart; one right after another where that is None. budget: bytes
    that tensors may take; where the sample would take more, later stretches are left out, then later tokens. Raises ValueError naming field
    and value.
    """

    layers: tuple[int, ...] | None = None
    tokens: int = 32
    first: int = 0
    stretches: int = 1
    every: int | None = None
    budget: int = 2_000_000

    def __post_init__(self) -> None:
        for name, least in (("tokens", 1), ("first", 0), ("stretches", 1), ("budget", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if self.gap < self.tokens:
            raise ValueError(f"every must be at least the {self.tokens} tokens of a stretch, got {self.every}")
        if self.layers is not None and (not self.layers or len(set(self.layers)) != len(self.layers)):
            raise ValueError(f"layers must be distinct numbers, at least one, got {self.layers}")


    @property
    def gap(self) -> int:
        """Steps from the beginning of one stretch to that of the next."""
        return self.tokens if self.every is None else self.every


@dataclass
class _Stretch:
    """One stretch of one request in one layer, while it grows."""

    start: Tensor | None
    rows: list[dict[str, Tensor]]


class Recorder:
    """Takes the calls of the recurrences and makes a recording of them."""

    def __init__(self, hooks: Sequence[Hook], sampling: Sampling, source: str) -> None:
        self._layers = [hook.layer for hook in hooks]
        self._sampling, self._source = sampling, source
        self._prefills = [0] * len(hooks)
        self._steps = [0] * len(hooks)
        self._found: list[dict[tuple[int, int, int], _Stretch]] = [{} for _ in hooks]
        self._fitted = False

    def seen(self, number: int, call: Call) -> None:
        """Note one call of layer `number`."""
        if call.length != 1:
            self._prefills[number] += 1
            self._steps[number] = 0
            return
        step = self._steps[number]
        self._steps[number] += 1
        if step < self._sampling.first:
            return
        if not self._fitted:
            self._fit(call)
        stretch, at = divmod(step - self._sampling.first, self._sampling.gap)
        if stretch < self._sampling.stretches and at < self._sampling.tokens:
            for row in range(call.requests):
                self._keep(self._found[number], (self._prefills[number], stretch, row), at, call)

    def _keep(self, found: dict[tuple[int, int, int], _Stretch], key: tuple[int, int, int], at: int, call: Call) -> None:
        row = key[2]
        if at == 0:
            found[key] = _Stretch(None if call.start is None else _own(call.start[row]), [])
        found[key].rows.append({name: _own(value[row, 0]) for name, value in call.tokens.items()})

    def _fit(self, call: Call) -> None:
        """Make the sample smaller until what is known of it now, one prefill of these requests, keeps to the budget."""
        self._fitted = True
        wide = next(iter(call.tokens.values())).element_size()
        state_bytes = call.requests * sum(prod(layer.dims[d] for d in forms_of(layer.recurrence).start) for layer in self._layers)
        state_bytes *= 4 if call.start is None else call.start.element_size()
        token_bytes = wide * call.requests * sum(prod(layer.dims[d] for d in shape) for layer in self._layers
                                                 for shape in forms_of(layer.recurrence).tokens.values())
        stretches = self._sampling.budget // (state_bytes + token_bytes * self._sampling.tokens)
        tokens = (self._sampling.budget - state_bytes) // token_bytes
        if tokens < 1:
            raise UsageError(f"a budget of {self._sampling.budget} bytes does not hold a state and a token of {call.requests} requests in "
                             f"{len(self._layers)} layers, {state_bytes + token_bytes} bytes: record fewer layers or raise it")
        self._sampling = replace(self._sampling, every=self._sampling.gap, stretches=min(self._sampling.stretches, max(stretches, 1)),
                                 tokens=min(self._sampling.tokens, tokens))

    def recording(self) -> Recording:
        """What was kept so far. Stretches that some layer has not seen to their end are left out.

        Raises UsageError where nothing is left: the model decoded too few tokens, or never one at a time; or where a later prefill took the
        recording over its budget.
        """
        whole = [key for key in self._found[0] if all(self._is_whole(found.get(key)) for found in self._found)]
        if not whole:
            raise UsageError(f"nothing was recorded: the model decoded {max(self._steps)} tokens one at a time after its last prefill; a "
                             f"stretch needs {self._sampling.first + self._sampling.tokens}")
        kept = self._within_budget(sorted(whole))
        layers = [self._layer(layer, [found[key] for key in kept]) for layer, found in zip(self._layers, self._found, strict=True)]
        return Recording(source=self._source, layers=layers, tokens=self._sampling.tokens)

    def _is_whole(self, stretch: _Stretch | None) -> bool:
        return stretch is not None and len(stretch.rows) == self._sampling.tokens

    def _within_budget(self, keys: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        """The first keys whose tensors keep to the budget, every one of which has the same size."""
        size = sum(_bytes(found[keys[0]]) for found in self._found)
        return keys[: max(self._sampling.budget // size, 1)]

    def _layer(self, layer: RecordedLayer, stretches: list[_Stretch]) -> RecordedLayer:
        tokens = [{name: torch.stack([row[name] for row in s.rows]) for name in s.rows[0]} for s in stretches]
        starts = [None if s.start is None or not bool(s.start.any()) else s.start for s in stretches]
        return replace(layer, starts=starts, stretches=tokens)


@contextmanager
def record(model: nn.Module, sampling: Sampling | None = None, *, source: str = "") -> Iterator[Recorder]:
    """Record what the recurrent layers of `model` receive while inside; `.recording()` of what is yielded is the recording.

    source: what is recorded, in words; the class of the model where empty. Raises UsageError where the model has no layer that can be
    recorded, or not the layers that sampling names.
    """
    sampling, hooks = sampling or Sampling(), hooks_of(model)
    if sampling.layers is not None:
        wrong = [number for number in sampling.layers if not 0 <= number < len(hooks)]
        if wrong:
            raise UsageError(f"layer {wrong[0]} is not there: the model has recurrent layers 0..{len(hooks) - 1}")
        hooks = [hooks[number] for number in sorted(sampling.layers)]
    recorder = Recorder(hooks, sampling, source or type(model).__name__)
    with watching(hooks, recorder.seen):
        yield recorder


def _own(value: Tensor) -> Tensor:
    return value.detach().cpu().clone()


def _bytes(stretch: _Stretch) -> int:
    tensors = [*(row_value for row in stretch.rows for row_value in row.values()), *([] if stretch.start is None else [stretch.start])]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
