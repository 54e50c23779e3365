"""The table of CONTRIBUTING, held to: who may import whom, whether at the top of a module or late."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = {"replaycheck_reference": "reference/replaycheck_reference", "replaycheck_kernels": "kernels/replaycheck_kernels",
           **{f"replaycheck.{part.stem}": f"replaycheck/{part.name}" for part in (ROOT / "replaycheck").iterdir()
              if part.suffix == ".py" and part.stem not in ("__init__", "__main__") or (part / "__init__.py").is_file()}}
#: What each part may import besides itself, the reference, and what those it may import may.
ALLOWED = {
    "replaycheck_reference": (), "replaycheck_kernels": (), "replaycheck.contract": (),
    "replaycheck.interpreter": ("replaycheck.contract.errors",),
    "replaycheck.compile": ("replaycheck.contract", "replaycheck.interpreter"),
    "replaycheck.cases": ("replaycheck.contract",),
    "replaycheck.play": ("replaycheck.cases", "replaycheck.interpreter"),
    "replaycheck.judge": ("replaycheck.play",),
    "replaycheck.verdict": ("replaycheck.judge", "replaycheck.compile"),
    "replaycheck.report": ("replaycheck.verdict",),
    "replaycheck.infer": ("replaycheck.verdict",), "replaycheck.scaffold": ("replaycheck.report",),
    "replaycheck.cli": ("replaycheck.report", "replaycheck.infer", "replaycheck.scaffold", "replaycheck.record", "replaycheck.drift"),
    "replaycheck.plugin": ("replaycheck.report",),
    "replaycheck.adapters": ("replaycheck.contract", "replaycheck_kernels"),
    "replaycheck.faults": ("replaycheck.cases",), "replaycheck.trained": (),
    "replaycheck.drift": ("replaycheck.cases", "replaycheck.trained"),
    "replaycheck.record": ("replaycheck.cases", "replaycheck.trained"),
}
#: Records that are passed along the whole way, and the package's version.
SHARED = ("replaycheck.play.windows", "replaycheck.verdict.measurement", "replaycheck.__version__")
FREE = ("replaycheck.bench",)


def reach(part: str) -> set[str]:
    """Everything that a part may import, itself and what it may import by way of others included."""
    found = {part} if part.startswith("replaycheck_") else {part, *SHARED, "replaycheck_reference"}
    for allowed in ALLOWED.get(part, ()):
        found |= reach(allowed)
    return found


def imported(file: Path, package: list[str]) -> Iterator[str]:
    """The modules of ours that a file imports, in full."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base += node.module.split(".") if node.module else []
            names = [".".join([*base, alias.name]) for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.startswith("replaycheck"))


@pytest.mark.parametrize("part", sorted(set(SOURCES) - set(FREE)))
def test_a_part_imports_only_what_its_row_names(part: str) -> None:
    source = ROOT / SOURCES[part]
    files = [source] if source.is_file() else sorted(source.rglob("*.py"))
    above = source.parent if part.startswith("replaycheck_") else ROOT
    allowed = reach(part)
    wrong = [f"{file.relative_to(ROOT)} imports {name}" for file in files
             for name in imported(file, list(file.parent.relative_to(above).parts))
             if not any(name == may or name.startswith(f"{may}.") for may in allowed)]
    assert files and wrong == []


def test_every_part_has_a_row() -> None:
    assert set(SOURCES) == {*ALLOWED, *FREE}, "a new part needs a row here and in CONTRIBUTING"


def test_an_import_of_another_part_is_found(tmp_path: Path) -> None:
    file = tmp_path / "late.py"
    file.write_text("def f():\n    from ..verdict import run\n    import replaycheck.cli\n")
    assert list(imported(file, ["replaycheck", "play"])) == ["replaycheck.verdict.run", "replaycheck.cli"]
