"""`replaycheck init`: what it writes runs, passes, is collected by pytest, and is never written over."""

from __future__ import annotations

from pathlib import Path

import pytest

from replaycheck.cli import main
from replaycheck.contract.claims import Claims
from replaycheck.contract.resolve import resolve
from replaycheck.faults.base import REPLAY
from replaycheck.play.source import InProcess
from replaycheck.scaffold import made_of, write_scaffold
from replaycheck.verdict.checks import Selection
from replaycheck.verdict.run import run_suite
from replaycheck.verdict.suites import SUITES
from replaycheck_reference.gauge.functions import load_table


@pytest.mark.parametrize("kind", ["step", "replay"])
def test_what_is_written_runs_and_passes(kind: str, tmp_path: Path) -> None:
    written = write_scaffold(made_of("mine", kind), tmp_path / "new")
    assert all(path.is_file() and purpose for path, purpose in written) and len(written) == 4
    kernel = resolve(f"{tmp_path / 'new' / 'mine.py'}:kernel")
    assert kernel.claims == Claims.load(tmp_path / "new" / "mine.claims.json")
    chosen = Selection(regimes=frozenset({"trained-like", "bend", "erase", "readout"}))
    run = run_suite([InProcess(kernel)], SUITES["quick"], kernel="mine", table=load_table("numpy"), selection=chosen)
    assert not run.failures and run.verdict.exit_code == 0, run.verdict.reasons


def test_the_command_leaves_a_first_report(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("replaycheck.cli.workers.Worker", lambda path, **options: _Local(path))
    assert main(["init", "mine", "--kind", "replay"]) == 0
    shown = capsys.readouterr().out
    assert "pass as replay kernel  mine/mine.py:kernel" in shown and (tmp_path / "mine" / "report" / "mine.html").is_file()

    before = {path: path.read_bytes() for path in (tmp_path / "mine").glob("*.*")}
    assert main(["init", "mine"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "replaycheck: file mine/mine.py exists and is not written over; give another --out\n" and captured.out == ""
    assert before == {path: path.read_bytes() for path in (tmp_path / "mine").glob("*.*")}


class _Local(InProcess):
    """A worker without a process, for a base kernel in place of the slower skeleton, of the same name."""

    def __init__(self, path: str) -> None:
        super().__init__(_Named())

    def close(self) -> None:
        """Nothing to end."""


class _Named:
    claims = Claims.from_json({**REPLAY.claims.to_json(), "name": "mine", "states": ["fp32"], "activations": ["fp32"], "outputs": ["fp32"]})
    open = staticmethod(REPLAY.open)


def test_its_tests_are_a_suite_of_the_plugin(tmp_path: Path) -> None:
    write_scaffold(made_of("mine", "step"), tmp_path)
    names: dict[str, object] = {"__file__": str(tmp_path / "test_mine.py")}
    exec((tmp_path / "test_mine.py").read_text(), names)
    assert hasattr(names["Testmine"], "test_guarantee") and hasattr(names["Testmine"], "test_the_suite_proves_enough")


@pytest.mark.parametrize(("arguments", "says"), [
    (["init"], "NAME"), (["init", "my-kernel"], "must be a name that Python can import, got 'my-kernel'"),
    (["init", "torch"], "would hide the module 'torch'"), (["init", "class"], "got 'class'"),
    (["init", "mine", "--kind", "verify"], "'verify'"), (["init", "mine", "--out", ""], "--out: must name a directory"),
    (["init", "mine", "--out", "taken/below"], "output directory taken/below cannot be written"),
])
def test_a_wrong_argument_is_one_line(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("a file, not a directory")
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert says in captured.err and len(captured.err.splitlines()) == 1 and captured.out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken"]
