"""Reading a saved report, and measurements out of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NoReturn

from replaycheck.contract.claims import Claims
from replaycheck.contract.errors import UsageError
from replaycheck.verdict.measurement import Measurement

from .conform import departure
from .document import plain, schema

__all__ = ["measurement_of", "read_report"]

_NUMBERS = ("value", "budget", "got", "exact")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def read_report(path: Path) -> dict[str, Any]:
    """The document of a saved report, in keeping with the published schema. Raises UsageError naming file and field where it is not one."""
    try:
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except OSError as error:
        raise UsageError(f"report {path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"report {path} is no JSON: {error}") from error
    found = departure(report, schema())
    if found:
        raise UsageError(f"report {path} is no report of replaycheck: {found}")
    report["kernel"]["claims"] = _claims(report["kernel"]["claims"], path)
    return report


def _claims(claims: dict[str, Any] | None, path: Path) -> dict[str, Any] | None:
    """The claims with every field that there is, as reports have them."""
    try:
        return None if claims is None else dict(plain(Claims.from_json(claims).to_json()))
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"report {path} is no report of replaycheck: field 'kernel.claims': {error}") from error


def measurement_of(entry: dict[str, Any]) -> Measurement:
    """The measurement that a document holds as `entry`."""
    fields = {name: value for name, value in entry.items() if name not in ("ratio", "passed")}
    return Measurement(**{**fields, **{name: None if fields[name] is None else float(fields[name]) for name in _NUMBERS}})
