"""JUnit XML and the precision card: what a test dashboard and a README show of a run."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from made_up import case, measurement, run

from replaycheck.report.card import card, card_schema
from replaycheck.report.card_figure import card_figure
from replaycheck.report.document import document
from replaycheck.report.forms import drawn, endings
from replaycheck.report.junit import junit
from replaycheck.report.write import write_report
from replaycheck.verdict.results import Run
from replaycheck.verdict.tally import Tally
from replaycheck.verdict.verdict import decide

RUNS: dict[str, dict[str, bool]] = {"pass": {}, "fail": {"broken": True}, "not proven": {"thin": True}}
OUT = Path("reports")


def unopened() -> Run:
    return replace(run(broken=True), claims=None, coverage=None, bits=(), worst_case=None, confirmation="", tally=Tally())


def suite_of(made: Run) -> ElementTree.Element:
    suite = ElementTree.fromstring(junit(document(made, OUT))).find("testsuite")
    assert suite is not None
    return suite


def properties(element: ElementTree.Element) -> dict[str, str]:
    return {str(p.get("name")): str(p.get("value")) for p in element.findall("properties/property")}


def test_junit_has_a_case_per_guarantee_and_regime_with_ratio_and_budget() -> None:
    made = run()
    suite = suite_of(made)
    cases = {str(c.get("name")): c for c in suite.findall("testcase")}
    assert set(cases) == {"verdict"} | {f"{g}[{r}]" for g, r in made.tally.worst}
    for (guarantee, regime), m in made.tally.worst.items():
        found = properties(cases[f"{guarantee}[{regime}]"])
        assert math.isclose(float(found["ratio"]), m.ratio, rel_tol=1e-5) and math.isclose(float(found["budget"]), m.budget, rel_tol=1e-5)
        assert found["case"] == m.case
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("21", "0", "0")
    assert properties(suite)["python"] == "3.12"


def test_junit_failures_hold_the_four_lines() -> None:
    made = run(broken=True)
    report = document(made, OUT)
    broken = {str(c.get("name")): c.find("failure") for c in suite_of(made).findall("testcase") if c.find("failure") is not None}
    assert set(broken) == {"verdict", "outputs[slow]", "isolation[trained-like]"}
    for name, failure in (("outputs[slow]", report["failures"][0]), ("isolation[trained-like]", report["failures"][1])):
        element = broken[name]
        assert element is not None and element.text == failure["block"] and len(failure["block"].splitlines()) == 4
        assert element.get("message") == failure["block"].splitlines()[0]


def test_junit_has_four_lines_for_a_regime_whose_case_was_not_saved() -> None:
    made = run(broken=True)
    made.tally.add([measurement("state", 7e-7, 1e-7, "fast", diagnosis="too short")])
    failure = next(c.find("failure") for c in suite_of(made).findall("testcase") if c.get("name") == "state[fast]")
    lines = str(failure.text).splitlines() if failure is not None else []
    assert len(lines) == 4 and lines[0] == "fail  state in regime fast: too short"
    assert lines[3].strip() == "replaycheck validate somewhere/kernel.py:replay"


def test_junit_tells_a_broken_contract_as_an_error() -> None:
    made = run()
    made.tally.add([measurement("contract", 1.0, 0.0, "slow", diagnosis="IndexError")])
    made = replace(made, verdict=decide(subject="replay kernel", errors=["contract: IndexError"], failures=(), gaps=(), warnings=()))
    suite = suite_of(made)
    assert (suite.get("failures"), suite.get("errors")) == ("0", "2")


STRICT = replace(run(), verdict=decide(subject="replay kernel", errors=(), failures=(), gaps=(), warnings=["suspicious: state"],
                                       strict=True))


@pytest.mark.parametrize("made", [run(thin=True), run(broken=True), STRICT, unopened(), replace(run(), interrupted=True)],
                         ids=["not proven", "fail", "strict", "unopened", "interrupted"])
def test_junit_is_green_for_a_pass_alone(made: Run) -> None:
    suite = suite_of(made)
    assert int(str(suite.get("failures"))) + int(str(suite.get("errors"))) > 0
    assert suite.find("testcase[@name='verdict']/*") is not None


def test_the_junit_and_the_figure_are_xml_whatever_a_kernel_says() -> None:
    evil = "<a> & \x00\x1b[31m \ud800 \ufffe \"'"
    made = replace(run(kernel=evil), environment={"command": evil, "device": evil}, what=evil)
    made.tally.add([measurement("state", 1.0, 0.0, "fast", diagnosis=evil)])
    files = drawn(document(replace(made, claims=None), OUT))
    for ending in (".junit.xml", ".card.svg"):
        ElementTree.fromstring(files[ending].decode())


@pytest.mark.parametrize("status", RUNS)
def test_the_card_keeps_to_its_schema_and_says_what_the_report_says(status: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(card_schema())
    report = document(run(**RUNS[status]), OUT)
    made = json.loads(json.dumps(card(report), allow_nan=False))
    jsonschema.validate(made, card_schema())
    assert made["verdict"]["status"] == status and made["kernel"]["name"] == "made-up"
    assert made["coverage"] == {"owed": 20, "seen": 19 if status == "not proven" else 20}
    assert [(b["claimed"], b["implied"]) for b in made["bits"]] == [(8, 8.1), (24, 21.7)]
    budgeted = {g["guarantee"]: g["budgeted"] for g in made["guarantees"]}
    assert budgeted["outputs"] and not budgeted["continuity"]


def test_a_kernel_that_did_not_open_has_every_form_too() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    report = document(unopened(), OUT)
    jsonschema.validate(card(report), card_schema())
    assert all(drawn(report).values())


@pytest.mark.parametrize("status", RUNS)
def test_the_figure_of_the_card_is_small_and_needs_nothing_from_outside(status: str) -> None:
    text = card_figure(card(document(run(**RUNS[status]), OUT)))
    assert len(text) < 10_000 and "<script" not in text and "href" not in text and "url(" not in text
    words = [str(t.text) for t in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}text")]
    assert "made-up" in words and f"{status} as replay kernel" in words
    for wanted in ("21.7 of 24", "8.1 of 8"):
        assert wanted in words
    if status == "fail":
        assert "8e7 slow" in words and "broken, though no error is allowed: isolation" in words


def bars(made: dict[str, Any]) -> list[float]:
    rects = ElementTree.fromstring(card_figure(made)).findall("{http://www.w3.org/2000/svg}rect")
    return [float(r.get("width", "nan")) for r in rects[1:]]


def test_bars_are_as_long_as_their_numbers_and_never_longer_than_their_place() -> None:
    made = card(document(run(), OUT))
    made["bits"] = [{"quantity": "q", "claimed": 24, "implied": i, "regime": ""} for i in (12, 24, 49.7, "nan", "-inf", "inf")]
    made["guarantees"] = []
    filled, framed = bars(made)[::2], bars(made)[1::2]
    assert framed == [140] * 6 and filled == [70, 140, 140, 0, 0, 140]


def test_every_form_is_written_beside_the_json_and_no_two_runs_share_a_file(tmp_path: Path) -> None:
    first = run()
    page = write_report(first, tmp_path)
    other = replace(first, claims=None, kernel="made-up.card", worst_case=case())
    second = write_report(other, tmp_path, others=[page])
    for written in (page, second):
        assert all((tmp_path / (written.stem + ending)).is_file() for ending in endings())
    assert second.stem == "made-up.card-2", "made-up.card.json is a file of the first"
