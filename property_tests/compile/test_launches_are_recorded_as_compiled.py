"""The recorder tells a launch as Triton's own launcher would specialise it."""

from __future__ import annotations

import json

from replaycheck.interpreter.recorder import Launch

Recorded = dict[str, list[Launch]]


def test_a_launch_names_its_kernel_types_constants_alignment_and_options(recorded: Recorded) -> None:
    (launch,) = recorded["plain"]
    assert launch.module == "loaded_by_path" and launch.file.endswith("launched_kernels.py") and launch.qualname == "scaled"
    assert launch.signature == {"X": "*fp32", "O": "*fp32", "scale": "fp32", "N": "constexpr"}
    assert launch.constexprs == {"N": 32}
    assert launch.divisible == ("X", "O")
    assert launch.options == {"num_warps": 2, "num_stages": 1}


def test_launches_that_compile_alike_are_recorded_once(recorded: Recorded) -> None:
    assert len(recorded["repeated"]) == 1


def test_a_pointer_that_is_not_aligned_is_not_called_divisible(recorded: Recorded) -> None:
    assert recorded["unaligned"][0].divisible == ("O",)


def test_numbers_are_specialised_as_the_launcher_does(recorded: Recorded) -> None:
    (launch,) = recorded["types"]
    assert launch.signature == {
        "X": "*bf16", "Y": "*fp16", "O": "*fp32", "count": "i32", "one": "constexpr", "big": "i64", "flag": "u1", "nothing": "constexpr",
        "TYPE": "constexpr", "NAME": "constexpr", "N": "constexpr"}
    assert launch.constexprs == {"one": 1, "nothing": None, "TYPE": {"dtype": "fp32"}, "NAME": "a", "N": 32}
    assert set(launch.divisible) == {"X", "Y", "O", "count", "big"}


def test_tuples_are_recorded_part_by_part(recorded: Recorded) -> None:
    (launch,) = recorded["tuple"]
    assert launch.signature["pair"] == ["*fp32", "i32"]
    assert "pair.0" in launch.divisible


def test_what_decorators_add_is_recorded(recorded: Recorded) -> None:
    assert recorded["heuristics"][0].constexprs == {"N": 16}
    assert recorded["autotuned"][0].constexprs == {"N": 16} and recorded["autotuned"][0].options["num_warps"] == 2


def test_records_nest(recorded: Recorded) -> None:
    inner = {launch.key for name, seen in recorded.items() if name != "everything" for launch in seen}
    assert inner == {launch.key for launch in recorded["everything"]}


def test_a_launch_survives_json(recorded: Recorded) -> None:
    for launch in recorded["everything"]:
        assert Launch.from_json(json.loads(json.dumps(launch.to_json()))) == launch
