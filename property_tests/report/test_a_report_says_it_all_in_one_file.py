"""Reports: valid against the published schema, one page without outside resources, whole or not there at all."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import run

from replaycheck.cases.case import Case
from replaycheck.contract.errors import UsageError
from replaycheck.report import write
from replaycheck.report.document import document, plain, schema
from replaycheck.report.page import page
from replaycheck.report.text import failure_block, figure, replay_line, verdict_line
from replaycheck.report.write import check_writable, write_report
from replaycheck.verdict.results import Run

RUNS = {"pass": {}, "fail": {"broken": True}, "not proven": {"thin": True}}


def check_against_schema(report: object) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(report, schema())


@pytest.mark.parametrize("status", RUNS)
def test_the_json_is_strict_and_keeps_to_the_schema(status: str, tmp_path: Path) -> None:
    write_report(run(**RUNS[status]), tmp_path)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    report = json.loads((tmp_path / "made-up.json").read_text(), parse_constant=refuse)
    assert report["verdict"]["status"] == status
    check_against_schema(report)


def test_a_kernel_that_did_not_open_has_a_report_too(tmp_path: Path) -> None:
    bare = replace(run(broken=True), claims=None, coverage=None, bits=(), worst_case=None, confirmation="")
    check_against_schema(document(bare, tmp_path))
    assert "somewhere/kernel.py:replay" in page(document(bare, tmp_path))


@pytest.mark.parametrize("status", RUNS)
def test_the_page_needs_nothing_from_outside_and_no_script(status: str, tmp_path: Path) -> None:
    text = write_report(run(**RUNS[status]), tmp_path).read_text()
    namespaces = re.sub(r'xmlns(:\w+)?="[^"]*"|<!DOCTYPE[^>]*>', "", text)
    assert not re.search(r"""https?://|<script|<link|<img|@import|url\((?!#)|src=|href="(?!#)""", namespaces)
    assert text.count("<html") == text.count("</html>") == 1


def test_the_page_has_what_an_author_asks_for(tmp_path: Path) -> None:
    broken = run(broken=True)
    text = write_report(broken, tmp_path).read_text()
    for wanted in ("fail as replay kernel", "acts as if the token of age 3 had weight 0", "head <b>1</b>", "1.25", "8e7",
                   "running error analysis", f"replaycheck replay {tmp_path}/case-", "--kernel somewhere/kernel.py:replay",
                   "made smaller from case 0123456789ab",
                   "confirmed to 50 digits", "Claimed and implied bits", "21.7", "Coverage of the ring", "capacities: 5..7 of 1..8",
                   "Environment", "<svg", "Claims the kernel was held to"):
        assert wanted in text, wanted


def test_what_a_kernel_says_cannot_break_the_page(tmp_path: Path) -> None:
    evil = run(kernel="<script>alert(1)</script>:k")
    assert "<script>" not in write_report(evil, tmp_path).read_text()


def test_the_saved_case_is_the_one_that_the_last_line_replays(tmp_path: Path) -> None:
    broken = run(broken=True)
    write_report(broken, tmp_path)
    for failure in broken.failures:
        command = failure_block(failure, replay_line(broken.kernel, failure.case, tmp_path, {})).splitlines()[-1].split()
        assert command[:2] == ["replaycheck", "replay"] and command[3:] == ["--kernel", broken.kernel]
        assert failure.case is not None and Case.load(Path(command[2])).id == failure.case.id


def test_a_failure_is_four_lines() -> None:
    failure = run(broken=True).failures[0]
    lines = failure_block(failure, "replaycheck replay x.json --kernel k").splitlines()
    assert lines[0] == "fail  outputs in regime slow: acts as if the token of age 3 had weight 0 (and 7 more)"
    assert "head 1 row 3" in lines[1] and "got 1.25, exact 1, error 80, budget 1e-6" in lines[1]
    assert lines[2] == "  ratio 8e7; budget: running error analysis of the claimed policy"
    assert lines[3].strip() == "replaycheck replay x.json --kernel k"
    assert len(lines) == 4


def test_a_verdict_is_one_line() -> None:
    assert verdict_line(run()) == "pass as replay kernel  somewhere/kernel.py:replay  worst 0.3 (outputs, positive)  20 measurements  21 s"
    broken = "fail as replay kernel  somewhere/kernel.py:replay  worst inf (isolation, trained-like)  22 measurements  21 s"
    assert verdict_line(run(broken=True)) == broken


def test_the_replay_line_survives_a_path_with_spaces_and_names_the_device() -> None:
    line = replay_line("my kernels/k.py:k", run().worst_case, Path("my reports"), {"device option": "cuda"})
    assert re.fullmatch(r"replaycheck replay 'my reports/case-\w{12}.json' --kernel 'my kernels/k.py:k' --device cuda", line)


@given(value=st.floats(-1e308, 1e308) | st.sampled_from((math.inf, -math.inf, math.nan)))
def test_figures_are_short_and_near(value: float) -> None:
    shown = figure(value)
    assert len(shown) <= 10
    if math.isfinite(value):
        assert math.isclose(float(shown), value, rel_tol=5e-3, abs_tol=5e-324)
    else:
        assert shown == str(value) == plain(value)


@pytest.mark.parametrize("step", ["page", "document"])
def test_a_report_that_cannot_be_made_leaves_nothing_half_written(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> str:
        raise RuntimeError("no page today")

    monkeypatch.setattr(write, "drawn" if step == "page" else step, fail)
    with pytest.raises(RuntimeError):
        write_report(run(), tmp_path)
    assert not [path for path in tmp_path.iterdir() if not path.name.startswith("case-")]


def test_an_output_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    for out in (taken, taken / "below"):
        with pytest.raises(UsageError, match=f"output directory {out} cannot be written: "):
            check_writable(out)
    check_writable(tmp_path / "made" / "on demand")
    assert not list((tmp_path / "made" / "on demand").iterdir())


def test_two_reports_of_one_run_are_the_same_bytes(tmp_path: Path) -> None:
    same: Run = run(thin=True)
    first, second = write_report(same, tmp_path).read_bytes(), write_report(same, tmp_path).read_bytes()
    assert first == second
