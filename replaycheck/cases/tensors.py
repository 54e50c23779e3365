"""The tensors of a safetensors file, each taken once and checked as it is taken."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from replaycheck_reference.formats.arrays import format_name

__all__ = ["Tensors", "check_finite", "one_line"]


class Tensors:
    """The tensors of a file; each is taken once, and checked as it is taken."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self._left = dict(tensors)

    def has(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str, shape: tuple[int | None, ...], formats: Sequence[str], *, finite: bool = True) -> Tensor:
        """The tensor of that name; None in `shape` is any extent. Raises ValueError naming tensor and value."""
        if name not in self._left:
            raise ValueError(f"tensor {name!r} is missing")
        tensor = self._left.pop(name)
        if not _is_one_of(tensor, formats):
            raise ValueError(f"tensor {name!r} must be {' or '.join(formats)}, got {tensor.dtype}")
        if len(shape) != tensor.dim() or any(want not in (None, got) for want, got in zip(shape, tensor.shape, strict=True)):
            wanted = ", ".join("tokens" if extent is None else str(extent) for extent in shape)
            raise ValueError(f"tensor {name!r} must have shape [{wanted}], got {list(tensor.shape)}")
        if finite:
            check_finite(name, tensor)
        return tensor

    def finish(self) -> None:
        """Raises ValueError where a tensor is left that nothing asked for."""
        if self._left:
            raise ValueError(f"tensor {min(self._left)!r} is not known")


def check_finite(name: str, tensor: Tensor) -> None:
    """Raises ValueError naming the tensor, the value and its place where one is not finite."""
    if not bool(torch.isfinite(tensor).all()):
        at = (~torch.isfinite(tensor)).nonzero()[0].tolist()
        raise ValueError(f"tensor {name!r} must be finite, got {tensor[tuple(at)].item()} at {at}")


def _is_one_of(tensor: Tensor, formats: Sequence[str]) -> bool:
    try:
        return format_name(tensor.dtype) in formats
    except ValueError:
        return False


def one_line(error: BaseException) -> str:
    """The first line of what the error says, or its type where it says nothing."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
