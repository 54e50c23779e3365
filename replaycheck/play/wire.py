"""Messages between a worker and its parent: pickles in which a tensor is its bytes, so that no memory is shared and every bit survives."""

from __future__ import annotations

import io
import pickle
from typing import Any

import torch
from torch import Tensor

__all__ = ["dumps", "loads"]


def dumps(message: Any) -> bytes:
    """The bytes of a message."""
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(message)
    return buffer.getvalue()


def loads(data: bytes) -> Any:
    """The message of `dumps`; its tensors are on the CPU."""
    return pickle.loads(data)


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return NotImplemented
        plain = value.detach().cpu().contiguous()
        return _tensor, (plain.flatten().view(torch.uint8).numpy().tobytes(), plain.dtype, tuple(plain.shape))


def _tensor(data: bytes, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    if not data:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype).view(shape)
