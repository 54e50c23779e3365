"""What case files and traces share: writing a file whole or not at all, and reading small records."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from replaycheck.contract.errors import UsageError

__all__ = ["record", "typed", "write_together", "write_whole"]


def write_whole(path: Path, data: bytes, *, what: str) -> None:
    """Write one file whole or not at all. Raises UsageError naming both."""
    write_together({Path(path): data}, what=what)


def write_together(files: Mapping[Path, bytes], *, what: str) -> None:
    """Write every file beside its place and then move all there: no part of a file is ever found, and where there is no room for all, none.

    Raises UsageError naming `what` and the file that cannot be written.
    """
    beside = {path: path.with_name(f".{path.name}.{os.getpid()}.part") for path in files}
    try:
        for path, part in beside.items():
            with _writing(path, what):
                part.write_bytes(files[path])
        for path, part in beside.items():
            with _writing(path, what):
                part.replace(path)
    finally:
        for part in beside.values():
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)


@contextlib.contextmanager
def _writing(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"{what} {path} cannot be written: {error.strerror or error}") from error


def typed(name: str, value: Any, kind: type[Any]) -> Any:
    """The value, if it is an integer or a string as wanted. Raises ValueError naming field and value."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"field {name!r} must be {'an integer' if kind is int else 'a string'}, got {value!r}")
    return value


def record(name: str, kind: type[Any], value: Any, *, later: Collection[str] = ()) -> Any:
    """A frozen dataclass from a JSON object with exactly its fields. Raises ValueError naming field and value.

    Fields are strings and booleans, or None by default and then checked by the class. later: fields that may be missing, as older files
    have none.
    """
    if not isinstance(value, dict):
        raise ValueError(f"field {name!r} must be an object, got {value!r}")
    default = asdict(kind())
    for key in (*default, *value):
        if key not in value and key in later:
            continue
        if key not in value:
            raise ValueError(f"field '{name}.{key}' is missing")
        if key not in default:
            raise ValueError(f"field '{name}.{key}' is not known")
        if default[key] is not None and type(value[key]) is not type(default[key]):
            raise ValueError(f"field '{name}.{key}' must be a {type(default[key]).__name__}, got {value[key]!r}")
    return kind(**value)
