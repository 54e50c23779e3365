"""The command line: `replaycheck validate | replay | judge | record | infer | init | report | drift | list`."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

from replaycheck.contract.errors import ReplaycheckError
from replaycheck.verdict.verdict import EXIT_INTERRUPTED

from .parser import parse
from .streams import complain, prepare

__all__ = ["main"]

_EXIT_ERROR = 4


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. What a user can cause is one line on stderr, without a traceback unless asked for."""
    prepare()
    wanted = "--traceback" in (sys.argv[1:] if argv is None else argv)
    try:
        args = parse(argv)
        from .commands import COMMANDS  # torch and triton are imported here, so that --help is quick

        return COMMANDS[args.command](args)
    except ReplaycheckError as error:
        return _said(str(error), error.traceback, wanted, error.exit_code)
    except KeyboardInterrupt:
        return _said("interrupted", "", wanted, EXIT_INTERRUPTED)
    except Exception as error:  # a fault of replaycheck itself must not look like a verdict
        return _said(f"replaycheck itself failed: {type(error).__name__}: {error}", "", wanted, _EXIT_ERROR)


def _said(line: str, trace: str, wanted: bool, code: int) -> int:
    complain(line, (trace or traceback.format_exc()) if wanted else "")
    return code
