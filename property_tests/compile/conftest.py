"""Launches recorded by one child process, compiled by another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from replaycheck.compile import Compiled, compile_launches
from replaycheck.interpreter.recorder import Launch

_KERNELS = Path(__file__).with_name("launched_kernels.py")


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Launch]]:
    """The distinct launches of each entry of `launches` in launched_kernels.py."""
    answer = tmp_path_factory.mktemp("recorded") / "answer.json"
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.run([sys.executable, str(_KERNELS), str(answer)], env=environment, capture_output=True, text=True, timeout=120,
                           check=False)
    assert child.returncode == 0, child.stderr[-4000:]
    return {name: [Launch.from_json(one) for one in seen] for name, seen in json.loads(answer.read_text()).items()}


@pytest.fixture(scope="session")
def compiled(recorded: dict[str, list[Launch]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Compiled]:
    """The first launch of each entry, compiled in an empty cache."""
    kept = os.environ.get("TRITON_CACHE_DIR")
    os.environ["TRITON_CACHE_DIR"] = str(tmp_path_factory.mktemp("cache"))
    try:
        names = [name for name in recorded if name != "everything"]
        results = compile_launches([recorded[name][0] for name in names])
    finally:
        os.environ.pop("TRITON_CACHE_DIR")
        if kept is not None:
            os.environ["TRITON_CACHE_DIR"] = kept
    return dict(zip(names, results, strict=True))
