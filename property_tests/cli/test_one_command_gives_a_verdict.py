"""validate, replay, judge and list: verdict lines, exit codes, reports."""

from __future__ import annotations

import _thread
import json
import os
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from replaycheck.cases.case import Case
from replaycheck.cases.layers import PRESETS
from replaycheck.cases.regimes import DELTA_REGIMES, REGIMES
from replaycheck.cases.schedule import plain
from replaycheck.cases.traces import write_trace
from replaycheck.cli import validate as validate_module
from replaycheck.cli import workers
from replaycheck.cli.parser import LISTS
from replaycheck.faults.base import REPLAY
from replaycheck.play.player import play
from replaycheck.report.document import schema
from replaycheck.verdict.checks import CHECKS
from replaycheck.verdict.suites import SUITES

Command = Callable[..., int]
PathOf = Callable[[str], str]


def test_a_right_kernel_passes_with_one_line_and_a_report(
    local: Command, kernel: PathOf, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert local("validate", kernel("right")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"pass as replay kernel  {kernel('right')}  worst 0.")
    assert lines[1].strip().startswith("report: replaycheck-report/") and len(lines) == 2
    page = tmp_path / lines[1].split("report: ")[1]
    assert "pass as replay kernel" in page.read_text()
    report = json.loads(page.with_suffix(".json").read_text())
    assert report["coverage"]["missing"] == 0 and report["environment"]["function table"] == "numpy"
    pytest.importorskip("jsonschema").validate(report, schema())


def test_a_wrong_kernel_fails_and_its_last_line_fails_again(
    local: Command, kernel: PathOf, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SUITES, "quick", replace(SUITES["quick"], shrink_seconds=1.0))
    assert local("validate", kernel("lossy"), "--only", "windows,slow", "--out", "here") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("fail as replay kernel")
    block = lines.index(next(line for line in lines if line.startswith("fail  state in regime slow: ")))
    assert lines[block + 1].startswith("  worst element request 0")
    assert lines[block + 2].startswith("  ratio ")
    command = lines[block + 3].split()
    assert command[:2] == ["replaycheck", "replay"]
    assert local(*command[1:], "--only", "state") == 1
    again = capsys.readouterr().out
    assert again.startswith("fail as replay kernel") and "fail  state in regime slow" in again


def test_several_kernels_get_a_line_each_and_the_worst_exit_code(
    local: Command, kernel: PathOf, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("step", "lossy", "raising", "closed")
    codes = [local("validate", kernel(name), "--only", "state,contract,slow") for name in names]
    assert codes == [0, 1, 4, 4]
    capsys.readouterr()
    assert local("validate", *map(kernel, names), "nowhere.py:k", "--only", "state,contract,slow") == 2
    captured = capsys.readouterr()
    verdicts = [line.split(" as ")[0] for line in captured.out.splitlines() if "kernel  " in line and " as " in line]
    assert verdicts == ["pass", "fail", "error", "error"]
    assert "replaycheck: kernel 'nowhere.py:k': there is no file nowhere.py" in captured.err
    assert "no such row 7" in captured.out and "SIGSEGV" in captured.out
    assert "Traceback" not in captured.out + captured.err


def test_a_traceback_is_shown_when_asked_for(local: Command, kernel: PathOf, capsys: pytest.CaptureFixture[str]) -> None:
    assert local("validate", kernel("raising"), "--only", "contract,slow", "--traceback") == 4
    assert "IndexError: no such row 7" in capsys.readouterr().err


def test_too_little_time_is_not_proven(local: Command, kernel: PathOf, capsys: pytest.CaptureFixture[str]) -> None:
    assert local("validate", kernel("right"), "--budget", "0.000001") == 3
    captured = capsys.readouterr().out
    assert captured.startswith("not proven as replay kernel") and "nothing was measured for outputs" in captured
    assert "time was out after 0 cases" in captured


def test_an_interrupted_run_reports_what_was_done(
    local: Command, kernel: PathOf, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Interrupting(validate_module.Display):
        def update(self, done: int, job: Any, measured: Any) -> None:
            if done == 2:
                _thread.interrupt_main()

    monkeypatch.setattr(validate_module, "Display", Interrupting)
    assert local("validate", kernel("step"), kernel("right"), "--suite", "deep", "--budget", "60") == 130
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("not proven as step kernel") and lines[0].endswith("interrupted")
    assert any(line.strip().startswith("interrupted after") for line in lines)
    assert list(tmp_path.glob("replaycheck-report/*.html"))
    assert not any("as replay kernel" in line for line in lines), "the next kernel is not begun"


def test_an_interruption_does_not_wait_for_a_kernel_to_load(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = threading.Event()

    class Loading:
        def __init__(self, path: str, **limits: Any) -> None:
            """Loads for as long as nobody closes it."""

        @property
        def claims(self) -> Any:
            _thread.interrupt_main()
            assert closed.wait(60)

        def close(self) -> None:
            closed.set()

    monkeypatch.setattr(workers, "Worker", Loading)
    with ExitStack() as stack, pytest.raises(KeyboardInterrupt):
        workers.opened(stack, "slow.py:kernel", "cpu", count=1)
    assert closed.is_set()


def test_a_report_that_cannot_be_written_any_more_does_not_hide_the_verdict(
    local: Command, kernel: PathOf, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert local("validate", kernel("lossy"), "--only", "outputs,slow", "--out", "there") == 1
    page = tmp_path / capsys.readouterr().out.split("report: ")[1].strip()
    page.unlink()
    page.mkdir()
    assert local("validate", kernel("lossy"), "--only", "outputs,slow", "--out", "there", "--seed", "1") == 2
    captured = capsys.readouterr()
    assert captured.out.startswith("fail as replay kernel") and "report: " not in captured.out
    assert captured.err == f"replaycheck: report {page.relative_to(tmp_path)} cannot be written: Is a directory\n"
    assert not list(page.parent.glob(".*.part"))


def test_no_report_is_written_over_another(
    local: Command, kernel: PathOf, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Two kernels of one name, and the replay of a case of theirs beside their own reports."""
    assert local("validate", kernel("step"), kernel("step"), "--only", "outputs,slow") == 0
    pages = [line.split("report: ")[1] for line in capsys.readouterr().out.splitlines() if "report: " in line]
    case = next((tmp_path / "replaycheck-report").glob("case-*.json"))
    assert local("replay", str(case), "--kernel", kernel("step")) == 0
    pages.append(capsys.readouterr().out.split("report: ")[1].strip())
    assert len(set(pages)) == 3 and all((tmp_path / page).with_suffix(".json").is_file() for page in pages)
    assert pages[1] == pages[0].replace(".html", "-2.html") and case.stem in pages[2]


def test_names_that_are_not_utf_8_can_be_reported(
    local: Command, kernel: PathOf, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = os.fsdecode(b"out-\xff")
    sys.stdout.reconfigure(encoding="ascii")        # type: ignore[union-attr]
    assert local("validate", kernel("step"), "--only", "outputs,slow", "--out", out) == 0
    assert "report: out-\\udcff/" in capsys.readouterr().out
    assert list((tmp_path / out).glob("*.html"))


def test_a_case_that_moves_no_token_proves_nothing(
    local: Command, kernel: PathOf, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "still.json"
    Case(name="still", heads=2, head_dim=16, state_dim=16, slots=1, schedule=plain(1, 0)).save(path)
    assert local("replay", str(path), "--kernel", kernel("step")) == 3
    assert "nothing was measured for outputs" in capsys.readouterr().out


@pytest.mark.parametrize("what", LISTS)
def test_what_there_is_can_be_listed(what: str, local: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert local("list", what) == 0
    names = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    known = {"kernels": {"mamba2-step", "mamba2-replay", "mamba2-verify", "mamba2-saving", "gdn-step", "gdn-replay", "gdn-replay-bf16",
                         "kda-step", "kda-replay", "kda-replay-bf16"},
             "recurrences": {"mamba2", "gdn", "kda"},
             "layers": set(PRESETS), "regimes": {*REGIMES, *DELTA_REGIMES},
             "checks": set(CHECKS), "suites": set(SUITES)}[what]
    assert known <= names


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Writes a trace of a right kernel, its end bits off by a share."""
    case = Case(name="traced", heads=2, head_dim=16, state_dim=16, capacity=3, slots=1, seed=3, schedule=plain(1, 7))
    played = play(REPLAY, case)

    def written(name: str, *, off: float = 0.0, windows: int | None = None) -> Path:
        path = tmp_path_factory.mktemp("traces") / name
        kept = [replace(w, end=None if w.end is None else w.end * (1 + off)) for w in played.windows[:windows]]
        write_trace(path, claims=REPLAY.claims, layers=[case.layer(0)], windows=kept)
        return path

    return written


def test_a_trace_is_judged_without_a_kernel(trace: Callable[..., Path], local: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert local("judge", str(trace("good.safetensors"))) == 0
    assert capsys.readouterr().out.startswith("pass as trace of a replay kernel  ")
    assert local("judge", str(trace("bad.safetensors", off=2.0**-14))) == 1
    captured = capsys.readouterr().out
    assert captured.startswith("fail as trace of a replay kernel")
    assert "fail  state: acts as if the start state had a weight off" in captured


def test_a_trace_that_cannot_be_read_is_one_line(
    trace: Callable[..., Path], local: Command, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    whole = trace("whole.safetensors").read_bytes()
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(whole[: len(whole) // 2])
    for path in (broken, tmp_path / "absent.safetensors"):
        assert local("judge", str(path)) == 2
        captured = capsys.readouterr()
        assert captured.out == "" and captured.err.startswith(f"replaycheck: trace {path} cannot be read: ")
        assert len(captured.err.splitlines()) == 1
    assert not list(tmp_path.glob("replaycheck-report/*"))


def test_the_numbers_of_a_pass_do_not_depend_on_the_threads_of_torch(
    local: Command, kernel: PathOf, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        assert local("validate", kernel("step"), "--only", "windows,fast") == 0
        found.append(capsys.readouterr().out.split("worst ")[1].split(")")[0])
    assert found[0] == found[1]
