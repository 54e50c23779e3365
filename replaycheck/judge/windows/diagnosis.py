"""What a residual over its budget looks like, in the words of a kernel author."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from replaycheck_reference.recurrence import Terms, recurrence_of

from .batches import Batch
from .fields import fit

__all__ = ["diagnose_output", "diagnose_state"]

_UNBOUNDED = "the claimed policy sets no bound here: anything would pass"
#: A cause is named where it explains this share of the residual's energy.
_EXPLAINS = 0.9
#: A weight this near 0, 1 or 2 times its own is that.
_PLAIN = 0.02
#: Fewer significand bits than the narrowest format has are no rounding.
_ROUNDED = 2
#: Another story is told where it leaves at most this share of the residual.
_LEFT = 0.01


@dataclass(frozen=True, kw_only=True)
class _Story:
    """Values that want an explanation: as seen, as they should be, and what rounding is allowed to them."""

    seen: Tensor
    exact: Tensor
    allowed: Tensor

    def told_by(self, value: Tensor) -> bool:
        """Whether these values are what was seen, as a whole: their own roundings are not those allowed to the exact ones, one by one.

        Near underflow, where every story gives nearly nothing, none leaves little of the residual and none is told.
        """
        left = float((self.seen - value).norm())
        return left <= 4 * float(self.allowed.norm()) and left <= _LEFT * float((self.seen - self.exact).norm())


def diagnose_output(batch: Batch, window: int, token: int, head: int) -> str:
    """Why the outputs of one window, token and head are off."""
    if not bool(torch.isfinite(batch.outputs.budget[window, token, head]).all()):
        return _UNBOUNDED
    residual = (batch.outputs.seen - batch.outputs.exact)[window, token, head]
    names = _names(batch, token + 1)
    fields = batch.terms.output_fields()[window, token, head, : len(names)]
    beside = batch.terms.beside()
    if beside is not None and bool(beside[1][window, token, head].any()):
        fields, names = torch.cat([fields, beside[1][window, token, head][None]]), [*names, beside[0]]
    if not bool(torch.isfinite(residual).all()):
        return "not finite where the exact value is"
    allowed = (batch.outputs.budget + batch.outputs.rounding)[window, token, head]
    story = _Story(seen=batch.outputs.seen[window, token, head], exact=batch.outputs.exact[window, token, head], allowed=allowed)
    return (
        _other_history(batch, window, token + 1, story, lambda terms: terms.outputs()[-1, head])
        or _other_group(batch, window, head, story, lambda terms: terms.outputs()[token, head])
        or _other_reading(batch, window, story, lambda terms: terms.outputs()[token, head])
        or _one_cause(fields, residual, names)
        or _precision(residual, _companion(batch, window, token, head))
    )


def diagnose_state(batch: Batch, window: int, head: int) -> str:
    """Why the published state of one window and head is off."""
    assert batch.end is not None
    if not bool(torch.isfinite(batch.end.budget[window, head]).all()):
        return _UNBOUNDED
    residual = (batch.end.seen - batch.end.exact)[window, head].flatten()
    if not bool(torch.isfinite(residual).all()):
        return "not finite where the exact value is"
    fields, count = batch.terms.state_fields()[window, head], len(batch.paths)
    allowed = (batch.end.budget + batch.end.rounding)[window, head]
    story = _Story(seen=batch.end.seen[window, head], exact=batch.end.exact[window, head], allowed=allowed)
    return (
        _other_history(batch, window, count, story, lambda terms: terms.end()[head])
        or _other_group(batch, window, head, story, lambda terms: terms.end()[head])
        or _other_reading(batch, window, story, lambda terms: terms.end()[head])
        or _one_cause(fields, residual, _names(batch, count))
        or _precision(residual, batch.end.exact[window, head].flatten())
    )


def _names(batch: Batch, count: int) -> list[str]:
    """What the fields of the first `count` tokens are fields of."""
    return ["the start state"] + [f"the token of age {count - 1 - j}" for j in range(count) for _ in batch.terms.field_kinds()]


def _one_cause(fields: Tensor, residual: Tensor, names: list[str]) -> str:
    """The one term whose weight alone accounts for the residual, if there is one."""
    energy = float(residual @ residual)
    if energy == 0:
        return ""
    for along in (fit(fields, residual).coefficients, _alone(fields, residual)):
        left = ((residual - along[:, None] * fields) ** 2).sum(-1) / energy
        if float(left.min()) <= 1 - _EXPLAINS:
            # dependent terms explain alike: one lost or doubled is the likeliest story, else the first, since gates err sooner than D
            alike = left <= left.min() + 0.01
            plain = torch.where(alike, torch.minimum((along + 1).abs(), (along - 1).abs()), torch.inf)
            best = int(plain.argmin() if float(plain.min()) < _PLAIN else alike.int().argmax())
            return f"acts as if {names[best]} {_weight(float(along[best]))}"
    return ""


def _alone(fields: Tensor, residual: Tensor) -> Tensor:
    """Each term's weight error were it the only one: terms that depend on one another share a joint fit between them."""
    sizes = (fields * fields).sum(-1)
    return torch.where(sizes > 0, fields @ residual / torch.where(sizes > 0, sizes, 1.0), 0.0)


def _weight(error: float) -> str:
    if abs(error + 1) < _PLAIN:
        return "had weight 0"
    if abs(error - 1) < _PLAIN:
        return "were counted twice"
    if abs(error) < _PLAIN:
        return f"had a weight off by {error:+.2e} (2^{math.log2(abs(error)):.1f}) of itself"
    return f"had {1 + error:.4g} times its weight"


def _other_group(batch: Batch, window: int, head: int, story: _Story, read: Callable[[Terms], Tensor]) -> str:
    """Whether what another group shares gives what was seen, read from the terms it makes."""
    layer, item, recurrence = batch.layer, batch.windows[window], recurrence_of(batch.layer)
    mine = head // (layer.heads // layer.groups)
    for group in range(layer.groups):
        shared = {name: item.tokens.tensors()[name][:, [group] * layer.groups] for name in recurrence.shared}
        swapped = replace(item.tokens, **shared)  # type: ignore[arg-type]
        if group != mine and story.told_by(read(recurrence.decompose(layer, item.start, swapped))):
            return f"acts as if head {head} used group {group} instead of {mine}"
    return ""


def _other_history(batch: Batch, window: int, count: int, story: _Story, read: Callable[[Terms], Tensor]) -> str:
    """Whether the first `count` tokens of the window without one of them, or with one twice, give what was seen."""
    item, every = batch.windows[window], list(range(count))
    decompose = recurrence_of(batch.layer).decompose
    for token in reversed(every):
        age = count - 1 - token
        histories = {"had never come": every[:token] + every[token + 1 :], "had come twice": every[: token + 1] + every[token:]}
        for what, history in histories.items():
            if not history:
                continue
            value = read(decompose(batch.layer, item.start, item.tokens[torch.tensor(history)]))
            if story.told_by(value):
                return f"acts as if the token of age {age} {what}"
    return ""


def _other_reading(batch: Batch, window: int, story: _Story, read: Callable[[Terms], Tensor]) -> str:
    """Whether the recurrence with one line misread gives what was seen."""
    item = batch.windows[window]
    for what, terms in recurrence_of(batch.layer).stories(batch.layer, item.start, item.tokens):
        if story.told_by(read(terms)):
            return f"acts as if {what}"
    return ""


def _companion(batch: Batch, window: int, token: int, head: int) -> Tensor:
    return batch.terms.output_fields()[window, token, head].abs().sum(0)


def _precision(residual: Tensor, size: Tensor) -> str:
    """How many significand bits would leave a residual of this size."""
    scale = float((size * size).mean().sqrt())
    rms = float((residual * residual).mean().sqrt())
    if not scale or not rms:
        return ""
    bits = -math.log2(rms / scale / 0.42)
    if bits < _ROUNDED:
        return f"no single term explains it; it is off by {rms / scale:.2g} times the size of its terms, too far for a rounding"
    return f"no single term explains it; the size is that of rounding to about {bits:.0f} significand bits"
