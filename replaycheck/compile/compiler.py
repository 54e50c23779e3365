"""Compiling recorded launches for a GPU that is not there, in a process of its own: interpreter and compiler cannot share one."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replaycheck.interpreter.recorder import Launch

__all__ = ["Compiled", "compile_launches"]

_CHILD = Path(__file__).with_name("child.py")


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """What became of one launch: PTX, or one line of error and empty PTX. seconds: what it took.

    tried: False where the compiler never had its say (the kernel cannot be imported again, or time was up); the error says why.
    """

    launch: Launch
    error: str | None
    ptx: str
    seconds: float
    tried: bool = True


def compile_launches(launches: Sequence[Launch], *, target: str = "sm_90", timeout: float = 300.0) -> list[Compiled]:
    """Compile each launch to PTX and machine code, without GPU or driver, one result a launch in the order given.

    Triton's own cache (TRITON_CACHE_DIR) serves what was compiled before: its key holds the sources of the kernel and of all it calls.
    timeout: seconds for all together; launches not done by then were not tried.

    Raises ValueError for a target that is not sm_NN or a timeout that is not positive.
    """
    found = re.fullmatch(r"sm_(\d+)", target)
    if found is None:
        raise ValueError(f"target must be sm_NN, got {target!r}")
    if not timeout > 0:
        raise ValueError(f"timeout must be positive, got {timeout}")
    arch, deadline = int(found.group(1)), time.monotonic() + timeout
    done: list[Compiled] = []
    while len(done) < len(launches):
        rest = launches[len(done):]
        answers, end = _run(rest, arch, deadline - time.monotonic())
        done += [Compiled(launch=launch, error=a["error"], ptx=a["ptx"], seconds=a["seconds"], tried=a["found"])
                 for launch, a in zip(rest, answers, strict=False)]
        unfinished = launches[len(done):]
        if end is None:
            done += [_failed(launch, f"not compiled within {timeout:g} s", tried=False) for launch in unfinished]
        elif unfinished:                       # the compiler died on the first of them; go on with the next
            done.append(_failed(unfinished[0], f"the compiler died ({end})"))
    return done


def _failed(launch: Launch, why: str, *, tried: bool = True) -> Compiled:
    return Compiled(launch=launch, error=why, ptx="", seconds=0.0, tried=tried)


def _run(launches: Sequence[Launch], arch: int, seconds: float) -> tuple[list[dict[str, Any]], str | None]:
    """Answers of one child, and how it ended; None where it was stopped at the deadline."""
    with tempfile.TemporaryDirectory(prefix="replaycheck-compile-") as folder:
        request, response, printed = (Path(folder) / name for name in ("request.json", "response.jsonl", "stderr"))
        request.write_text(json.dumps({"path": sys.path, "arch": arch, "launches": [launch.to_json() for launch in launches]}))
        response.touch()
        with printed.open("wb") as stream:
            child = subprocess.Popen([sys.executable, "-P", str(_CHILD), str(request), str(response)], env=_environment(),
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stream, start_new_session=True)
            end = _wait(child, seconds)
        answers = [json.loads(line) for line in response.read_text().splitlines() if line.endswith("}")]
        if end is not None and len(answers) < len(launches):
            last = printed.read_text(errors="replace").strip().splitlines()[-1:]
            end = f"{end}: {last[0][:300]}" if last else end
        return answers, end


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}


def _wait(child: subprocess.Popen[bytes], seconds: float) -> str | None:
    try:
        code = child.wait(max(seconds, 0.0))
    except BaseException as stop:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        if isinstance(stop, subprocess.TimeoutExpired):
            return None
        raise
    return f"exit code {code}" if code >= 0 else f"signal {-code}"
