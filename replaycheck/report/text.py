"""A run in plain lines: the verdict line, and four lines for each failure."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from replaycheck.cases.case import Case
from replaycheck.verdict.measurement import Measurement
from replaycheck.verdict.results import Failure, Run

__all__ = ["case_file", "element_line", "failure_block", "figure", "place_line", "printable", "replay_line", "verdict_line"]

#: Characters that XML has no place for.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def figure(value: float | None, *, digits: int = 3) -> str:
    """A number as people write it: 0.34, 2.5e5, inf; "-" for None."""
    if value is None:
        return "-"
    if not math.isfinite(value):
        return str(value)
    mantissa, _, exponent = f"{value + 0.0:.{digits}g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def printable(text: str) -> str:
    """The text with escapes for characters that XML has no place for."""
    return _UNPRINTABLE.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"


def verdict_line(run: Run) -> str:
    """One line: the verdict, the kernel, the worst ratio and where it is, how much was measured, the time."""
    worst = run.worst
    parts = [run.verdict.headline, run.kernel]
    if worst is not None:
        where = ", ".join(part for part in (worst.guarantee, worst.regime) if part)
        parts.append(f"worst {figure(worst.ratio)} ({where})")
    parts += [f"{run.tally.total} measurements", _seconds(run.seconds)]
    if run.interrupted:
        parts.append("interrupted")
    return "  ".join(parts)


def case_file(out: Path, case_id: str) -> Path:
    """Where the case of this id is saved by a run that writes to `out`."""
    return out / f"case-{case_id}.json"


def replay_line(kernel: str, case: Case | None, out: Path, environment: Mapping[str, str]) -> str:
    """The command that does exactly this again: the case where there is one, else the command of the run."""
    if case is None:
        return environment.get("command", "")
    device = environment.get("device option", "cpu")
    tail = "" if device == "cpu" else f" --device {device}"
    return f"replaycheck replay {shlex.quote(str(case_file(out, case.id)))} --kernel {shlex.quote(kernel)}{tail}"


def place_line(m: Measurement) -> str:
    """Coordinates of the worst element, in words."""
    return " ".join(f"{name} {value}" for name, value in m.place.items()) or "the whole play"


def element_line(m: Measurement) -> str:
    """The worst element in numbers: what was got, what is exact, the error and its budget."""
    if m.got is None and m.exact is None:
        return f"value {figure(m.value)}, budget {figure(m.budget)} ({m.unit})"
    error = f", error {figure(m.value)}" if m.unit == "absolute" else f", value {figure(m.value)}"
    return f"got {figure(m.got, digits=9)}, exact {figure(m.exact, digits=9)}{error}, budget {figure(m.budget)} ({m.unit})"


def failure_block(failure: Failure, replay: str) -> str:
    """Four lines: guarantee and diagnosis; the worst element; its ratio and where the budget comes from; the command that replays it."""
    m = failure.measurement
    more = f" (and {failure.more} more)" if failure.more else ""
    regime = f" in regime {m.regime}" if m.regime else ""
    return "\n".join((
        f"{failure.status}  {m.guarantee}{regime}: {m.diagnosis or 'beyond its budget'}{more}",
        f"  worst element {place_line(m)}: {element_line(m)}",
        f"  ratio {figure(m.ratio)}; budget: {m.derivation or 'none is allowed'}",
        f"  {replay}",
    ))
