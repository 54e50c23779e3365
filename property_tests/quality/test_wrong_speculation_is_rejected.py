"""Every wrong speculative kernel is rejected by name of what it breaks, though the test that public suites have lets it pass."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from judged import TABLE, broken

from replaycheck.cases.case import Case
from replaycheck.contract.claims import Formats
from replaycheck.contract.memory import Memory
from replaycheck.contract.session import Kernel
from replaycheck.faults.drafts import DRAFT_FAULTS, LIVES, speculative_case
from replaycheck.faults.speculation import VERIFY
from replaycheck.judge.relations import determinism, drafts, exact, isolation, movement, poison
from replaycheck.judge.windows import judge_play
from replaycheck.play.source import InProcess
from replaycheck.verdict.causes import nearest_cause
from replaycheck.verdict.measurement import Measurement

RELATIONS = (poison, isolation, movement, determinism, exact, drafts)


def measured(kernel: Kernel, case: Case) -> list[Measurement]:
    """Findings of every play, window checks and every relation check of one case."""
    source = InProcess(kernel)
    play = source.play(case)
    relations = [m for relation in RELATIONS for m in relation.check(source, case)]
    return [*play.findings, *judge_play(play, kernel.claims, TABLE), *relations]


@cache
def of(name: str) -> list[Measurement]:
    return measured(DRAFT_FAULTS[name].kernel, DRAFT_FAULTS[name].case)


def passes_one_window_from_zero(kernel: Kernel) -> bool:
    """One request in slot 1 of memory full of zeros, one window of fixed length, all accepted: outputs within 1e-2 of plain recurrence."""
    case = speculative_case("naive", life="from zero")
    layer, tokens = case.layer(0), case.tokens(0, 0)[slice(0, 3)]
    memory = Memory("cpu", on_alloc=lambda view: view.zero_())
    session = kernel.open([layer], formats=Formats(state="fp32", activation="fp32", output="fp32"), capacity=5, slots=2, memory=memory,
                          seed=0, window=3)
    session.admit(1, None)
    out = torch.zeros(3, layer.heads, layer.head_dim)
    session.begin([(1, 3)])
    session.run(0, tokens, out)
    session.commit([None])
    state, wanted = torch.zeros(layer.state_shape, dtype=torch.float64), []
    for t in range(3):
        dt = torch.nn.functional.softplus(tokens.dt[t].double() + (0 if layer.dt_bias is None else layer.dt_bias.double()))
        B, C = (getattr(tokens, name)[t].double()[layer.group_of_head()] for name in ("B", "C"))
        x = tokens.x[t].double()
        state = torch.exp(layer.decay.double() * dt)[:, None, None] * state + (dt[:, None] * x)[:, :, None] * B[:, None, :]
        skip = layer.skip_of_rows()
        wanted.append((state * C[:, None, :]).sum(-1) + (0 if skip is None else skip.double() * x))
    return bool(torch.allclose(out.double(), torch.stack(wanted), atol=1e-2))


@pytest.mark.parametrize("name", DRAFT_FAULTS)
def test_a_wrong_kernel_is_rejected_and_its_broken_guarantee_is_nearest_the_cause(name: str) -> None:
    fault, failed = DRAFT_FAULTS[name], broken(of(name))
    assert fault.guarantee in failed, f"{fault.story}: broke {failed or 'nothing'}"
    assert fault.guarantee in nearest_cause(failed), f"{fault.story}: broke {failed}"
    assert all(m.diagnosis for m in of(name) if m.guarantee == fault.guarantee and not m.passed)


@pytest.mark.parametrize("name", DRAFT_FAULTS)
def test_one_window_of_one_request_in_clean_memory_does_not_see_it(name: str) -> None:
    assert passes_one_window_from_zero(DRAFT_FAULTS[name].kernel)


@pytest.mark.parametrize("life", LIVES)
def test_the_right_kernel_passes_the_lives_of_all_faults(life: str) -> None:
    for fields in ({}, {"layers": 2, "capacity": 3 + len(life) % 4}):
        assert not broken(measured(VERIFY, speculative_case("right", life=life, **fields)))


def test_every_fault_tells_a_story_of_its_own() -> None:
    assert len({fault.story for fault in DRAFT_FAULTS.values()}) == len(DRAFT_FAULTS) >= 25
