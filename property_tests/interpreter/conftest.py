"""What the probes found, in one child process that interprets kernels; the tests only read it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_PROBES = Path(__file__).with_name("probes")


def _answer(script: str, folder: Path) -> dict[str, Any]:
    answer = folder / "answer.json"
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.run([sys.executable, str(_PROBES / script), str(answer)], env=environment, capture_output=True, text=True,
                           timeout=300, check=False)
    assert child.returncode == 0, child.stderr[-4000:]
    return dict(json.loads(answer.read_text()))


@pytest.fixture(scope="session")
def probed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Results in the patched interpreter, by probe module, then by name."""
    return _answer("run_probes.py", tmp_path_factory.mktemp("probed"))


@pytest.fixture(scope="session")
def unpatched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Results of casts and of promotion in the interpreter as triton ships it."""
    return _answer("run_unpatched.py", tmp_path_factory.mktemp("unpatched"))
