"""The player sees what only it can see, names it, and goes on from the bits it carries."""

from typing import Any

import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from replaycheck.cases.case import Case
from replaycheck.cases.events import Admit, Copy, Forward, Release, Restore
from replaycheck.cases.schedule import mixed, plain
from replaycheck.contract.bits import same_bits
from replaycheck.contract.claims import Formats
from replaycheck.contract.errors import UsageError
from replaycheck.contract.memory import POISONS
from replaycheck.contract.session import PAD, Stored
from replaycheck.faults.base import REPLAY_CLAIMS, STEP_CLAIMS
from replaycheck.faults.host import HostKernel, ReplaySession, StepSession
from replaycheck.play.player import play
from replaycheck.play.result import Play
from replaycheck.verdict.measurement import Measurement

BOTH = Forward(((0, 1), (1, 1)))
FIRST = Forward(((0, 1),))


def _case(schedule: Any, *, capacity: int = 1, slots: int = 3, **fields: Any) -> Case:
    return Case(name="player", heads=2, head_dim=4, state_dim=4, capacity=capacity, slots=slots, schedule=schedule,
                **{"formats": Formats(activation="fp32", output="fp32"), **fields})


def _step(**methods: Any) -> HostKernel:
    """The right step kernel with these methods in the place of its own."""
    return HostKernel(claims=STEP_CLAIMS, session=type("Session", (StepSession,), methods))


def _replay(**methods: Any) -> HostKernel:
    return HostKernel(claims=REPLAY_CLAIMS, session=type("Session", (ReplaySession,), methods))


def _failed(made: Play) -> dict[str, Measurement]:
    return {m.guarantee: m for m in made.findings if not m.passed}


# -- right kernels

@examples(15)
@given(seed=st.integers(0, 1000), capacity=st.integers(1, 6), layers=st.integers(1, 2), poison=st.sampled_from(POISONS))
def test_a_right_replay_kernel_has_no_findings_and_its_windows_tile_its_tokens(seed: int, capacity: int, layers: int, poison: str) -> None:
    case = _case(mixed(seed, slots=3, forwards=10, idle=True), capacity=capacity, layers=layers)
    made = play(_replay(), case, poison=poison)
    assert not _failed(made) and all(m.facts["compared"] > 0 for m in made.findings) and not made.stopped
    for (request, layer), outputs in made.outputs.items():
        windows = [w for w in made.windows if (w.request, w.layer) == (request, layer)]
        first = windows[0].position if windows else len(outputs)
        for window in windows:
            assert window.position == first
            assert same_bits(window.outputs, outputs[first:first + len(window.tokens)])
            assert same_bits(window.tokens.x, case.tokens(request, layer).x[first:first + len(window.tokens)])
            first += len(window.tokens)
        assert first == len(outputs) == case.lengths[request]
        assert [w.position + len(w.tokens) for w in windows if w.end is not None] == \
            [position for position, _ in made.published[request, layer] if windows and position > windows[0].position]


def test_paths_name_the_steps_that_fold() -> None:
    (window, rest) = play(_replay(), _case(plain(1, 5), capacity=3)).windows
    assert window.paths == ("output", "output", "flush") and window.steps == (1, 2, 3) and window.end is not None
    assert rest.paths == ("output", "output") and rest.position == 3 and rest.end is None and same_bits(rest.start, window.end)
    assert {w.paths for w in play(_step(), _case(plain(1, 2))).windows} == {("step",)}


def test_a_copy_goes_on_from_the_state_and_the_pending_tokens_of_its_source() -> None:
    case = _case((Admit(0, 0), FIRST, FIRST, Copy(0, 2, 1), Forward(((2, 1),)), Release(0), Forward(((2, 1),))), capacity=3)
    made = play(_replay(), case)
    assert not _failed(made)
    copy = next(w for w in made.windows if w.request == 1 and w.end is not None)
    source = next(w for w in made.windows if w.request == 0)
    assert len(copy.tokens) == 3 and same_bits(copy.outputs[:2], source.outputs) and same_bits(copy.start, source.start)
    assert same_bits(made.outputs[1, 0][:2], made.outputs[0, 0])


def test_a_restored_request_keeps_its_positions() -> None:
    case = _case((Admit(0, 0), FIRST, FIRST, Restore(0), FIRST, FIRST, FIRST), capacity=2)
    made = play(_replay(), case)
    assert not _failed(made) and [position for position, _ in made.published[0, 0]] == [2, 4]
    assert made.settled == [(2, 0), (5, 0)]


def test_a_restore_with_pending_tokens_is_refused() -> None:
    with pytest.raises(UsageError, match=r"step 2 restores slot 0, where 1 committed token\(s\) are not published yet"):
        play(_replay(), _case((Admit(0, 0), FIRST, Restore(0)), capacity=2))


def test_a_case_outside_the_claims_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"needs capacity 2; kernel host-step claims 1\.\.1"):
        play(_step(), _case(plain(1, 1), capacity=2))


# -- write-set

def _writes_neighbour(self: Any, layer: int, tokens: Any, out: Any) -> None:
    StepSession.run(self, layer, tokens, out)
    self.states[layer][1, 0, 0, :2] = 3


def _writes_past_the_pool(self: Any, layer: int, tokens: Any, out: Any) -> None:
    StepSession.run(self, layer, tokens, out)
    pool = self.states[layer]
    torch.as_strided(pool, (1,), (1,), pool.storage_offset() - 4).fill_(1)


def _writes_tokens(self: Any, layer: int, tokens: Any, out: Any) -> None:
    StepSession.run(self, layer, tokens, out)
    tokens.B.mul_(2)


def _writes_parameters(self: Any, layer: int, tokens: Any, out: Any) -> None:
    StepSession.run(self, layer, tokens, out)
    self.layers[layer].dt_bias.add_(1)


def _writes_beside_the_output(self: Any, layer: int, tokens: Any, out: Any) -> None:
    StepSession.run(self, layer, tokens, out)
    torch.as_strided(out, (1,), (1,), out.storage_offset() + out.numel()).fill_(0)


def _stored_writes(self: Any, slot: int, layer: int) -> Stored:
    self.folded[2] += 1
    return StepSession.stored(self, slot, layer)


def _begin_resets(self: Any, rows: Any) -> None:
    StepSession.begin(self, rows)
    self.folded[2] = 9


@pytest.mark.parametrize(("method", "function", "buffer", "operation"), [
    ("run", _writes_neighbour, "state.0", "run of layer 0"), ("run", _writes_past_the_pool, "state.0", "run of layer 0"),
    ("run", _writes_tokens, "tokens.B", "run"), ("run", _writes_parameters, "dt_bias of layer 0", "run of layer 0"),
    ("run", _writes_beside_the_output, "out", "run"),
    ("stored", _stored_writes, "folded", "stored"), ("begin", _begin_resets, "folded", "begin"),
])
def test_a_write_outside_the_named_slots_is_found_and_named(method: str, function: Any, buffer: str, operation: str) -> None:
    schedule = (Admit(0, 0), Admit(1, 1), FIRST, FIRST)
    found = _failed(play(_step(**{method: function}), _case(schedule)))["write-set"]
    assert found.place["buffer"] == buffer and found.place["operation"] == operation and found.value > 0
    assert found.diagnosis.startswith(operation)


def test_scratch_is_not_in_the_write_set_but_holds_nothing_from_one_forward_to_the_next() -> None:
    class Remembers(StepSession):
        def __init__(self, layers: Any, **arguments: Any) -> None:
            super().__init__(layers, **arguments)
            self.kept = arguments["memory"].alloc("kept", (1,), torch.float32, role="scratch")

        def run(self, layer: int, tokens: Any, out: Any) -> None:
            super().run(layer, tokens, out)
            out += float(self.kept[0])
            self.kept[0] = 0

    made = play(HostKernel(claims=STEP_CLAIMS, session=Remembers), _case(plain(1, 2)), poison="nan")
    assert set(_failed(made)) == {"finite"}


# -- continuity

def test_an_overwrite_between_windows_is_found_and_does_not_move_the_start_of_the_window() -> None:
    def begin(self: Any, rows: Any) -> None:
        ReplaySession.begin(self, rows)
        if self.filled[0] == 1:
            self.states[0][0] += 1

    clean, made = (play(kernel, _case(plain(1, 3), capacity=3)) for kernel in (_replay(), _replay(begin=begin)))
    found = _failed(made)["continuity"]
    assert (found.value, found.place["slot"], found.place["step"], found.place["when"]) == (32, 0, 2, "commit")
    assert same_bits(made.windows[0].start, clean.windows[0].start)
    assert made.windows[0].end is not None and clean.windows[0].end is not None and not same_bits(made.windows[0].end, clean.windows[0].end)


def test_an_overwrite_of_a_slot_that_is_not_in_the_forward_is_found_before_the_next_one() -> None:
    def run(self: Any, layer: int, tokens: Any, out: Any) -> None:
        StepSession.run(self, layer, tokens, out)
        self.states[layer][1, 1, 2, 3] = 0.5

    made = play(_step(run=run), _case((Admit(0, 0), Admit(1, 1), FIRST, FIRST)))
    found = _failed(made)["continuity"]
    assert [found.place[name] for name in ("slot", "request", "step", "head", "row", "column")] == [1, 1, 3, 1, 2, 3]
    assert "0.5 instead of" in found.diagnosis and "between forwards" in found.diagnosis


@pytest.mark.parametrize(("name", "function", "when"), [
    ("admit", lambda self, slot, states: StepSession.admit(self, slot, None), "admit"),
    ("copy", lambda self, src, dst: StepSession.copy(self, src, src), "copy"),
])
def test_a_lost_state_is_found_at_once(name: str, function: Any, when: str) -> None:
    found = _failed(play(_step(**{name: function}), _case((Admit(0, 0), FIRST, Copy(0, 1, 1), BOTH))))["continuity"]
    assert found.place["when"] == when


def test_a_kernel_that_keeps_the_tensors_it_was_admitted_with_is_found() -> None:
    class Keeps(StepSession):
        def admit(self, slot: int, states: Any) -> None:
            super().admit(slot, states)
            self.kept = states

        def stored(self, slot: int, layer: int) -> Stored:
            return Stored(bits=self.kept[layer], folded=0)

    assert "continuity" in _failed(play(HostKernel(claims=STEP_CLAIMS, session=Keeps), _case((Admit(0, 0),))))


def test_a_count_of_folded_tokens_that_nobody_committed_is_found() -> None:
    def stored(self: Any, slot: int, layer: int) -> Stored:
        right = StepSession.stored(self, slot, layer)
        return Stored(bits=right.bits, folded=right.folded + (right.folded == 2))

    found = _failed(play(_step(stored=stored), _case(plain(1, 3))))["continuity"]
    assert found.diagnosis == "slot 0 says that 3 token(s) are folded (commit); it had published 1 of 2"


# -- inputs that are gone, pads, finite values

def test_tokens_do_not_outlive_the_commit() -> None:
    class Late(StepSession):
        """Runs the tokens of the last forward."""

        def run(self, layer: int, tokens: Any, out: Any) -> None:
            super().run(layer, getattr(self, "last", tokens), out)
            self.last = tokens

    late = HostKernel(claims=STEP_CLAIMS, session=Late)
    made = play(late, _case(plain(1, 3)), poison="nan")
    assert not _failed(made).get("finite", made.findings[0]).passed


def test_pad_rows_are_looked_at_only_where_there_are_some() -> None:
    without, with_pads = (play(_step(), _case((Admit(0, 0), Forward(rows)))) for rows in (((0, 1),), ((0, 1), (PAD, 2))))
    assert "pads" not in {m.guarantee for m in without.findings}
    assert next(m for m in with_pads.findings if m.guarantee == "pads").facts["compared"] == 2 * 2 * 4


def _poisons_the_state(self: Any, layer: int, tokens: Any, out: Any) -> None:
    self.states[layer][0] = float("nan")
    out.zero_()


@pytest.mark.parametrize(("function", "said"), [
    (lambda self, layer, tokens, out: None, "8 output element(s) were never written"),
    (lambda self, layer, tokens, out: out.fill_(float("inf")), "8 output element(s) are not finite"),
    (_poisons_the_state, "32 state element(s) are not finite"),
])
def test_missing_and_non_finite_values_are_found(function: Any, said: str) -> None:
    assert _failed(play(_step(run=function), _case(plain(1, 1))))["finite"].diagnosis == said


def test_infinity_in_fp16_is_left_to_the_judge() -> None:
    case = _case(plain(1, 1), formats=Formats(output="fp16"))
    assert "finite" not in _failed(play(_step(run=lambda self, layer, tokens, out: out.fill_(float("inf"))), case))
    assert "finite" in _failed(play(_step(run=lambda self, layer, tokens, out: out.fill_(float("nan"))), case))


def test_every_other_forward_is_handed_strided_tensors() -> None:
    seen: list[bool] = []

    def run(self: Any, layer: int, tokens: Any, out: Any) -> None:
        StepSession.run(self, layer, tokens, out)
        seen.append(out.stride(0) == out.stride(1) * out.shape[1] and tokens.B.is_contiguous())

    made = play(_step(run=run), _case((Admit(0, 0), Admit(1, 1), BOTH, BOTH, BOTH)))
    assert seen == [True, False, True] and not _failed(made)


def test_a_kernel_that_ignores_strides_is_found() -> None:
    def run(self: Any, layer: int, tokens: Any, out: Any) -> None:
        packed = tokens.map(lambda t: torch.as_strided(t, t.shape, torch.empty(t.shape).stride()))
        StepSession.run(self, layer, packed, torch.as_strided(out, out.shape, torch.empty(out.shape).stride()))

    assert "write-set" in _failed(play(_step(run=run), _case((Admit(0, 0), Admit(1, 1), BOTH, BOTH))))
