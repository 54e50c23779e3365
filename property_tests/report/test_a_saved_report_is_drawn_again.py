"""`replaycheck report`: the same files from a saved report, and one line where it is none."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import run

from replaycheck.cli import main, parser
from replaycheck.contract.errors import UsageError
from replaycheck.report.card import card_schema
from replaycheck.report.conform import departure
from replaycheck.report.document import document, schema
from replaycheck.report.forms import FORMS
from replaycheck.report.reading import measurement_of, read_report
from replaycheck.report.write import write_report

REPORT = document(run(broken=True, thin=True), Path("reports"))


def test_every_form_comes_out_in_the_same_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = write_report(run(broken=True), tmp_path)
    assert main(["report", str(page.with_suffix(".json")), "--out", str(tmp_path / "again")]) == 0
    paths = [Path(line) for line in capsys.readouterr().out.splitlines()]
    endings = (".card.json", ".card.svg", ".html", ".junit.xml", ".md")
    assert sorted(path.name for path in paths) == [f"made-up{ending}" for ending in endings]
    for path in paths:
        assert path.read_bytes() == (page.parent / path.name).read_bytes()


@pytest.mark.parametrize("form", FORMS)
def test_one_form_can_be_asked_for_and_lies_beside_the_json(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "some run.json"
    saved.write_text(json.dumps(REPORT))
    assert main(["report", str(saved), "--format", form]) == 0
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / f"some run{ending}") for ending in FORMS[form]]
    assert len(list(tmp_path.iterdir())) == 1 + len(FORMS[form])


def test_the_command_line_knows_the_forms_that_there_are() -> None:
    assert set(parser.FORMS) == set(FORMS)


def test_measurements_survive_being_saved() -> None:
    made = run(broken=True)
    saved = json.loads(json.dumps(document(made, Path("reports"))))
    read = [measurement_of(entry["worst"]) for entry in saved["table"]]
    assert sorted(map(repr, read)) == sorted(map(repr, made.tally.worst.values()))


@pytest.mark.parametrize(("contents", "said"), [
    (None, "cannot be read: No such file or directory"),
    (b"", "is no JSON"),
    (b"\xff\xfe", "is no JSON"),
    (b"[" * 100_000, "is no JSON"),
    (b'{"schema": NaN}', "is no JSON: NaN is no JSON"),
    (b"[1, 2]", "is no report of replaycheck: the whole must be object, got [1, 2]"),
    (b"{}", "is no report of replaycheck: field 'schema' is missing"),
])
def test_what_is_no_report_is_said_in_one_line(
    contents: bytes | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "run.json"
    if contents is not None:
        saved.write_bytes(contents)
    assert main(["report", str(saved)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith(f"replaycheck: report {saved} ") and said in captured.err
    assert len(captured.err.splitlines()) == 1


@pytest.mark.parametrize(("at", "value", "said"), [
    (("schema",), 2, "field 'schema' must be one of 1, got 2"),
    (("verdict", "status"), "fine", "field 'verdict.status' must be one of 'pass', 'not proven', 'fail', 'error', got 'fine'"),
    (("run", "cases"), -1, "field 'run.cases' must be at least 0, got -1"),
    (("table", 0, "worst", "ratio"), "big", "field 'table[0].worst.ratio' must be"),
    (("environment", "seed"), 0, "field 'environment.seed' must be string, got 0"),
    (("extra",), 1, "field 'extra' is not known"),
    (("kernel", "claims", "kind"), "odd", "field 'kernel.claims': "),
])
def test_a_field_that_is_wrong_is_named(at: tuple[Any, ...], value: Any, said: str, tmp_path: Path) -> None:
    spoiled = copy.deepcopy(REPORT)
    inner: Any = spoiled
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    saved = tmp_path / "run.json"
    saved.write_text(json.dumps(spoiled))
    with pytest.raises(UsageError) as refused:
        read_report(saved)
    assert said in str(refused.value) and str(saved) in str(refused.value)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, item in items for place in places(item, (*at, key)))]


SMALL = {**REPORT, "table": REPORT["table"][:1], "coverage": {**REPORT["coverage"], "cells": REPORT["coverage"]["cells"][:1]},
         "kernel": {**REPORT["kernel"], "claims": {}}}


@given(at=st.sampled_from(places(SMALL)[1:]),
       value=st.sampled_from((None, True, 0, -1, 1.0, 1.5, "inf", "pass", "", [], {}, "delete", "add")))
@settings(deadline=None, max_examples=200)
def test_a_report_is_refused_exactly_where_the_published_schema_refuses_it(at: tuple[Any, ...], value: Any) -> None:
    validator = pytest.importorskip("jsonschema").Draft202012Validator(schema())
    spoiled = copy.deepcopy(SMALL)
    inner: Any = spoiled
    for key in at[:-1]:
        inner = inner[key]
    if value == "delete":
        del inner[at[-1]]
    elif value == "add" and isinstance(inner, dict):
        inner["new"] = 1
    else:
        inner[at[-1]] = value
    assert (departure(spoiled, schema()) == "") == validator.is_valid(spoiled)


def test_a_keyword_that_is_not_known_is_not_passed_over() -> None:
    for published in (schema(), card_schema()):
        assert departure({}, published)
    with pytest.raises(ValueError, match="schema keyword 'maxLength' is not known"):
        departure("a", {"type": "string", "maxLength": 1})


def test_claims_without_every_field_are_filled_or_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "run.json"
    for claims, code in (({"name": "short"}, 0), ({}, 2), ({"name": "short", "policy": {"paths": 3}}, 2)):
        saved.write_text(json.dumps({**REPORT, "kernel": {"path": "k", "claims": claims}}))
        assert main(["report", str(saved)]) == code
        captured = capsys.readouterr()
        assert len(captured.err.splitlines()) == (code > 0) and "itself failed" not in captured.err


def test_what_cannot_be_drawn_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(report: dict[str, Any]) -> str:
        raise OverflowError("too many cells")

    monkeypatch.setitem(FORMS, "md", {".md": fail})
    saved = tmp_path / "run.json"
    saved.write_text(json.dumps(REPORT))
    assert main(["report", str(saved)]) == 2
    assert capsys.readouterr().err == f"replaycheck: report {saved} cannot be drawn: OverflowError: too many cells\n"
    assert list(tmp_path.iterdir()) == [saved]
