"""One function is a kernel, and what it returns is checked."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from simple_kernels import CLAIMS, functional, inplace

from replaycheck.cases.case import Case
from replaycheck.cases.events import PAD, Admit, Forward
from replaycheck.cases.schedule import mixed
from replaycheck.contract.bits import same_bits
from replaycheck.contract.errors import KernelError
from replaycheck.contract.simple import from_functional, from_inplace
from replaycheck.play.player import play


def _case(schedule: Any = None, **fields: Any) -> Case:
    return Case(name="simple", **{"heads": 4, "head_dim": 8, "state_dim": 4, "groups": 2, "slots": 3,
                                  "schedule": mixed(3, slots=3, forwards=8, idle=True) if schedule is None else schedule, **fields})


@pytest.mark.parametrize("kernel", [from_functional(functional, CLAIMS), from_inplace(inplace, CLAIMS)])
def test_a_right_function_has_no_findings(kernel: Any) -> None:
    made = play(kernel, _case(), poison="nan")
    assert all(m.passed for m in made.findings) and {m.guarantee for m in made.findings} == {"write-set", "continuity", "pads", "finite"}


def test_both_forms_give_the_same_bits() -> None:
    one, two = (play(kernel, _case()) for kernel in (from_functional(functional, CLAIMS), from_inplace(inplace, CLAIMS)))
    assert all(same_bits(one.outputs[key], two.outputs[key]) for key in one.outputs)


def test_a_row_of_several_tokens_is_those_tokens_one_by_one() -> None:
    admits = (Admit(0, 0), Admit(1, 1))
    packed = _case((*admits, Forward(((1, 3), (PAD, 2), (0, 2)))))
    single = _case((*admits, *[Forward(((0, 1), (1, 1)))] * 2, Forward(((1, 1),))))
    for kernel in (from_functional(functional, CLAIMS), from_inplace(inplace, CLAIMS)):
        one, two = play(kernel, packed), play(kernel, single)
        assert all(m.passed for m in one.findings)
        assert all(same_bits(one.outputs[key], two.outputs[key]) for key in two.outputs)


def test_a_kernel_may_claim_zero_pads_and_is_held_to_it() -> None:
    claims = replace(CLAIMS, pad_output="zero")

    def zeroing(pool: Any, slots: Any, tokens: Any, layer: Any) -> Any:
        out = inplace(pool, slots, tokens, layer)
        out[slots == PAD] = 0
        return out

    def pads(kernel: Any) -> bool:
        return next(m for m in play(kernel, _case()).findings if m.guarantee == "pads").passed

    assert pads(from_functional(functional, claims)) and pads(from_inplace(zeroing, claims)) and not pads(from_inplace(inplace, claims))


def test_a_pad_row_that_writes_the_last_slot_is_in_the_write_set() -> None:
    def wrapping(pool: Any, slots: Any, tokens: Any, layer: Any) -> Any:
        out, pool[slots] = functional(pool[slots], tokens, layer)        # pool[-1] is the last slot
        return out

    case = _case((Admit(0, 0), Admit(2, 1), Forward(((0, 1), (PAD, 1))), Forward(((0, 1), (2, 1)))))
    findings = {m.guarantee: m for m in play(from_inplace(wrapping, CLAIMS), case).findings}
    assert findings["write-set"].place["slot"] == 2 and findings["write-set"].place["step"] == 2
    assert not findings["continuity"].passed and findings["continuity"].place["slot"] == 2


@pytest.mark.parametrize(("wrong", "said"), [
    (lambda out, state: (out[:, :2], state), "the output has shape (3, 2, 8), expected (3, 4, 8)"),
    (lambda out, state: (out.float(), state), "the output has dtype torch.float32, expected torch.bfloat16"),
    (lambda out, state: (out.to("meta"), state), "the output has device meta, expected cpu"),
    (lambda out, state: (out, state.double()), "the state has dtype torch.float64, expected torch.float32"),
    (lambda out, state: (out, None), "the state must be a tensor, got NoneType"),
    (lambda out, state: out, "the kernel must return (out, state), got Tensor"),
])
def test_a_wrong_answer_is_an_error_of_one_line(wrong: Callable[..., Any], said: str) -> None:
    kernel = from_functional(lambda *given: wrong(*functional(*given)), CLAIMS)
    schedule = (Admit(0, 0), Admit(1, 1), Admit(2, 2), Forward(((0, 1), (1, 1), (2, 1))))
    with pytest.raises(KernelError) as caught:
        play(kernel, _case(schedule))
    assert str(caught.value) == f"run of layer 0: {said} (schedule step 3)"


def test_only_step_claims_make_a_simple_kernel() -> None:
    claims = replace(CLAIMS, kind="replay", policy=replace(CLAIMS.policy, paths={"output": CLAIMS.policy.paths["step"],
                                                                                "flush": CLAIMS.policy.paths["step"]}))
    with pytest.raises(ValueError, match="claims.kind must be 'step' .* got 'replay'"):
        from_functional(functional, claims)
