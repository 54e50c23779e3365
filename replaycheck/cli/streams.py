"""Standard output and standard error, which a user may close, fill or give an encoding of few characters."""

from __future__ import annotations

import contextlib
import io
import os
import sys

from replaycheck.contract.errors import UsageError

__all__ = ["complain", "prepare", "say"]


def prepare() -> None:
    """Write what the encoding of stdout does not have as escapes, as stderr does from the start."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def say(text: str) -> None:
    """Print to stdout. A reader that is gone changes no verdict; raises UsageError where stdout cannot be written for another reason."""
    try:
        print(text, flush=True)
    except OSError as error:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())      # what is still buffered would fail again at exit
        if not isinstance(error, BrokenPipeError):
            raise UsageError(f"standard output cannot be written: {error.strerror or error}") from error


def complain(line: str, trace: str = "") -> None:
    """Print one line on what went wrong to stderr, then the traceback where there is one. Nobody need be there to read it."""
    with contextlib.suppress(OSError):
        print("replaycheck: " + " ".join(line.split()), file=sys.stderr)
        if trace:
            print(trace, file=sys.stderr)
