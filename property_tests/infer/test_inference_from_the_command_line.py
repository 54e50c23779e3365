"""`replaycheck infer` as a user runs it: a Triton kernel in a worker, a claims file to review, nothing written over."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from replaycheck.cli import main
from replaycheck.contract.claims import Claims
from replaycheck.infer.infer import infer

ROOT = Path(__file__).parents[2]
KERNEL = f"{ROOT / 'examples' / 'my_kernel.py'}:kernel"


def test_a_triton_kernel_is_inferred_and_its_claims_are_never_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("replaycheck.cli.infer.inferred", partial(infer, regimes=("bend",)))
    assert main(["infer", KERNEL, "--out", "found"]) == 0
    shown = capsys.readouterr().out
    claims = Claims.load(tmp_path / "found" / "my-kernel.claims.json")
    assert claims.policy.softplus.form == "naive" and claims.policy.paths["step"].token == "fp32"
    assert "softplus" in shown and "determined: relative, 64 units is rejected in probe-dt" in shown
    findings = json.loads((tmp_path / "found" / "my-kernel.inferred.json").read_text())
    assert findings["unexplained"] == [] and findings["claims"] == json.loads(json.dumps(claims.to_json()))
    if not findings["notes"]:       # the instructions were read
        assert claims.policy.ftz

    assert main(["infer", KERNEL, "--out", "found"]) == 2
    line = capsys.readouterr().err
    assert line == "replaycheck: claims file found/my-kernel.claims.json exists and is not written over; give another --out\n"


@pytest.mark.parametrize(("arguments", "says"), [
    (["infer"], "KERNEL"), (["infer", "no.py:k"], "there is no file no.py"), (["infer", KERNEL, "--seed", "-1"], "--seed"),
    (["infer", KERNEL, "--out", ""], "--out: must name a directory"),
])
def test_a_wrong_argument_is_one_line(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path,
                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert says in captured.err and len(captured.err.splitlines()) == 1 and captured.out == ""
