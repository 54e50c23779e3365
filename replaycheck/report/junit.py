"""The report as JUnit XML, made from the report document alone: a test case per guarantee and regime, and one for the verdict."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from replaycheck.verdict.checks import CONTRACT
from replaycheck.verdict.results import Failure

from .reading import measurement_of
from .text import failure_block, figure, printable

__all__ = ["junit"]


def junit(report: dict[str, Any]) -> str:
    """The whole file as text. The case "verdict" fails whenever the verdict is not a pass, so that a file without failures is a pass."""
    claims, verdict = report["kernel"]["claims"], report["verdict"]
    name = claims["name"] if claims else report["kernel"]["path"]
    suite = Element("testsuite")
    _properties(suite, {"kernel": report["kernel"]["path"], "verdict": verdict["status"], **report["environment"]})
    _verdict(suite, report, name)
    for entry in report["table"]:
        _case(suite, report, entry, name)
    counts = {"tests": len(suite.findall("testcase")), "failures": len(suite.findall("*/failure")), "errors": len(suite.findall("*/error")),
              "skipped": 0}
    for key, value in {"name": name, **counts, "time": figure(report["run"]["seconds"], digits=6)}.items():
        suite.set(key, printable(str(value)))
    suites = Element("testsuites", dict(suite.attrib))
    suites.append(suite)
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"


def _properties(parent: Element, values: dict[str, str]) -> None:
    properties = SubElement(parent, "properties")
    for name, value in values.items():
        SubElement(properties, "property", name=printable(name), value=printable(value))


def _test(suite: Element, kernel: str, name: str, seconds: float) -> Element:
    return SubElement(suite, "testcase", classname=printable(f"replaycheck.{kernel.replace('.', '_')}"), name=printable(name),
                      time=figure(seconds, digits=6))


def _verdict(suite: Element, report: dict[str, Any], kernel: str) -> None:
    """The time of the run is that of this case: plays are shared by the others."""
    verdict = report["verdict"]
    case = _test(suite, kernel, "verdict", report["run"]["seconds"])
    if verdict["status"] != "pass" or report["run"]["interrupted"]:
        _broken(case, "error" if verdict["status"] == "error" else "failure", verdict["status"],
                "\n".join((report["line"], *(f"  {reason}" for reason in verdict["reasons"]))))
    else:
        SubElement(case, "system-out").text = printable("\n".join((report["line"], *verdict["reasons"])))


def _case(suite: Element, report: dict[str, Any], entry: dict[str, Any], kernel: str) -> None:
    m = measurement_of(entry["worst"])
    case = _test(suite, kernel, f"{m.guarantee}[{m.regime}]" if m.regime else m.guarantee, 0.0)
    _properties(case, {"ratio": figure(m.ratio, digits=6), "value": figure(m.value, digits=6), "budget": figure(m.budget, digits=6),
                       "unit": m.unit, "measurements": str(entry["count"]), "case": m.case})
    if not m.passed:
        kind = "error" if m.guarantee == CONTRACT else "failure"
        _broken(case, kind, m.guarantee, _block(report, entry))


def _block(report: dict[str, Any], entry: dict[str, Any]) -> str:
    """The four lines of the failure that the report has of this guarantee and regime; else those of the measurement, whose case was not
    saved: the command of the run plays it again.
    """
    worst = entry["worst"]
    for failure in report["failures"]:
        if (failure["measurement"]["guarantee"], failure["measurement"]["regime"]) == (worst["guarantee"], worst["regime"]):
            return str(failure["block"])
    return failure_block(Failure(measurement=measurement_of(worst), case=None), report["environment"].get("command", ""))


def _broken(case: Element, kind: str, type_: str, text: str) -> None:
    SubElement(case, kind, type=printable(type_), message=printable(next(iter(text.splitlines()), ""))).text = printable(text)
