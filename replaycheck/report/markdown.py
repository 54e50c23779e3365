"""The report as Markdown for a pull request, made from the report document alone. What does not fit is left out from the detail upwards."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from replaycheck.verdict.measurement import Measurement

from .reading import measurement_of
from .text import element_line, figure, place_line

__all__ = ["LIMIT", "markdown"]

#: Bytes of the whole text, which a comment on a pull request has room for.
LIMIT = 60_000
#: Bytes of a command, and of a section by its name; these sum up to less than LIMIT.
_LINE = 1_500
_ROOM = {"verdict": 6_000, "failures": 16_000, "worst": 6_000, "ratios": 9_000, "bits": 5_000, "covered": 6_000, "environment": 6_000}
#: Columns of the table of ratios.
_COLUMNS = 8
_MARKS = {"pass": "✅", "not proven": "⚠️", "fail": "❌", "error": "❌"}


@dataclass(frozen=True, kw_only=True)
class _Section:
    """head, tail: always kept. lines: kept as long as there is room. what: the word for lines left out."""

    head: str
    lines: tuple[str, ...] = ()
    tail: str = ""
    what: str = "lines"

    def text(self, room: int) -> str:
        kept: list[str] = []
        room -= _size(self.head) + _size(self.tail) + 80
        for line in self.lines:
            room -= _size(line)
            if room < 0:
                break
            kept.append(line)
        left = len(self.lines) - len(kept)
        note = f"\n_{left} more {self.what} in the JSON report._\n" if left else ""
        return "".join((self.head, *kept, self.tail, note))


def markdown(report: dict[str, Any]) -> str:
    """The whole text, of at most LIMIT bytes in UTF-8. The verdict, its numbers and the first reasons are always there."""
    sections = {"verdict": _verdict(report), "failures": _failures(report), "worst": _worst(report), "ratios": _ratios(report),
                "bits": _bits(report), "covered": _covered(report), "environment": _environment(report)}
    return "\n".join(section.text(_ROOM[name]) for name, section in sections.items() if section is not None)


def _size(text: str) -> int:
    return len(text.encode(errors="backslashreplace"))


def _short(text: str, most: int) -> str:
    """The text on one line, in at most that many bytes and a few."""
    flat = " ".join(text.split())
    whole = flat.encode(errors="backslashreplace")
    return whole.decode() if len(whole) <= most else whole[:most].decode(errors="ignore") + " …"


def _words(text: str, most: int = 1_000) -> str:
    """Text that Markdown shows as it is."""
    escaped = re.sub(r"([\\`*_\[\]|~#])", r"\\\1", _short(text, most))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _fence(text: str, least: int) -> str:
    return "`" * max(least, 1 + max(map(len, re.findall("`+", text)), default=0))


def _code(text: str, most: int = 300) -> str:
    shown = _short(text, most)
    fence = _fence(shown, 1)
    space = " " if shown[:1] == "`" or shown[-1:] == "`" else ""
    return f"{fence}{space}{shown}{space}{fence}" if shown else ""


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def _verdict(report: dict[str, Any]) -> _Section:
    verdict, run, worst = report["verdict"], report["run"], report["worst"]
    notes = [note for note, holds in (("suspicious", verdict["suspicious"]), ("interrupted", run["interrupted"])) if holds]
    note = f" ({', '.join(notes)})" if notes else ""
    status = verdict["status"]
    lines = [f"## {_MARKS[status]} {status} as {_words(verdict['subject'], 200)}{note}: {_code(report['kernel']['path'])}\n\n"]
    if worst is not None:
        m = measurement_of(worst["measurement"])
        where = ", ".join(part for part in (m.guarantee, m.regime) if part)
        lines.append(f"Worst ratio **{figure(m.ratio)}** of the budget ({_words(where, 200)}). ")
    lines.append(f"{_words(run['what'], 200)}: {run['measurements']} measurements on {run['cases']} cases in {figure(run['seconds'])} s "
                 f"on {_words(report['environment'].get('device', 'an unknown device'), 200)}.\n\n")
    told = tuple(f"{failure['measurement']['guarantee']}: " for failure in report["failures"])
    reasons = tuple(f"* {_words(reason)}\n" for reason in verdict["reasons"] if not reason.startswith(told))
    return _Section(head="".join(lines), lines=reasons, what="reasons")


def _failures(report: dict[str, Any]) -> _Section | None:
    texts = tuple(_failure(failure) for failure in report["failures"])
    return _Section(head="### Broken guarantees\n\n", lines=texts, what="failures") if texts else None


def _failure(failure: dict[str, Any]) -> str:
    m = measurement_of(failure["measurement"])
    more = f" (and {failure['more']} more)" if failure["more"] else ""
    return (f"{_title(m)}: {_words(m.diagnosis or 'beyond its budget')}{more}\n\n{_element(m)}"
            f"* budget: {_words(m.derivation or 'none is allowed')}\n\n{_command(failure['replay'])}\n")


def _title(m: Measurement) -> str:
    regime = f" in regime {_words(m.regime, 100)}" if m.regime else ""
    return f"**{_words(m.guarantee, 100)}**{regime}, ratio {figure(m.ratio)}"


def _element(m: Measurement) -> str:
    return f"* worst element {_words(place_line(m))}\n* {_words(element_line(m))}\n"


def _command(text: str) -> str:
    """A command to copy, in a block of its own; nothing where there is none."""
    shown = _short(text, _LINE)
    fence = _fence(shown, 3)
    return f"{fence}sh\n{shown}\n{fence}\n" if shown else ""


def _worst(report: dict[str, Any]) -> _Section | None:
    worst = report["worst"]
    if worst is None or (report["failures"] and not worst["confirmation"]):
        return None
    opinion = (_words(worst["confirmation"]) + "\n",) if worst["confirmation"] else ()
    if report["failures"]:
        return _Section(head="### Second opinion on the worst window element\n\n", lines=opinion)
    m = measurement_of(worst["measurement"])
    lines = [_element(m)]
    if m.derivation:
        lines.append(f"* budget: {_words(m.derivation)}\n")
    if m.diagnosis:
        lines.append(f"* looks like: {_words(m.diagnosis)}\n")
    lines += (f"* second opinion on the worst window element: {line}" for line in opinion)
    return _Section(head=f"### Worst case\n\n{_title(m)}\n\n", lines=tuple(lines), tail="\n" + _command(worst["replay"]))


def _ratios(report: dict[str, Any]) -> _Section | None:
    """A row a regime, a column a guarantee that has a budget; those that allow no error share the last column."""
    table = report["table"]
    if not table:
        return None
    names = dict.fromkeys(entry["guarantee"] for entry in table)
    budgeted = [name for name in names if any(float(e["worst"]["budget"]) > 0 for e in table if e["guarantee"] == name)]
    strict = [name for name in names if name not in budgeted]
    shown = budgeted[:_COLUMNS]
    by_regime: dict[str, dict[str, dict[str, Any]]] = {}
    for entry in table:
        by_regime.setdefault(entry["regime"], {})[entry["guarantee"]] = entry["worst"]
    head = ("### Worst ratio per guarantee and regime\n\n1 is the budget; checks that allow no error hold or are broken; "
            "· was not measured.\n\n" + _row("regime", *(_words(name, 60) for name in shown), "checks that allow no error")
            + _row("---", *("--:" for _ in shown), "---"))
    rows = tuple(_row(_words(regime or "no regime", 60), *(_ratio(found.get(name)) for name in shown),
                      _strict({name: found[name] for name in strict if name in found})) for regime, found in by_regime.items())
    tail = f"\nChecks that allow no error: {_words(', '.join(strict), 400)}.\n" if strict else ""
    if len(budgeted) > len(shown):
        tail += f"\n_{len(budgeted) - len(shown)} more guarantees in the JSON report._\n"
    return _Section(head=head, lines=rows, tail=tail, what="regimes")


def _ratio(worst: dict[str, Any] | None) -> str:
    if worst is None:
        return "·"
    shown = figure(float(worst["ratio"]), digits=2)
    return shown if worst["passed"] else f"**{shown}** ❌"


def _strict(found: dict[str, dict[str, Any]]) -> str:
    broken = [name for name, worst in found.items() if not worst["passed"]]
    held = len(found) - len(broken)
    parts = [f"❌ **{_words(', '.join(broken), 400)}**" if broken else "", f"{held} hold" if held else ""]
    return "; ".join(part for part in parts if part) or "·"


def _bits(report: dict[str, Any]) -> _Section | None:
    if not report["bits"]:
        return None
    head = ("### Claimed and implied bits\n\nSignificand bits that a quantity behaves as if it had; the smallest seen.\n\n"
            + _row("quantity", "claimed", "implied", "seen in") + _row("---", "--:", "--:", "---"))
    rows = tuple(_row(_words(b["quantity"], 200), figure(float(b["claimed"])), figure(float(b["implied"])), _words(b["regime"], 200))
                 for b in report["bits"])
    return _Section(head=head, lines=rows, what="quantities")


def _covered(report: dict[str, Any]) -> _Section | None:
    coverage = report["coverage"]
    head = "### Coverage\n\n"
    if coverage is not None and coverage["owed"]:
        seen = coverage["owed"] - coverage["missing"]
        head += f"A fault of one token would have been seen in {seen} of the {coverage['owed']} cells of the ring that are owed.\n\n"
    if report["not_covered"]:
        head += "Claimed, and not covered by this run:\n\n"
    lines = tuple(f"* {_words(line)}\n" for line in report["not_covered"])
    return None if head == "### Coverage\n\n" else _Section(head=head, lines=lines)


def _environment(report: dict[str, Any]) -> _Section:
    return _Section(head="<details><summary>Environment</summary>\n\n" + _row("name", "value") + _row("---", "---"),
                    lines=tuple(_settings(report["environment"])), tail="\n</details>\n", what="values")


def _settings(environment: dict[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        yield _row(_words(name, 200), _code(value, 1_000).replace("|", "\\|"))
