"""`replaycheck drift`."""

from __future__ import annotations

from pathlib import Path

import pytest

from replaycheck.cli import main

SMALL = ("drift", "--formats", "bf16", "--periods", "1,4", "--half-lives", "100", "--steps", "200", "--processes", "1")


def test_a_grid_is_run_printed_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].split()[:5] == ["format", "rounding", "L", "drive", "half-life"]
    assert sum(line.startswith("bf16") for line in out) == 8
    assert any("8 cells of 256 elements, 200 steps" in line for line in out)
    assert any("balls" in line for line in out) and not any("REFUTED" in line for line in out)
    assert (tmp_path / "drift.md").read_text().count("| bf16 |") == 8
    assert main([*SMALL, "--out", str(tmp_path)]) == 0      # nothing is left to run, the same is said
    assert capsys.readouterr().out.splitlines()[:9] == out[:9]


@pytest.mark.parametrize(("arguments", "names"), [
    (["--formats", "fp12"], ["format must be one of", "'fp12'"]),
    (["--decays", "1.5"], ["decay must be between 0 and 1, got 1.5"]),
    (["--decays", "x"], ["--decays", "'x'"]),
    (["--half-lives", "-3"], ["--half-lives", "'-3'"]),
    (["--periods", "0"], ["period must be at least 1, got 0"]),
    (["--elements", "100"], ["elements must be a multiple of 256, got 100"]),
    (["--drives", ","], ["--drives", "','"]),
])
def test_a_wrong_argument_is_named_in_one_line(
    arguments: list[str], names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["drift", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and len(captured.err.splitlines()) == 1 and not list(tmp_path.iterdir())
    for name in names:
        assert name in captured.err
