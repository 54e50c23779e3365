"""The verdict lattice, its exit codes, and what is kept of many measurements."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaycheck.verdict.causes import by_cause
from replaycheck.verdict.checks import CONTRACT, GUARANTEES
from replaycheck.verdict.measurement import Measurement
from replaycheck.verdict.reasons import reasons
from replaycheck.verdict.tally import KEPT_FAILURES, Tally
from replaycheck.verdict.verdict import ORDER, decide, worst_exit

LINES = st.lists(st.text("abc", min_size=1, max_size=3), max_size=2)


def measurements() -> st.SearchStrategy[list[Measurement]]:
    one = st.builds(
        Measurement, guarantee=st.sampled_from(GUARANTEES), regime=st.sampled_from(("slow", "fast", "")),
        budget=st.sampled_from((0.0, 1.0)), value=st.sampled_from((0.0, 0.25, 1.0, 3.0, math.inf, math.nan)), suspicious=st.booleans(),
        diagnosis=st.sampled_from(("", "odd")),
    )
    return st.lists(one, max_size=30)


@given(errors=LINES, failures=LINES, gaps=LINES, warnings=LINES, strict=st.booleans())
def test_error_beats_fail_beats_not_proven_beats_pass(
    errors: list[str], failures: list[str], gaps: list[str], warnings: list[str], strict: bool
) -> None:
    verdict = decide(subject="replay kernel", errors=errors, failures=failures, gaps=gaps, warnings=warnings, strict=strict)
    broken = failures + (warnings if strict else [])
    expected = "error" if errors else "fail" if broken else "not proven" if gaps else "pass"
    assert verdict.status == expected
    assert verdict.exit_code == {"pass": 0, "fail": 1, "not proven": 3, "error": 4}[expected]
    assert set(errors + failures + warnings) <= set(verdict.reasons)
    assert verdict.suspicious == bool(warnings)
    assert verdict.headline.startswith(f"{expected} as replay kernel")


def test_over_several_kernels_the_worst_exit_code_counts() -> None:
    assert worst_exit([]) == 0
    assert worst_exit([0, 3, 0]) == 3
    assert worst_exit([3, 1, 0]) == 1
    assert worst_exit([1, 4, 3]) == 4
    assert worst_exit([4, 2]) == 2
    assert worst_exit([2, 130, 0]) == 130


@given(found=measurements())
def test_a_tally_loses_no_failure_and_no_worst_case(found: list[Measurement]) -> None:
    tally = Tally()
    tally.add(found)
    assert tally.total == len(found)
    broken = {m.guarantee for m in found if not m.passed}
    assert set(tally.failures) == broken
    assert all(tally.failed[name] == sum(m.guarantee == name and not m.passed for m in found) for name in broken)
    assert all(len(kept) <= KEPT_FAILURES and not any(m.passed for m in kept) for kept in tally.failures.values())
    if found:
        assert tally.overall is not None and tally.overall.ratio == max(m.ratio for m in found)
    for (guarantee, regime), worst in tally.worst.items():
        assert worst.ratio == max(m.ratio for m in found if (m.guarantee, m.regime) == (guarantee, regime))
    verdict = reasons(tally, subject="step kernel")
    assert (verdict.status == "error") == (CONTRACT in broken)
    assert (verdict.status == "pass") == (not broken)


@given(found=measurements())
def test_a_suspicious_pass_fails_only_when_strict(found: list[Measurement]) -> None:
    tally = Tally()
    tally.add([m for m in found if m.passed])
    suspicious = any(m.suspicious for m in found if m.passed)
    assert reasons(tally, subject="step kernel").status == "pass"
    assert reasons(tally, subject="step kernel").suspicious == suspicious
    assert reasons(tally, subject="step kernel", strict=True).status == ("fail" if suspicious else "pass")


def test_the_words_are_those_of_the_lattice() -> None:
    assert ORDER == ("pass", "not proven", "fail", "error")


def test_failures_are_told_nearest_their_cause_first_and_every_guarantee_has_a_place() -> None:
    assert by_cause(["state", "outputs", "isolation", "write-set"]) == ("write-set", "isolation", "state", "outputs")
    assert by_cause(["poison", "split", "determinism"]) == ("determinism", "poison", "split")
    assert set(by_cause(GUARANTEES)) == set(GUARANTEES)
    with pytest.raises(ValueError, match="guarantee 'luck' has no rank"):
        by_cause(["luck"])
