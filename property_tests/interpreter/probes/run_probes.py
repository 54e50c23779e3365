"""Run every probe in this process, which interprets kernels, and write what they found: run_probes.py ANSWER.json"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

from replaycheck import interpreter
from replaycheck.contract.errors import ReplaycheckError

PROBES = ("cast_probe", "arithmetic_probe", "reduction_probe", "dot_probe", "loop_probe", "bounds_probe", "promotion_probe", "step_probe")


def refusal_of(version: str) -> str:
    """What `install` says to another release of triton."""
    import triton

    kept, triton.__version__ = triton.__version__, version
    try:
        interpreter.install()
    except ReplaycheckError as error:
        return str(error)
    finally:
        triton.__version__ = kept
    return "accepted"


def main(answer: str) -> None:
    torch.set_num_threads(1)
    found: dict[str, Any] = {"install": {"other release": refusal_of("3.7.0")}}
    interpreter.install()
    interpreter.install()
    seconds = {}
    for name in PROBES:
        started = time.perf_counter()
        found[name.removesuffix("_probe")] = importlib.import_module(name).probe()
        seconds[name] = time.perf_counter() - started
    found["seconds"] = seconds
    Path(answer).write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
