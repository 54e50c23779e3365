"""Case files: one small JSON a case, versioned, with a digest of every bit the case makes."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replaycheck.contract.claims import Formats
from replaycheck.contract.errors import UsageError

from . import events
from .families import family
from .files import record, typed, write_whole
from .recordings import RecordingFile

if TYPE_CHECKING:
    from .case import Case

__all__ = ["FORMAT", "fields_of", "from_json", "load", "save", "to_json"]

FORMAT = "replaycheck-case/1"

_INTEGERS = ("heads", "head_dim", "state_dim", "groups", "capacity", "slots", "layers", "seed")
_STRINGS = ("name", "recurrence", "regime")
_REQUIRED = (*_STRINGS, *_INTEGERS, "variant", "formats", "schedule")
#: Fields that a case of plain decode leaves out, and what they are there.
_SPECULATIVE = {"window": 1, "drafts": "drawn"}
_OPTIONAL = ("format", "id", "digest", "recording", *_SPECULATIVE)


def fields_of(case: Case) -> dict[str, Any]:
    """What makes the case, as JSON values."""
    plain = {name: getattr(case, name) for name in (*_STRINGS, *_INTEGERS)}
    made = {**plain, "variant": case.variant.to_json(), "formats": asdict(case.formats), "schedule": events.to_json(case.schedule)}
    made |= {name: getattr(case, name) for name, plain_value in _SPECULATIVE.items() if getattr(case, name) != plain_value}
    return made if case.recording is None else {**made, "recording": asdict(case.recording)}


def to_json(case: Case) -> dict[str, Any]:
    """The fields with format version, id and digest."""
    return {"format": FORMAT, **fields_of(case), "id": case.id, "digest": case.digest}


def from_json(data: Any) -> Case:
    """The case of JSON values. Raises ValueError naming field and value; a digest, where given, must be that of the bits made here."""
    from .case import Case  # a case knows its file form and the file form makes cases

    if not isinstance(data, dict):
        raise ValueError(f"a case must be an object, got {type(data).__name__}")
    if data.get("format") != FORMAT:
        raise ValueError(f"format must be {FORMAT!r}, got {data.get('format')!r}")
    missing = [name for name in _REQUIRED if name not in data]
    if missing:
        raise ValueError(f"field {missing[0]!r} is missing")
    unknown = sorted(set(data) - {*_REQUIRED, *_OPTIONAL})
    if unknown:
        raise ValueError(f"field {unknown[0]!r} is not known")
    made = {name: typed(name, data[name], str) for name in _STRINGS} | {name: typed(name, data[name], int) for name in _INTEGERS}
    made |= {"variant": family(made["recurrence"]).variant_of("variant", data["variant"]),
             "formats": record("formats", Formats, data["formats"])}
    made |= {name: typed(name, data[name], type(value)) for name, value in _SPECULATIVE.items() if name in data}
    case = Case(**made, schedule=events.from_json(data["schedule"]), recording=_recording(data.get("recording")))
    if "digest" in data and data["digest"] != case.digest:
        raise ValueError(f"digest is {data['digest']!r}, but the bits made here have {case.digest!r}: the file or the generator changed")
    return case


def _recording(data: Any) -> RecordingFile | None:
    if data is None:
        return None
    if not isinstance(data, dict) or set(data) != {"path", "sha256"}:
        raise ValueError(f"field 'recording' must be an object of path and sha256, got {data!r}")
    return RecordingFile(*(typed(f"recording.{name}", data[name], str) for name in ("path", "sha256")))


def save(case: Case, path: Path) -> None:
    """Write the case, one field a line and one event a line. Raises UsageError naming the path."""
    parts = to_json(case)
    ops = ",\n  ".join(json.dumps(op) for op in parts["schedule"])
    values = {name: f"[\n  {ops}\n ]" if name == "schedule" else json.dumps(value) for name, value in parts.items()}
    lines = [f'"{name}": {value}' for name, value in values.items()]
    text = "{\n " + ",\n ".join(lines) + "\n}\n"
    write_whole(path, text.encode(), what="case")


def load(path: Path) -> Case:
    """Read a case. Raises UsageError naming file, field and value."""
    try:
        data = json.loads(Path(path).read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"case {path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except (ValueError, RecursionError) as error:     # also numbers of too many digits, and lists within lists without end
        raise UsageError(f"case {path} is not JSON: {error}") from error
    try:
        return from_json(data)
    except ValueError as error:
        raise UsageError(f"case {path}: {error}") from error
