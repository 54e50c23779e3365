"""What case files and traces share: writing a file whole or not at all, and reading small records."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from replaycheck.contract.errors import UsageError

__all__ = ["record", "typed", "write_whole"]


def write_whole(path: Path, data: bytes, *, what: str) -> None:
    """Write the bytes beside `path` and move them there, so that no part of a file is ever found. Raises UsageError naming both."""
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        beside.write_bytes(data)
        beside.replace(target)
    except OSError as error:
        raise UsageError(f"{what} {path} cannot be written: {error.strerror or error}") from error
    finally:
        beside.unlink(missing_ok=True)


def typed(name: str, value: Any, kind: type[Any]) -> Any:
    """The value, if it is an integer or a string as wanted. Raises ValueError naming field and value."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"field {name!r} must be {'an integer' if kind is int else 'a string'}, got {value!r}")
    return value


def record(name: str, kind: type[Any], value: Any) -> Any:
    """A frozen dataclass of strings and booleans from a JSON object with exactly its fields. Raises ValueError naming field and value."""
    if not isinstance(value, dict):
        raise ValueError(f"field {name!r} must be an object, got {value!r}")
    default = asdict(kind())
    for key in (*default, *value):
        if key not in value:
            raise ValueError(f"field '{name}.{key}' is missing")
        if key not in default:
            raise ValueError(f"field '{name}.{key}' is not known")
        if type(value[key]) is not type(default[key]):
            raise ValueError(f"field '{name}.{key}' must be a {type(default[key]).__name__}, got {value[key]!r}")
    return kind(**value)
