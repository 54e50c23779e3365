"""Recordings as cases: they make the recorded bits, name the file by its digest, and refuse what is not there."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, save

from replaycheck.cases.case import Case
from replaycheck.cases.recordings import SHIPPED, RecordingFile, read_recording, write_recording
from replaycheck.cases.schedule import Admit, Forward, mixed, plain, restarted
from replaycheck.contract.claims import Formats
from replaycheck.contract.errors import UsageError
from replaycheck.faults.base import REPLAY
from replaycheck.faults.faults import FAULTS
from replaycheck.judge.relations import exact
from replaycheck.play.source import InProcess
from replaycheck.play.wire import dumps, loads
from replaycheck.verdict.checks import select
from replaycheck.verdict.recorded import RecordedPlan
from replaycheck.verdict.run import run_recording
from replaycheck_reference.formats.arrays import TORCH_DTYPE
from replaycheck_reference.gauge.functions import envelope

SHIPPED_FILE = SHIPPED["trained-here"]


def shipped() -> RecordingFile:
    return RecordingFile.of("trained-here")


def case(**change: Any) -> Case:
    layer = shipped().read().of("mamba2")[0]
    assert layer.variant is not None
    made: dict[str, Any] = {"name": "recorded", **layer.dims, "variant": layer.variant, "capacity": 4, "slots": 2, "layers": 2,
                            "regime": "recorded", "schedule": restarted(plain(2, 6), "prefill"), "recording": shipped()}
    return Case(**{**made, **change})


def test_a_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    known = read_recording("trained-here")
    write_recording(tmp_path / "again.safetensors", known)
    again = read_recording(tmp_path / "again.safetensors")
    assert (again.source, again.tokens, again.stretches) == (known.source, known.tokens, known.stretches)
    assert (tmp_path / "again.safetensors").read_bytes() == SHIPPED_FILE.read_bytes()


def test_the_shipped_recording_is_small_and_says_what_it_is() -> None:
    recording = read_recording("trained-here")
    assert SHIPPED_FILE.stat().st_size <= 2_000_000 and "trained here" in recording.source
    assert len(recording.of("mamba2")) == 2 and all(start is not None for layer in recording.layers for start in layer.starts)


@pytest.mark.parametrize("form", ["fp32", "bf16"])
def test_a_case_makes_the_recorded_bits(form: str) -> None:
    made, recorded = case(formats=Formats(state=form, activation=form, output=form)), read_recording("trained-here").of("mamba2")[1]
    start = recorded.starts[1]
    assert start is not None
    assert torch.equal(made.start(1, 1), start.to(TORCH_DTYPE[form]))       # type: ignore[arg-type]
    for name, value in recorded.stretches[1].items():
        assert torch.equal(getattr(made.tokens(1, 1), name), value[:6].to(TORCH_DTYPE[form]))
    assert torch.equal(made.layer(1).decay, recorded.parameters["decay"])


def test_a_saved_case_names_the_recording_and_replays(tmp_path: Path) -> None:
    copied = tmp_path / "mine.safetensors"
    copied.write_bytes(SHIPPED_FILE.read_bytes())
    made = case(recording=RecordingFile.of(str(copied)))
    assert (made.id, made.digest) == (case().id, case().digest)             # the same bits wherever the file lies
    made.save(tmp_path / "case.json")
    assert json.loads((tmp_path / "case.json").read_text())["recording"]["sha256"] == made.recording.sha256      # type: ignore[union-attr]
    assert Case.load(tmp_path / "case.json") == made == loads(dumps(made))
    data = bytearray(copied.read_bytes())
    data[-1] ^= 1
    copied.write_bytes(data)
    from replaycheck.cases import recordings
    recordings._read.cache_clear()
    with pytest.raises(UsageError, match=r"case .*case.json: recording .*mine.safetensors has SHA-256 .*: the file changed"):
        Case.load(tmp_path / "case.json")


@pytest.mark.parametrize(("change", "says"), [
    ({"heads": 8}, "heads must be that of the recording, 4, got 8"),
    ({"regime": "slow"}, "regime .*recorded.*slow"),
    ({"layers": 3}, r"layers must be in 1\.\.2"),
    ({"schedule": plain(1, 4)}, "start of request 0 .*'prefill'.*random"),
    ({"schedule": restarted(plain(1, 999), "prefill")}, "a request consumes 999 tokens; the recording has"),
    ({"recording": None}, "start of request 0"),
    ({"recording": None, "schedule": plain(1, 4)}, "recorded.*recording"),
])
def test_what_the_recording_does_not_have_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        case(**change)


def change_tensor(name: str, to: Callable[[torch.Tensor], torch.Tensor | None]) -> Callable[[bytes], bytes]:
    def changed(data: bytes) -> bytes:
        tensors = load(data)
        made = to(tensors.pop(name))
        header = json.loads(data[8: 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
        return save({**tensors, **({} if made is None else {name: made})}, header)
    return changed


@pytest.mark.parametrize(("broken", "says"), [
    (lambda data: data[: len(data) // 2], "cannot be read|truncated"),
    (lambda data: b"", "no safetensors file"),
    (lambda data: b"not a recording at all", "no safetensors file"),
    (lambda data: data.replace(b"replaycheck-recording/1", b"replaycheck-recording/9"), "format must be"),
    (lambda data: save({"x": torch.zeros(2)}), "metadata 'replaycheck' is missing"),
    (change_tensor("stretch.0.layer.0.x", lambda t: None), "tensor 'stretch.0.layer.0.x' is missing"),
    (change_tensor("stretch.0.layer.0.B", lambda t: t[:-1].clone()), "tensor 'stretch.0.layer.0.B' must have shape"),
    (change_tensor("layer.0.decay", lambda t: t.double()), "tensor 'layer.0.decay' must be fp32"),
    (change_tensor("stretch.1.layer.2.start", lambda t: t / 0), "tensor 'stretch.1.layer.2.start' must be finite"),
    (lambda data: data.replace(b'\\"gdn\\"', b'\\"gdm\\"', 1), "recurrence must be one of mamba2, gdn, got 'gdm'"),
])
def test_a_broken_recording_is_one_line(tmp_path: Path, broken: Callable[[bytes], bytes], says: str) -> None:
    path = tmp_path / "r.safetensors"
    path.write_bytes(broken(SHIPPED_FILE.read_bytes()))
    with pytest.raises(UsageError, match=f"recording .*r.safetensors.*({says})") as found:
        RecordingFile.of(str(path))
    assert "\n" not in str(found.value)


def test_prefills_are_handed_over_while_others_decode() -> None:
    """The case family of the hand-off: a life of a pool in which slots are admitted again with the final states of prefills."""
    jobs = [job for job in RecordedPlan(recording=shipped(), claims=REPLAY.claims).jobs() if "movement" in job.checks]
    assert jobs
    for job in jobs:
        ops = job.case.schedule
        late = [op for op in ops[next(i for i, op in enumerate(ops) if isinstance(op, Forward)):] if isinstance(op, Admit)]
        assert late and "prefill" in {op.start for op in ops if isinstance(op, Admit)} <= {"prefill", "zero"}


def test_the_representable_twin_of_a_recorded_case_is_drawn() -> None:
    made = exact.representable(case(schedule=restarted(mixed(3, slots=2, forwards=4), "prefill")))
    assert made is not None and made.recording is None and made.law.exact


def test_a_right_kernel_passes_a_recording_and_a_wrong_one_fails() -> None:
    def verdict(kernel: Any) -> tuple[str, set[str]]:
        source = InProcess(kernel)
        claims = replace(source.claims, states=("fp32",), activations=("bf16",), outputs=("bf16",), capacities=(4, 4))
        plan = RecordedPlan(recording=shipped(), claims=claims, selection=select(["windows", "movement"]))
        run = run_recording([source], plan, kernel="k", table=envelope())
        return run.verdict.status, {f.measurement.guarantee for f in run.failures}

    assert verdict(REPLAY) == ("pass", set())
    status, broken = verdict(FAULTS["token-lost-at-flush"].kernel)
    assert status == "fail" and "state" in broken
