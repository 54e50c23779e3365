"""The claims file of an inference, and what was found beside it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from replaycheck.cases.files import write_whole
from replaycheck.contract.errors import UsageError

from .infer import Inference
from .search import Finding

__all__ = ["lines", "refuse_overwrite", "write"]


def _paths(name: str, out: Path) -> tuple[Path, Path]:
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:100] or "kernel"
    return out / f"{stem}.claims.json", out / f"{stem}.inferred.json"


def refuse_overwrite(name: str, out: Path) -> None:
    """Raises UsageError where a claims file of this kernel is there: it may have been reviewed."""
    claims = _paths(name, out)[0]
    if claims.exists():
        raise UsageError(f"claims file {claims} exists and is not written over; give another --out")


def write(inference: Inference, out: Path) -> Path:
    """Write the claims, which `Claims.load` reads, and beside them the findings; returns the path of the claims.

    Raises UsageError where a file cannot be written, or the claims file is there already.
    """
    refuse_overwrite(inference.claims.name, out)
    claims, found = _paths(inference.claims.name, out)
    write_whole(found, _text(inference.to_json()), what="findings")
    write_whole(claims, _text(inference.claims.to_json()), what="claims file")
    return claims


def _text(data: object) -> bytes:
    return (json.dumps(data, indent=1, allow_nan=False, default=str) + "\n").encode()


def lines(inference: Inference) -> list[str]:
    """One line a field: its value, what is known of it, and by which probe."""
    width = max(len(found.field) for found in inference.findings)
    values = max(len(str(found.value)) for found in inference.findings)
    return [f"  {found.field:<{width}}  {found.value!s:<{values}}  {_known(found)}" for found in inference.findings]


def _known(found: Finding) -> str:
    if found.status == "determined":
        return f"determined: {found.note} in {found.regime} (ratio {found.margin:.3g})"
    if found.status == "bounded":
        return f"bounded: {found.note}; uses {found.margin:.2g} of its budget in {found.regime}"
    return f"{found.status}: {found.note}"
