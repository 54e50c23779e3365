"""A kernel in a process of its own: limits on time and memory, and no crash, hang or print of the kernel reaches this process."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import replace
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

from replaycheck.cases.case import Case
from replaycheck.contract.claims import Claims
from replaycheck.contract.errors import KernelError, KernelHang, ReplaycheckError, UsageError

from .result import Play
from .source import PlayCache
from .wire import dumps, loads

__all__ = ["Worker"]

_TAIL = 4000         # characters of the kernel's own output kept with an error


class Worker:
    """Plays cases on the kernel of `path` in a child process: in the interpreter on "cpu", natively on "cuda". A context manager.

    time_limit: seconds for one play, and for loading the kernel. memory_limit: bytes the kernel may use on a CPU, None for no limit.
    After a crash, a hang or a lack of memory the next play has a new process. Raises, on entry and from `play`, UsageError where the path
    does not resolve and KernelError, in one line, for all that the kernel does wrong; `.traceback` and `.output` carry the rest.
    """

    def __init__(self, path: str, *, device: str = "cpu", time_limit: float = 120.0, memory_limit: int | None = 4 << 30) -> None:
        if time_limit <= 0:
            raise ValueError(f"time_limit must be more than 0 seconds, got {time_limit}")
        if memory_limit is not None and memory_limit <= 0:
            raise ValueError(f"memory_limit must be more than 0 bytes, got {memory_limit}")
        self.path, self.device, self.time_limit = path, device, time_limit
        self.memory_limit = memory_limit if device == "cpu" else None
        self._cache = PlayCache()
        self._child: _Child | None = None
        self._claims: Claims | None = None

    def __enter__(self) -> Worker:
        self._started()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the process, if there is one."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    @property
    def claims(self) -> Claims:
        """What the kernel claims."""
        if self._claims is None:
            self._started()
        assert self._claims is not None
        return self._claims

    def play(self, case: Case, *, poison: str = "finite", take: int = 0) -> Play:
        """See PlaySource."""
        return self._cache.get(case, poison, take, lambda: self._played(case, poison))

    def _played(self, case: Case, poison: str) -> Play:
        made: Play = self._asked(self._started(), f"playing case {case.id}", dumps((case, poison)))
        return replace(made, case=case)

    def _started(self) -> _Child:
        if self._child is None:
            child = self._child = _Child(self.path, self.device, self.memory_limit)
            self._claims = Claims.from_json(self._asked(child, f"loading {self.path}", None))
        return self._child

    def _asked(self, child: _Child, doing: str, message: bytes | None) -> Any:
        """What the child answers. Raises the error it answers with, or the one that says how it died."""
        try:
            kind, *answer = child.ask(message, self.time_limit)
        except TimeoutError:
            raise self._lost(child, KernelHang(f"kernel hung: no answer in {self.time_limit:g} s while {doing}")) from None
        except (EOFError, OSError):
            raise self._lost(child, KernelError(f"kernel {child.death()} while {doing}")) from None
        except KeyboardInterrupt:
            self.close()
            raise
        if kind == "ok":
            return answer[0]
        text, trace = answer
        error: ReplaycheckError = UsageError(text) if kind == "usage" else KernelError(f"{text}, while {doing}")
        error.traceback = trace
        if isinstance(error, KernelError):
            error.output = child.output()
        if message is None or kind == "memory" or self.device != "cpu":     # an error on a CUDA device stays with the process
            self.close()
        raise error

    def _lost(self, child: _Child, error: KernelError) -> KernelError:
        """The error; the child is of no use any more."""
        error.output = child.output()
        self.close()
        return error


class _Child:
    """One process, and the pipe to it."""

    def __init__(self, path: str, device: str, memory: int | None) -> None:
        ours, theirs = socket.socketpair()
        self._printed = tempfile.TemporaryFile()
        command = [sys.executable, "-m", "replaycheck.play.serve", "--descriptor", str(theirs.fileno()), "--device", device,
                   "--memory", str(memory or 0), path]
        try:
            self._process = subprocess.Popen(command, env=_environment(device), pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL,
                                             stdout=self._printed, stderr=self._printed, start_new_session=True)
        finally:
            theirs.close()
        self._pipe = Connection(ours.detach())

    def ask(self, message: bytes | None, seconds: float) -> Any:
        """The answer to `message`, or to nothing. Raises TimeoutError, or EOFError where the process is gone."""
        if message is not None:
            self._pipe.send_bytes(message)
        if not self._pipe.poll(seconds):
            raise TimeoutError
        return loads(self._pipe.recv_bytes())

    def death(self) -> str:
        """How the process ended."""
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "closed its pipe"
        if code >= 0:
            return f"exited with code {code}"
        try:
            return f"crashed with {signal.Signals(-code).name}"
        except ValueError:
            return f"crashed with signal {-code}"

    def output(self) -> str:
        """The end of what the process printed."""
        self._printed.seek(0)
        return self._printed.read().decode(errors="replace")[-_TAIL:]

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._pipe.close()
        self._printed.close()


def _environment(device: str) -> dict[str, str]:
    """The child sees the modules that this process sees, interprets on a CPU, and runs one thread so that its sums have one order."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "PYTHONUNBUFFERED": "1"}
    environment.pop("TRITON_INTERPRET", None)
    if device == "cpu":
        environment.update(TRITON_INTERPRET="1", OMP_NUM_THREADS="1")
    return environment
