"""What one process that interprets kernels found; the tests only read it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    answer = tmp_path_factory.mktemp("speculation") / "answer.json"
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("interpreted.py")), str(answer)], env=environment, capture_output=True, text=True,
        timeout=300, check=False,
    )
    assert child.returncode == 0, child.stderr[-4000:]
    return dict(json.loads(answer.read_text()))
