"""The inputs of a case that draws them: parameters, start states and tokens by the laws of its regime, from its seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from replaycheck_reference.formats.arrays import TORCH_DTYPE
from replaycheck_reference.layer import Mamba2Layer, Mamba2Tokens

from .regimes import RECORDED
from .stream import Floats

if TYPE_CHECKING:
    from .case import Case

__all__ = ["START", "check", "layer", "start", "tokens"]

#: What a request that does not start from zero starts from.
START = "random"


def check(case: Case) -> None:
    """Raises ValueError naming field and value where the regime cannot be drawn for this case."""
    if case.regime == RECORDED.name:
        raise ValueError(f"regime {case.regime!r} needs a recording: nothing is drawn in it")
    case.law.check(case.geometry, case.variant, max(case.lengths.values(), default=0))


def layer(case: Case, i: int) -> Mamba2Layer:
    """Layer i."""
    stream, law = case.stream("layer", i), case.law
    bias = law.gates.bias_of(stream, case.heads, case.variant) if case.variant.bias else None
    skip = law.skip(stream, (case.heads, case.head_dim) if case.variant.skip_rows else (case.heads,)) if case.variant.skip else None
    return Mamba2Layer(
        heads=case.heads, head_dim=case.head_dim, state_dim=case.state_dim, groups=case.groups, variant=case.variant,
        decay=_tensor(law.gates.decay_of(stream, case.heads, case.variant)),
        dt_bias=None if bias is None else _tensor(bias), D=None if skip is None else _tensor(skip),
    )


def start(case: Case, root: int, i: int) -> Tensor:
    """The random state of request `root` in layer i, in the state format."""
    return _tensor(case.law.start(case.stream("start", i, root), case.geometry), case.formats.state)


def tokens(case: Case, root: int, count: int, i: int) -> Mamba2Tokens:
    """The first `count` tokens of request `root` in layer i, in the activation format."""
    stream = case.stream("tokens", i, root)
    made = case.law.values(stream, case.geometry, count, case.variant)
    raw = case.law.gates.raw_of(stream, (count, case.heads), case.variant)
    form = case.formats.activation
    return Mamba2Tokens(
        x=_tensor(made.x, form), dt=_tensor(raw, form), B=_tensor(made.B, form), C=_tensor(made.C, form),
        z=_tensor(made.z, form) if case.variant.gated else None,
    )


def _tensor(values: Floats, form: str = "fp32") -> Tensor:
    """Values rounded to fp32 and from there to the format, nearest even."""
    return torch.from_numpy(values).to(torch.float32).to(TORCH_DTYPE[form])
