"""The plugin in a pytest of its own: what it collects, how a failure reads, what it records."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from replaycheck.cases.case import Case
from replaycheck.plugin import kernel_suite
from replaycheck.verdict.suites import SUITES, pairs_of

KERNELS = Path(__file__).parent.parent / "cli" / "kernels_for_the_command_line.py"
SUITE_FILE = """
from replaycheck.plugin import kernel_suite

TestRight = kernel_suite({step!r})
TestLossy = kernel_suite({lossy!r}, seed=3)
TestAbsent = kernel_suite("nowhere.py:kernel")
"""


class Outcome:
    """One run of pytest on SUITE_FILE: its output, and its test cases by name."""

    def __init__(self, folder: Path, choice: str) -> None:
        (folder / "test_kernels.py").write_text(SUITE_FILE.format(step=f"{KERNELS}:step", lossy=f"{KERNELS}:lossy"))
        installed = bool(entry_points(group="pytest11", name="replaycheck"))
        named = [] if installed else ["-p", "replaycheck.plugin"]
        command = [sys.executable, "-m", "pytest", *named, "-p", "no:cacheprovider", "-k", choice, "--rootdir", str(folder), "--junit-xml",
                   str(folder / "junit.xml"), "--replaycheck-out", str(folder / "cases"), str(folder / "test_kernels.py")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder, env=environment)
        self.code, self.output, self.folder = done.returncode, done.stdout, folder
        self.tests = {f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}": case
                      for case in ElementTree.parse(folder / "junit.xml").iter("testcase")}

    def failure(self, name: str) -> str:
        found = self.tests[name].find("failure")
        return "" if found is None else found.text or ""

    def properties(self, name: str) -> dict[str, str]:
        return {entry.get("name", ""): entry.get("value", "") for entry in self.tests[name].iter("property")}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return Outcome(tmp_path_factory.mktemp("suite"), "state-slow or outputs-fast or contract-fast")


def test_the_header_says_what_the_numbers_depend_on(outcome: Outcome) -> None:
    assert "replaycheck 0.1.0: torch " in outcome.output and "triton 3.6.0" in outcome.output


def test_a_right_kernel_passes_and_its_ratio_is_recorded(outcome: Outcome) -> None:
    for name in ("TestRight.test_guarantee[state-slow]", "TestRight.test_guarantee[outputs-fast]"):
        assert outcome.failure(name) == ""
        properties = outcome.properties(name)
        assert 0 <= float(properties["ratio"]) <= 1 and float(properties["budget"]) > 0 and len(properties["case"]) == 12


def test_a_failure_is_the_four_lines_and_its_case_is_saved(outcome: Outcome) -> None:
    lines = outcome.failure("TestLossy.test_guarantee[state-slow]").strip().splitlines()
    assert len(lines) == 4 and lines[0].startswith("fail  state in regime slow: ")
    command = lines[3].split()
    assert command[:2] == ["replaycheck", "replay"] and command[3:] == ["--kernel", f"{KERNELS}:lossy"]
    assert Case.load(Path(command[2])).regime == "slow" and Path(command[2]).parent == outcome.folder / "cases"
    assert outcome.failure("TestLossy.test_guarantee[contract-fast]") == "", "a guarantee that is kept passes though another is broken"


def test_a_path_that_does_not_resolve_fails_in_one_line(outcome: Outcome) -> None:
    assert outcome.failure("TestAbsent.test_guarantee[state-slow]").strip() == "kernel 'nowhere.py:kernel': there is no file nowhere.py"
    assert outcome.code == 1


def test_there_is_a_test_for_every_guarantee_and_regime() -> None:
    suite = kernel_suite("any.py:kernel", "merge")
    (parameters,) = [mark for mark in suite.test_guarantee.pytestmark if mark.name == "parametrize"]  # type: ignore[attr-defined]
    assert [tuple(p.values) for p in parameters.args[1]] == pairs_of(SUITES["merge"])
    assert hasattr(suite, "test_the_suite_proves_enough")


@pytest.mark.parametrize("name", ["deep", "quik"])
def test_only_suites_with_an_end_can_be_collected(name: str) -> None:
    with pytest.raises(ValueError, match=f"suite must be one of quick, merge, got '{name}'"):
        kernel_suite("any.py:kernel", name)
