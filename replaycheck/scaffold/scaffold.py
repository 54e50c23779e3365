"""What `replaycheck init` writes, and writing it without writing over anything."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from replaycheck.cases.files import write_whole
from replaycheck.contract.claims import Claims
from replaycheck.contract.errors import UsageError
from replaycheck.report.write import check_writable
from replaycheck_reference.policy import Path as PolicyPath
from replaycheck_reference.policy import Policy

__all__ = ["Scaffold", "made_of", "write_scaffold"]

_TEMPLATES = "replaycheck.scaffold.templates"


@dataclass(frozen=True, kw_only=True)
class Scaffold:
    """Files of a new kernel: path below its folder -> (text, what it is for)."""

    files: dict[str, tuple[str, str]]


def made_of(name: str, kind: str) -> Scaffold:
    """The scaffold of a kernel of this name. Raises ValueError where kind is neither step nor replay."""
    claims = json.dumps(_claims(name, kind).to_json(), indent=1) + "\n"
    return Scaffold(files={
        f"{name}.py": (_filled(f"{kind}.py.txt", name), "the adapter, around a reference kernel to be replaced"),
        f"{name}.claims.json": (claims, "what the kernel claims; replaycheck infer finds the policy of another"),
        f"test_{name}.py": (_filled("test.py.txt", name), "one test a guarantee and regime, for pytest"),
        "replaycheck-ci.yml": (_filled("ci.yml.txt", name), "what a CI job runs"),
    })


def write_scaffold(made: Scaffold, folder: Path) -> list[tuple[Path, str]]:
    """Write every file into `folder`; returns paths and purposes. Raises UsageError naming a file that is there already: nothing is
    written then."""
    taken = next((folder / name for name in made.files if (folder / name).exists()), None)
    if taken is not None:
        raise UsageError(f"file {taken} exists and is not written over; give another --out")
    check_writable(folder)
    for name, (text, _) in made.files.items():
        write_whole(folder / name, text.encode(), what="file")
    return [(folder / name, purpose) for name, (_, purpose) in made.files.items()]


def _filled(template: str, name: str) -> str:
    return resources.files(_TEMPLATES).joinpath(template).read_text().replace("@NAME@", name)


def _claims(name: str, kind: str) -> Claims:
    """What the reference kernels of the templates keep: fp32 arithmetic, sums in any order."""
    paths = {
        "step": {"step": PolicyPath()},
        "replay": {"output": PolicyPath(output="scores", weights="sum"), "flush": PolicyPath(weights="sum")},
    }
    if kind not in paths:
        raise ValueError(f"kind must be step or replay, got {kind!r}")
    return Claims(
        name=name, kind=kind, policy=Policy(paths=paths[kind]), states=("fp32", "bf16"), activations=("fp32", "bf16"),
        outputs=() if kind == "step" else ("bf16", "fp32"),
        capacities=(1, 1) if kind == "step" else (1, 16), features=("bias", "skip", "groups"),
    )
