"""The inputs of a case that takes them from a recording: a request is a stretch, and starts from the state recorded with it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from replaycheck.contract.errors import UsageError
from replaycheck_reference.formats.arrays import TORCH_DTYPE
from replaycheck_reference.layer import Layer, Tokens
from replaycheck_reference.variant import Mamba2Variant, Variant

from .families import family
from .recordings import RecordedLayer, Recording
from .regimes import RECORDED

if TYPE_CHECKING:
    from .case import Case

__all__ = ["START", "check", "forms_played", "layer", "start", "tokens"]

#: What a request that does not start from zero starts from: in a model, what its chunked prefill handed over.
START = "prefill"


def check(case: Case) -> None:
    """Raises ValueError naming field and value where the recording does not have what the case asks for."""
    if case.regime != RECORDED.name:
        raise ValueError(f"regime of a case with a recording must be {RECORDED.name!r}, got {case.regime!r}")
    recording = _recording(case)
    longest = max(case.lengths.values(), default=0)
    if longest > recording.tokens:
        raise ValueError(f"a request consumes {longest} tokens; the recording has {recording.tokens}")
    for i in range(case.layers):
        recorded = _layer(case, i).layer()
        for name in ("heads", "head_dim", "state_dim", "groups"):
            if getattr(case, name) != getattr(recorded, name):
                raise ValueError(f"{name} must be that of the recording, {getattr(recorded, name)}, got {getattr(case, name)}")
        if case.variant not in forms_played(recorded.variant):
            raise ValueError(f"variant must be that of the recording, {recorded.variant}, gated or not, got {case.variant}")
    _check_in_range(case)


def forms_played(variant: Variant) -> list[Variant]:
    """The forms in which a recording of a layer of this variant can be played: that, and without what gates the output."""
    return [variant, *([replace(variant, gated=False)] if isinstance(variant, Mamba2Variant) else [])]


def _check_in_range(case: Case) -> None:
    """A number of the recording may be too large for a format that the case asks for."""
    for i in range(case.layers):
        for root in dict.fromkeys(admit.request for admit in case.roots.values()):
            made = tokens(case, root, case.lengths[root], i)
            for name, value in {**made.tensors(), "start": start(case, root, i)}.items():
                if value is not None and not bool(torch.isfinite(value).all()):
                    raise ValueError(f"{name} of request {root} in layer {i} is too large for {value.dtype}")


def layer(case: Case, i: int) -> Layer:
    """Layer i, with the parameters of the i-th layer of its recurrence in the recording."""
    made: Layer = replace(cast(Any, _layer(case, i).layer()), variant=case.variant)
    return made


def start(case: Case, root: int, i: int) -> Tensor | None:
    """The state recorded at the beginning of the stretch, rounded to the state format; None where it was zero."""
    recorded = _layer(case, i)
    found = recorded.starts[root % len(recorded.starts)]
    return None if found is None else found.to(TORCH_DTYPE[case.formats.state], copy=True)


def tokens(case: Case, root: int, count: int, i: int) -> Tokens:
    """The first `count` tokens of the stretch, rounded to the activation format; requests take the stretches in turn by their number."""
    recorded = _layer(case, i)
    form, stretch = TORCH_DTYPE[case.formats.activation], recorded.stretches[root % len(recorded.stretches)]
    own = family(case.recurrence)
    names = own.received(case.geometry, case.variant)
    made: Tokens = own.tokens(**{name: stretch[own.recorded.get(name, name)][:count].to(form, copy=True) for name in names})
    return made


def _recording(case: Case) -> Recording:
    assert case.recording is not None
    try:
        return case.recording.read()
    except UsageError as error:
        raise ValueError(str(error)) from error


def _layer(case: Case, i: int) -> RecordedLayer:
    recording = _recording(case)
    layers = recording.of(case.recurrence)
    if not 0 <= i < len(layers):
        raise ValueError(f"layers must be in 1..{len(layers)}, those of {case.recurrence} in the recording, got {i + 1}")
    return layers[i]
