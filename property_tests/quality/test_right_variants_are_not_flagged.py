"""Right kernels that differ in bits are never flagged: two hundred small cases each."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from judged import broken, judged

from replaycheck.cases.case import Case
from replaycheck.cases.families.mamba2 import LAWS
from replaycheck.cases.regimes import REGIMES
from replaycheck.cases.schedule import mixed, plain
from replaycheck.contract.bits import count_differing
from replaycheck.contract.claims import Formats
from replaycheck.faults.base import REPLAY, STEP
from replaycheck.faults.host import HostKernel
from replaycheck.faults.variants import VARIANTS, Variant
from replaycheck.play.result import Play
from replaycheck_reference.variant import Mamba2Variant

CASES = 200
FORMS = (
    Mamba2Variant(), Mamba2Variant(gated=True), Mamba2Variant(softplus=False), Mamba2Variant(decay_parameter="A_log"),
    Mamba2Variant(bias=False, skip=False),
)
KINDS = {"replay": REPLAY, "step": STEP}


def _form(index: int, regime: str) -> Mamba2Variant:
    form = FORMS[index % len(FORMS)]
    law = LAWS[regime]
    impossible = ((law.exact and form.gated) or (law.gates.A_log is None and form.decay_parameter == "A_log")
                  or (law.softplus and not form.softplus))
    return FORMS[0] if impossible else form


def _case(index: int, kind: str) -> Case:
    """Every regime, form and capacity in turn; a fifth of the cases of each regime a life with pads, copies and reuse, in another form
    each time, the others one request."""
    regimes = tuple(REGIMES)
    turn, place = divmod(index, len(regimes))
    regime = regimes[place]
    schedule = mixed(index, slots=3, forwards=6) if (place + turn + turn // 5) % 5 == 0 else plain(1, 6)
    return Case(
        name=f"{kind}-{index}", heads=2, head_dim=16, state_dim=(16, 32)[index % 2], groups=1 + index // 7 % 2,
        variant=_form(turn, regime),
        formats=Formats(state="fp32", activation=("fp32", "bf16")[index // 3 % 2], output="fp32"),
        capacity=(5, 6)[index // 2 % 2] if kind == "replay" else 1, slots=3, regime=regime, seed=index, schedule=schedule,
    )


@cache
def _played(kind: str, index: int) -> Play:
    """The base kernel's play of a case, which may not be flagged either."""
    made, measurements = judged(KINDS[kind], _case(index, kind))
    assert not broken(measurements), f"base {kind}, case {index}: {broken(measurements)}"
    return made


def _differing(kernel: HostKernel, base: str, index: int) -> tuple[int, int]:
    """How many outputs differ in bits from the base's, of how many, after asserting that nothing is flagged.

    Where the decay is exactly 1 there are no weights to differ in, and nothing is counted.
    """
    case = _case(index, base)
    made, measurements = judged(kernel, case)
    assert not broken(measurements), f"case {index} ({case.regime}, {case.variant}): {broken(measurements)}"
    if LAWS[case.regime].gates.A_log is None:
        return 0, 0
    reference = _played(base, index)
    pairs = [(made.outputs[key], reference.outputs[key]) for key in made.outputs]
    return sum(count_differing(a, b) for a, b in pairs), sum(a.numel() for a, _ in pairs)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=list(VARIANTS))
def test_a_right_variant_is_never_flagged_though_its_bits_differ(variant: Variant) -> None:
    counts = [_differing(variant.kernel, variant.base.claims.kind, index) for index in range(CASES)]
    differing, compared = (sum(part) for part in zip(*counts, strict=True))
    assert differing >= compared / 10, f"only {differing} of {compared} outputs differ from the base"


def test_every_variant_states_a_policy_or_an_order_of_its_own() -> None:
    assert all(v.kernel.claims.policy != v.base.claims.policy for v in VARIANTS.values())
    assert len({v.kernel.claims.name for v in VARIANTS.values()}) == len(VARIANTS) >= 6


def test_a_variant_is_not_a_renamed_base() -> None:
    assert all(replace(v.kernel, claims=v.base.claims) != v.base for v in VARIANTS.values())
