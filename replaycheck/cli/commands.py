"""The commands by name."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from .drift import drift
from .infer import infer
from .init import init
from .judge import judge
from .listing import listing
from .record import record
from .replay import replay
from .report import report
from .validate import validate

__all__ = ["COMMANDS"]

COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "validate": validate, "replay": replay, "judge": judge, "record": record, "infer": infer, "init": init, "report": report,
    "drift": drift, "list": listing,
}
