"""Windows of Gated DeltaNet and Kimi Delta Attention are judged by the same checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from replaycheck.judge.windows import judge_windows
from replaycheck.play.windows import Window
from replaycheck.verdict.measurement import Measurement
from replaycheck_reference.gauge.functions import load_table
from replaycheck_reference.layer import DeltaLayer, DeltaTokens
from replaycheck_reference.policy import Path, Policy
from replaycheck_reference.recurrences.batched.delta import DeltaTerms, decompose
from replaycheck_reference.recurrences.batched.delta_stories import stories
from replaycheck_reference.variant import DeltaVariant

POLICY = Policy(paths={"output": Path(output="scores", weights="sum"), "flush": Path(weights="sum"), "step": Path()})
TOKENS = 4
BOTH = pytest.mark.parametrize("channels", [False, True])


def exactly(terms: DeltaTerms) -> tuple[Tensor, Tensor]:
    return terms.outputs(), terms.end()


def judged(channels: bool, evaluate: Callable[[DeltaTerms], tuple[Tensor, Tensor]] = exactly, *, groups: int = 1,
           received: Callable[[DeltaTokens], DeltaTokens] = lambda tokens: tokens, story: str = "") -> dict[str, Measurement]:
    """The worst measurement of each guarantee, of a window whose bits are made of what the kernel took for its tokens."""
    generator = torch.Generator().manual_seed(5)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    heads, size = 2, 64
    each = (heads, size) if channels else (heads,)
    layer = DeltaLayer(heads=heads, head_dim=size, state_dim=size, groups=groups, scale=0.125, A_log=draw(heads) - 1,
                       dt_bias=draw(*each) - 3, variant=DeltaVariant(channels=channels))
    tokens = DeltaTokens(q=draw(TOKENS, groups, size).bfloat16(), k=draw(TOKENS, groups, size).bfloat16(),
                         v=draw(TOKENS, heads, size).bfloat16(), g=draw(TOKENS, *each).bfloat16(), b=draw(TOKENS, heads).bfloat16())
    start = draw(heads, size, size)
    outputs, end = evaluate(decompose(layer, start, received(tokens)))
    if story:
        told = dict(stories(layer, start, tokens))[story]
        outputs, end = told.outputs(), told.end()
    window = Window(request=0, slot=0, layer=0, position=0, start=start, tokens=tokens, outputs=outputs.float(),
                    paths=(*["output"] * (TOKENS - 1), "flush"), steps=tuple(range(TOKENS)), end=end.float())
    found = judge_windows([window], [layer], POLICY.built(state="fp32", output="fp32"), load_table("numpy"))
    return {m.guarantee: m for m in sorted(found, key=lambda m: m.ratio)}


@BOTH
def test_exact_windows_pass_with_room_to_spare(channels: bool) -> None:
    found = judged(channels)
    assert {"outputs", "state"} <= set(found)
    assert "gates" in found
    assert all(m.passed for m in found.values()) and max(found[g].ratio for g in ("outputs", "state")) < 0.05


def test_a_start_state_that_decays_by_one_in_a_quarter_million_too_much_is_seen() -> None:
    found = judged(False, lambda terms: (terms.outputs(), terms.end() + 2.0**-18 * terms.carried(terms.start, 0)))
    assert found["gates"].ratio > 4 and found["gates"].diagnosis.startswith("the decay of the start state is off by +3.8")


@BOTH
def test_a_token_that_never_came_is_named(channels: bool) -> None:
    def lost(terms: DeltaTerms) -> tuple[Tensor, Tensor]:
        return terms.outputs(), terms.end() - torch.einsum("hp,hn->hpn", terms.delta[1], terms.keys[1])

    found = judged(channels, lost)
    assert not found["state"].passed and "token of age 2" in found["state"].diagnosis


@BOTH
def test_keys_of_another_group_are_named(channels: bool) -> None:
    found = judged(channels, groups=2, received=lambda t: replace(t, q=t.q.flip(1), k=t.k.flip(1)))
    assert "used group" in found["state"].diagnosis and "used group" in found["outputs"].diagnosis


STATES = ("the state were decayed after the prediction", "keys and queries were not normalised", "beta were doubled",
          "the gate had no bias", "the gate had no A_log")


@BOTH
@pytest.mark.parametrize("story", STATES)
def test_a_line_that_was_misread_is_told(channels: bool, story: str) -> None:
    found = judged(channels, story=story)
    assert found["state"].diagnosis == found["outputs"].diagnosis == f"acts as if {story}"


@BOTH
@pytest.mark.parametrize("story", ["outputs were read before the update", "queries were not scaled"])
def test_a_line_that_only_outputs_see_is_told_of_them(channels: bool, story: str) -> None:
    found = judged(channels, story=story)
    assert found["state"].passed and found["outputs"].diagnosis == f"acts as if {story}"


@BOTH
def test_a_beta_in_bf16_is_over_the_budget_of_one_in_fp32(channels: bool) -> None:
    def narrow(terms: DeltaTerms) -> tuple[Tensor, Tensor]:
        wrong = terms.beta.bfloat16().double() / terms.beta - 1
        fields = terms.state_fields().unflatten(-1, terms.start.shape[-2:])
        return terms.outputs(), terms.end() + torch.einsum("jh,hjpn->hpn", wrong, fields[:, 1::2])

    assert not judged(channels, narrow)["state"].passed
