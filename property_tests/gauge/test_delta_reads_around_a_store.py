"""What a flush reads of a state before or after it is rounded for storing is allowed for, and no more."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from delta_windows import window
from torch import Tensor

from replaycheck_reference.formats.arrays import round_to
from replaycheck_reference.gauge.delta import DeltaBound, bound
from replaycheck_reference.gauge.functions import load_table
from replaycheck_reference.policy import Path, Policy, Storage
from replaycheck_reference.recurrences.batched.delta import DeltaTerms, decompose
from replaycheck_reference.variant import DeltaVariant

BOTH = pytest.mark.parametrize("channels", [False, True])


def forms(channels: bool) -> DeltaVariant:
    return DeltaVariant(gate="given", A_log=False, bias=False, beta="given", channels=channels)


def budgets(layer: object, terms: DeltaTerms, paths: tuple[str, ...], flush: Path) -> DeltaBound:
    policy = Policy(paths={"output": Path(), "flush": flush}, state=Storage(format="bf16"))
    return bound(layer, terms, policy, paths, load_table("numpy"), activation="bf16")  # type: ignore[arg-type]


@BOTH
def test_a_flush_of_the_tokens_before_its_own_may_read_what_is_not_yet_stored(channels: bool) -> None:
    reached = 0.0
    for seed in range(12):
        layer, unrounded, run = window(seed, 4, variant=forms(channels))
        stored = round_to(unrounded.double(), "bf16")
        terms, free = decompose(layer, stored, run), decompose(layer, unrounded, run)
        paths = ("flush", "output", "output", "output")
        budget = budgets(layer, terms, paths, Path(folds="before"))
        # the first token is read and predicted from the unrounded state, every later one from the stored one and the first one's delta
        outputs, end = _with_first_delta(terms, free)
        assert bool(((outputs - terms.outputs()).abs() <= budget.outputs).all()) and bool(((end - terms.end()).abs() <= budget.end).all())
        narrow = budgets(layer, terms, paths, Path())
        ratio = (outputs - terms.outputs()).abs() / budget.outputs
        reached = max(reached, float(ratio.max()))
        assert bool(((outputs - terms.outputs()).abs() > narrow.outputs).any())
    assert reached > 0.5


def _with_first_delta(terms: DeltaTerms, free: DeltaTerms) -> tuple[Tensor, Tensor]:
    """The window from the stored start, its first token's delta and output those of the unrounded one."""
    apart = free.delta[0] - terms.delta[0]
    seen = torch.einsum("hp,hn,mhn->mhp", apart, terms.k[0], terms.queries[1])
    outputs = terms.outputs() + seen
    outputs[0] = free.outputs()[0]
    return outputs, terms.end() + torch.einsum("hp,hn->hpn", apart, terms.keys[0])


@BOTH
def test_a_flush_that_reads_the_stored_state_may_be_off_by_its_rounding(channels: bool) -> None:
    reached = 0.0
    for seed in range(12):
        layer, start, run = window(seed, 3, variant=forms(channels))
        terms, paths = decompose(layer, start, run), ("output", "output", "flush")
        outputs = terms.outputs()
        outputs[-1] = torch.einsum("hpn,hn->hp", round_to(terms.end(), "bf16"), terms.q[-1])
        allowed = budgets(layer, terms, paths, Path(reads="stored")).outputs
        assert bool(((outputs - terms.outputs()).abs() <= allowed).all())
        assert bool(((outputs - terms.outputs()).abs() > budgets(layer, terms, paths, Path()).outputs).any())
        reached = max(reached, float(((outputs - terms.outputs()).abs() / allowed).max()))
    assert reached > 0.5


def test_a_path_that_the_policy_lacks_is_named() -> None:
    layer, start, run = window(0, 1, variant=forms(False))
    policy = replace(Policy(), paths={"output": Path()})
    with pytest.raises(ValueError, match="path 'flush' is not in the policy; it has output"):
        bound(layer, decompose(layer, start, run), policy, ("flush",), load_table("numpy"), activation="bf16")
