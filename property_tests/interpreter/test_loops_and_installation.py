"""Loops on runtime values run under any numpy; the interpreter is installed only where it was tested."""

from __future__ import annotations

from typing import Any

import pytest

from replaycheck import interpreter
from replaycheck.contract.errors import ReplaycheckError

Probed = dict[str, Any]


def test_loops_with_runtime_bounds_run(probed: Probed) -> None:
    assert probed["loop"]["loops"] == [2 + 6 + 10, sum(range(2, 11)), 3, 14, sum(range(11))]


def test_branches_follow_runtime_values(probed: Probed) -> None:
    assert probed["loop"]["branches"] == [-1.0, 1.0, 11.0]


def test_a_loop_may_be_bounded_by_what_was_loaded(probed: Probed) -> None:
    assert probed["loop"]["from memory"] == [0, 0, 3, 21]


def test_a_release_that_was_not_tested_is_refused(probed: Probed) -> None:
    assert probed["install"]["other release"] == "the interpreter is tested with triton 3.6.0; this is triton 3.7.0"


def test_a_process_that_does_not_interpret_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ReplaycheckError, match="TRITON_INTERPRET=1"):
        interpreter.install()


def test_an_unknown_rounding_is_named() -> None:
    with pytest.raises(ValueError, match="'stochastic'"):
        interpreter.install(tf32="stochastic")  # type: ignore[arg-type]
