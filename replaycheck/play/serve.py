"""The worker's side: opens the kernel it is told to and plays the cases it is sent, until its parent hangs up."""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import sys
import threading
import time
import traceback
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import torch

from replaycheck.contract.errors import KernelError, ReplaycheckError, UsageError
from replaycheck.contract.resolve import resolve
from replaycheck.contract.session import Kernel

from .interpreted import interpreting
from .player import play
from .watch import one_line
from .wire import dumps, loads

__all__ = ["main"]


def main() -> None:
    """Serve over the file descriptor named on the command line: a first answer with the claims, then one answer a request."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--descriptor", type=int, required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--memory", type=int, default=0, help="bytes the kernel may use beyond what the libraries use, 0 for no limit")
    parser.add_argument("kernel")
    args = parser.parse_args()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    with Connection(args.descriptor) as parent:
        kernel = _opened(parent, args.kernel, args.device, args.memory)
        while kernel is not None:
            try:
                case, poison = loads(parent.recv_bytes())
            except EOFError:
                return
            parent.send_bytes(_answer(lambda case=case, poison=poison: _played(kernel, case, poison, args.device), args.memory))


def _end_with(parent: int) -> None:
    """End this process when its parent is gone, even while the kernel hangs."""
    while os.getppid() == parent:
        time.sleep(2)
    os._exit(1)


def _opened(parent: Connection, path: str, device: str, memory: int) -> Kernel | None:
    """The kernel, after its claims were sent; None where it could not be resolved, after the reason was sent."""
    found: list[Kernel] = []

    def claims() -> dict[str, Any]:
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise UsageError(f"device {device!r}: torch finds no CUDA device")
        if interpreting() and importlib.util.find_spec("triton") is not None:
            import replaycheck.interpreter as interpreter

            interpreter.install()
        if memory:
            _limit_memory(memory)
        found.append(resolve(path))
        return found[0].claims.to_json()

    parent.send_bytes(_answer(claims, memory))
    return found[0] if found else None


def _played(kernel: Kernel, case: Any, poison: str, device: str) -> Any:
    made = play(kernel, case, poison=poison, device=device)
    return replace(made, case=None)  # type: ignore[arg-type]  # the parent has it


def _answer(make: Any, memory: int) -> bytes:
    """("ok", what `make` returns) or ("usage" | "kernel" | "memory", message, traceback)."""
    try:
        return dumps(("ok", make()))
    except (Exception, SystemExit) as error:
        trace = getattr(error, "traceback", "") or traceback.format_exc()
        if _is_out_of_memory(error):
            limit = f": it may use {memory / 2**20:.0f} MiB" if memory else ""
            return dumps(("memory", f"out of memory{limit} ({one_line(error)})", trace))
        kind = "usage" if isinstance(error, UsageError) else "kernel"
        message = one_line(error) if isinstance(error, ReplaycheckError) else f"{type(error).__name__}: {one_line(error)}"
        return dumps((kind, message, trace))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _is_out_of_memory(error: BaseException) -> bool:
    cause: BaseException | None = error.__cause__ if isinstance(error, KernelError) and error.__cause__ is not None else error
    while cause is not None:
        said = str(cause).lower()
        if isinstance(cause, MemoryError) or "can't allocate memory" in said or "not enough memory" in said or "out of memory" in said:
            return True
        cause = cause.__cause__
    return False


def _limit_memory(more: int) -> None:
    """Private memory may grow by `more` bytes from here."""
    used = 0
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmData:"):
                used = int(line.split()[1]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (used + more, resource.RLIM_INFINITY))


if __name__ == "__main__":
    main()
