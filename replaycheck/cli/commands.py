"""The commands by name."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from .judge import judge
from .listing import listing
from .replay import replay
from .report import report
from .validate import validate

__all__ = ["COMMANDS"]

COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "validate": validate, "replay": replay, "judge": judge, "report": report, "list": listing,
}
