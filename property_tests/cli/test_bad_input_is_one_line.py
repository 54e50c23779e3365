"""What a user gets wrong is one line that names the thing and the value, exit code 2, and no report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from replaycheck.cases.case import Case
from replaycheck.cases.schedule import plain

Command = Callable[..., int]
PathOf = Callable[[str], str]
CASE = Case(name="small", heads=2, head_dim=16, state_dim=16, capacity=2, schedule=plain(1, 3))

#: A child process sees the modules that this one sees.
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def said(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert captured.out == "" and len(captured.err.splitlines()) == 1 and "Traceback" not in captured.err
    return captured.err.strip()


@pytest.mark.parametrize(("arguments", "names"), [
    (["validate", "k.py:k", "--suite", "quik"], ["--suite 'quik' is not known", "quick, merge, deep"]),
    (["validate", "k.py:k", "--suite", "deep"], ["--suite deep runs until its time is out", "--budget SECONDS"]),
    (["validate", "k.py:k", "--only", "windows,poisin"], ["--only 'poisin'", "poison", "trained-like"]),
    (["validate", "k.py:k", "--budget", "-3"], ["--budget", "-3"]),
    (["validate", "k.py:k", "--budget", "soon"], ["--budget: must be a positive number of seconds, got 'soon'"]),
    (["validate", "k.py:k", "--only", ""], ["--only: must name a check", "got ''"]),
    (["validate", "k.py:k", "--only", " ,"], ["--only: must name a check", "got ' ,'"]),
    (["validate", "k.py:k", "--out", ""], ["--out: must name a directory", "got ''"]),
    (["validate", "k\n.py:k"], ["kernel 'k\\n.py:k': there is no file k .py"]),
    (["validate", "k" * 300 + ".py:k"], ["there is no file kkk"]),
    (["validate", "k.py:k", "--seed", "x"], ["--seed", "'x'"]),
    (["validate", "k.py:k", "--device", "tpu"], ["--device", "'tpu'"]),
    (["validate", "k.py:k", "--recording", "no.safetensors"], ["recording no.safetensors cannot be read: No such file"]),
    (["validate", "k.py:k", "--recording", "trained-here", "--suite", "quick"], ["--recording is played instead of a suite", "quick"]),
    (["validate", "k.py:k", "--recording", "trained-here", "--only", "slow"], ["--only slow is a regime; a recording has none"]),
    (["record", "no-model", "r.safetensors"], ["model 'no-model' is neither"]),
    (["record", "trained", "r.safetensors", "--text", "no.txt"], ["text no.txt cannot be read"]),
    (["record", "trained", "r.safetensors", "--tokens", "99999"], ["the text has", "tokens"]),
    (["record", "trained", "r.safetensors", "--tokens", "0"], ["--tokens", "'0'"]),
    (["record", "trained", "r.safetensors", "--tokens", "9", "--every", "4"], ["every must be at least the 9 tokens of a stretch, got 4"]),
    (["validate"], ["KERNEL"]),
    (["validate", "k.py:k"], ["kernel 'k.py:k': there is no file k.py"]),
    (["validate", "no.such.module:k"], ["kernel 'no.such.module:k': there is no module no.such.module"]),
    (["validate", "mamba3"], ["kernel 'mamba3' is neither", "mamba2-replay"]),
    (["validate", "replaycheck.contract.claims:GUARANTEES"], ["kernel 'replaycheck.contract.claims:GUARANTEES' is a dict"]),
    (["replay", "no.json", "--kernel", "k.py:k"], ["case no.json cannot be read: No such file"]),
    (["replay", "no.json"], ["--kernel"]),
    (["judge", "no.safetensors"], ["trace no.safetensors cannot be read"]),
    (["list", "kernel"], ["'kernel'", "kernels"]),
    (["merge"], ["'merge'", "validate"]),
    ([], ["COMMAND"]),
])
def test_a_wrong_argument_is_named(arguments: list[str], names: list[str], local: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert local(*arguments) == 2
    line = said(capsys)
    assert line.startswith("replaycheck: ")
    for name in names:
        assert name in line


@pytest.mark.parametrize("command", [["validate", "k.py:k"], ["judge", "t.safetensors"], ["replay", "case.json", "--kernel", "k.py:k"]])
def test_an_unwritable_output_directory_is_found_before_the_run(
    command: list[str], local: Command, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    CASE.save(tmp_path / "case.json")
    monkeypatch.setattr("replaycheck.cli.judge.read_trace", lambda path: None)
    (tmp_path / "taken").write_text("a file, not a directory")
    assert local(*command, "--out", "taken/below") == 2
    assert said(capsys).startswith("replaycheck: output directory taken/below cannot be written: ")


@pytest.mark.parametrize(("change", "names"), [
    ({"heads": 0}, ["heads", "0"]), ({"regime": "wild"}, ["regime", "'wild'"]), ({"seed": "x"}, ["seed", "'x'"]),
    ({"schedule": [["jump"]]}, ["jump"]), ({"schedule": [[["admit"], 0]]}, ["step 0", "[['admit'], 0]"]),
    ({"heads": 10**9}, ["elements", "heads 1000000000"]), ({"layers": 10**30}, ["elements", "layers 1"]),
    ({"schedule": [["admit", 0, 0, "zero"], ["forward", [[0, 10**9]]]]}, ["elements", "tokens 1000000000"]),
    ({"schedule": [["forward", [[-1, 10**9]]]]}, ["elements", "tokens 1000000000"]),
    ({"digest": "0" * 64}, ["digest"]), ({"extra": 1}, ["extra"]), ({"format": "other/9"}, ["format", "other/9"]),
])
def test_a_case_that_says_something_impossible_is_named(
    change: dict[str, object], names: list[str], local: Command, kernel: PathOf, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "case.json"
    path.write_text(json.dumps({**CASE.to_json(), **change}))
    assert local("replay", str(path), "--kernel", kernel("right")) == 2
    line = said(capsys)
    assert line.startswith(f"replaycheck: case {path}")
    for name in names:
        assert name in line


def test_a_truncated_case_is_not_json(local: Command, kernel: PathOf, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_text(json.dumps(CASE.to_json())[:-20])
    assert local("replay", str(path), "--kernel", kernel("right")) == 2
    assert said(capsys).startswith(f"replaycheck: case {path} is not JSON")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"seed": ' + "9" * 5000 + "}", ""])
def test_text_that_json_cannot_hold_is_not_json(
    text: str, local: Command, kernel: PathOf, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "case.json"
    path.write_text(text)
    assert local("replay", str(path), "--kernel", kernel("right")) == 2
    assert said(capsys).startswith(f"replaycheck: case {path} is not JSON")


def test_a_case_outside_the_claims_is_a_usage_error(
    local: Command, kernel: PathOf, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "case.json"
    Case(name="large", heads=2, head_dim=16, state_dim=16, capacity=4096, schedule=plain(1, 2)).save(path)
    assert local("replay", str(path), "--kernel", kernel("right")) == 2
    assert "capacity 4096" in said(capsys)


def test_a_fault_of_the_checker_itself_is_no_verdict(
    local: Command, kernel: PathOf, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*arguments: object, **options: object) -> object:
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setattr("replaycheck.verdict.crew.measure", fail)
    assert local("validate", kernel("right"), "--out", "there") == 4
    assert said(capsys) == "replaycheck: replaycheck itself failed: ZeroDivisionError: a bug of ours"
    assert not list((tmp_path / "there").iterdir())


def test_the_real_command_judges_a_real_worker(kernel: PathOf, tmp_path: Path) -> None:
    """One whole run as a user starts it: `python -m replaycheck`, a worker process each."""
    command = [sys.executable, "-m", "replaycheck", "validate", kernel("step"), "--only", "outputs,contract,slow", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=ENVIRONMENT)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("pass as step kernel")


@pytest.mark.parametrize(("redirection", "code"), [(">&-", 0), (">/dev/full", 2), ("| true", 0)])
def test_a_closed_or_full_stdout_is_no_fault_of_the_checker(redirection: str, code: int) -> None:
    command = f"set -o pipefail; '{sys.executable}' -m replaycheck list regimes {redirection}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, env=ENVIRONMENT)
    assert done.returncode == code
    assert done.stderr == ("" if code == 0 else "replaycheck: standard output cannot be written: No space left on device\n")


def test_the_traceback_of_a_module_that_fails_is_shown_when_asked_for(
    local: Command, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text("raise OSError('no such luck')\n")
    assert local("validate", "broken.py:k", "--traceback") == 2
    assert "line 1, in <module>" in capsys.readouterr().err
    assert local("validate", "broken.py:k") == 2
    assert said(capsys).endswith("raised OSError: no such luck")
