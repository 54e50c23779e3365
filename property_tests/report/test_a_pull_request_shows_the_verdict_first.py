"""Markdown for a pull request: the verdict is always there, everything fits, and nothing a kernel says breaks the text."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from made_up import run

from replaycheck.report.document import document
from replaycheck.report.markdown import LIMIT, markdown

BROKEN, PASSED, THIN = (document(run(**how), Path("reports")) for how in ({"broken": True}, {}, {"thin": True}))


def swollen(report: dict[str, Any], text: str, times: int) -> dict[str, Any]:
    """The report with this text in every place for words, and every list that many times as long."""
    big = copy.deepcopy(report)
    big["kernel"]["path"] = big["verdict"]["subject"] = big["run"]["what"] = text
    big["verdict"]["reasons"] = [text] * times
    big["not_covered"] = [text] * times
    big["environment"] = {f"{i}{text}": text for i in range(times)} | {"device": text}
    measurements = [f["measurement"] for f in big["failures"]] + [entry["worst"] for entry in big["table"]] + [big["worst"]["measurement"]]
    for m in measurements:
        m.update(diagnosis=text, derivation=text, place={text: text}, unit=text)
    for place in (big["worst"], *big["failures"]):
        place["replay"] = text
    big["worst"]["confirmation"] = text
    big["failures"] = big["failures"] * times
    big["bits"] = [{**row, "quantity": text, "regime": text} for row in big["bits"]] * times
    for i, entry in enumerate(big["table"]):
        entry["regime"] = entry["worst"]["regime"] = f"{i} {text}"
        entry["guarantee"] = entry["worst"]["guarantee"] = f"{i % 19} {text}"
    big["table"] = [{**entry, "regime": f"{i}{entry['regime']}"} for i in range(times) for entry in big["table"]]
    return big


@given(text=st.sampled_from(("`", "&", "|", "é", "<", "word ", "a\nb", "\udcff")), length=st.integers(0, 4_000), times=st.integers(1, 40),
       report=st.sampled_from((BROKEN, PASSED)))
@example(text="&", length=4_000, times=60, report=BROKEN)
@example(text="`", length=4_000, times=60, report=PASSED)
@settings(deadline=None, max_examples=10)
def test_it_fits_and_keeps_the_verdict_however_much_there_is_to_say(text: str, length: int, times: int, report: dict[str, Any]) -> None:
    said = markdown(swollen(report, text * length, times))
    assert len(said.encode(errors="backslashreplace")) <= LIMIT == 60_000
    assert f"{report['verdict']['status']} as " in said.splitlines()[0]
    assert "Worst ratio **" in said and "measurements on 18 cases" in said


def test_what_is_left_out_is_counted() -> None:
    big = {**BROKEN, "not_covered": [f"line {i} " + "x" * 300 for i in range(100)]}
    said = markdown(big)
    shown = sum(f"line {i} " in said for i in range(100))
    assert 0 < shown < 100 and f"_{100 - shown} more lines in the JSON report._" in said


def test_a_failure_has_its_diagnosis_its_worst_element_and_its_command() -> None:
    said = markdown(BROKEN)
    for wanted in ("## ❌ fail as replay kernel: `somewhere/kernel.py:replay`",
                   "**outputs** in regime slow, ratio 8e7: acts as if the token of age 3 had weight 0 (and 7 more)",
                   "head 1 row 3", "got 1.25, exact 1, error 80, budget 1e-6 (absolute)",
                   "budget: running error analysis of the claimed policy",
                   f"```sh\n{BROKEN['failures'][0]['replay']}\n```", "confirmed to 50 digits"):
        assert wanted in said, wanted
    assert "\n* outputs: acts as if" not in said, "reasons that the failures tell are not told twice"


def test_a_pass_shows_its_worst_case_and_how_to_play_it() -> None:
    said = markdown(PASSED)
    assert said.startswith("## ✅ pass as replay kernel: `somewhere/kernel.py:replay`")
    for wanted in ("Worst ratio **0.3** of the budget (outputs, positive)", PASSED["worst"]["replay"], "| outputs, bf16 | 8 | 8.1 |",
                   "20 of the 20 cells", "capacities: 5..7 of 1..8", "| python | `3.12` |"):
        assert wanted in said, wanted


def test_what_is_not_proven_says_why() -> None:
    said = markdown(THIN)
    assert said.startswith("## ⚠️ not proven as replay kernel") and "* coverage: 19 of 20 cells seen" in said


def test_the_table_has_a_row_per_regime_and_marks_what_is_broken() -> None:
    rows = {line.split(" | ")[0][2:]: line for line in markdown(BROKEN).splitlines() if line.startswith("| ")}
    assert rows["regime"] == "| regime | outputs | state | gates | checks that allow no error |"
    assert rows["slow"].startswith("| slow | **8e7** ❌ | ")
    assert rows["trained-like"].endswith("| ❌ **isolation**; 1 hold |")
    assert rows["positive"].endswith("| 1 hold |")


@pytest.mark.parametrize("name", ["a|b", "`a`", "<script>", "a\n# title", "``"])
def test_what_a_kernel_is_called_stays_in_its_place(name: str) -> None:
    named = {**PASSED, "kernel": {**PASSED["kernel"], "path": name}, "environment": {"command": name},
             "verdict": {**PASSED["verdict"], "reasons": [name]}}
    html = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table").render(markdown(named))
    assert html.count("<h2>") == 1 and "<h1>" not in html and "<script>" not in html
    assert html.count("<table>") == 3
