"""A case makes the same bits every time and everywhere, and its file says so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from replaycheck.cases.case import Case
from replaycheck.cases.events import PAD, Admit, Copy, Forward, Release
from replaycheck.cases.layers import PRESETS, preset
from replaycheck.cases.regimes import REGIMES
from replaycheck.cases.schedule import mixed, plain
from replaycheck.contract.claims import Formats
from replaycheck.contract.errors import UsageError
from replaycheck_reference.variant import Mamba2Variant

SMALL = Case(name="small", heads=2, head_dim=4, state_dim=8, slots=4, capacity=4, schedule=mixed(1, forwards=6))


def same(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.flatten().view(torch.uint8), b.flatten().view(torch.uint8))


cases = st.builds(
    lambda seed, heads, groups, dims, regime, state, activation, variant, layers, forwards: Case(
        name="drawn", heads=heads * groups, groups=groups, head_dim=dims[0], state_dim=dims[1], regime=regime, seed=seed, layers=layers,
        formats=Formats(state=state, activation=activation, output=activation), variant=variant, slots=4, capacity=4,
        schedule=mixed(seed, forwards=forwards)),
    st.integers(0, 2**32), st.integers(1, 3), st.integers(1, 2), st.sampled_from([(4, 8), (5, 12), (16, 16)]),
    st.sampled_from(sorted(set(REGIMES) - {"decay-one", "readout", "representable", "bend"})), st.sampled_from(["fp32", "fp16", "bf16"]),
    st.sampled_from(["fp32", "fp16", "bf16"]),
    st.builds(Mamba2Variant, softplus=st.booleans(), bias=st.booleans(), skip=st.booleans(), gated=st.booleans(),
              decay_parameter=st.sampled_from(["A", "A_log"])),
    st.integers(1, 2), st.integers(1, 8),
)


#: Bits made once: a change of generator, numpy or torch that changes any of them breaks every saved case.
PINNED = {
    "trained-like": "4923ba9f42fe1770",
    "fast": "8f383443466060dc",
    "slow": "0a63b406e96a3f5c",
    "decay-one": "3ed65dd488f5d338",
    "spike": "4b8b5087cfb588c4",
    "extreme-dt": "640d2aaa7fb95b37",
    "bend": "7c53c58d47ef4e9d",
    "positive": "ecc7efb3d94c0f4b",
    "sparse": "c4f6bc8f92c68a9c",
    "outlier": "8794aa16d692e3be",
    "subnormal": "bec879c775aff3b0",
    "faint": "a72dbec04c384e47",
    "erase": "64b1462bea4ebbf7",
    "readout": "667297b3032ed0a5",
    "representable": "4a946d79276728d7",
}


@pytest.mark.parametrize("regime", REGIMES)
def test_the_bits_of_a_regime_never_change(regime: str) -> None:
    variant = Mamba2Variant(gated=regime != "representable")
    made = Case(name="", heads=4, head_dim=5, state_dim=8, groups=2, slots=4, layers=2, regime=regime, seed=7, variant=variant,
                schedule=mixed(7, forwards=8))
    assert made.digest[:16] == PINNED[regime]


@examples(40)
@given(made=cases)
def test_a_saved_case_is_the_same_case_with_the_same_bits(made: Case, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("case") / "case.json"
    made.save(path)
    read = Case.load(path)
    assert read == made and read.id == made.id and read.digest == made.digest and len(made.id) == 12
    assert path.read_text().count("\n") <= len(made.schedule) + 24


@examples(30)
@given(made=cases)
def test_inputs_have_the_formats_and_shapes_of_the_case(made: Case) -> None:
    dtypes = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    for request, root in made.roots.items():
        tokens, start = made.tokens(request, 0), made.start(request, 0)
        count = made.lengths[request]
        assert tokens.x.shape == (count, made.heads, made.head_dim) and tokens.dt.shape == (count, made.heads)
        assert tokens.B.shape == tokens.C.shape == (count, made.groups, made.state_dim)
        assert (tokens.z is not None) == made.variant.gated
        assert all(t.dtype == dtypes[made.formats.activation] for t in (tokens.x, tokens.dt, tokens.B, tokens.C))
        assert (start is None) == (root.start == "zero")
        if start is not None:
            assert start.shape == made.layer(0).state_shape and start.dtype == dtypes[made.formats.state]


def test_random_start_states_have_rms_one() -> None:
    made = Case(name="", heads=4, head_dim=64, state_dim=128, slots=2, schedule=plain(2, 1))
    for request in (0, 1):
        start = made.start(request, 0)
        assert start is not None and abs(float(start.square().mean()) - 1) < 0.05


@examples(20)
@given(seed=st.integers(0, 10**6), regime=st.sampled_from(sorted(REGIMES)), short=st.integers(0, 6), more=st.integers(0, 6))
def test_a_longer_schedule_begins_with_the_same_tokens(seed: int, regime: str, short: int, more: int) -> None:
    made = replace(SMALL, regime=regime, seed=seed, schedule=plain(1, short))
    longer = replace(made, schedule=plain(2, short + more))
    for name in ("x", "dt", "B", "C"):
        assert same(getattr(longer.tokens(0, 0), name)[:short], getattr(made.tokens(0, 0), name))
    assert same(longer.start(0, 0), made.start(0, 0))


def test_a_copy_sees_the_tokens_of_its_source_at_the_same_positions() -> None:
    first = (Admit(0, 3), Forward(((0, 1),)), Copy(0, 1, 8), Forward(((1, 2), (PAD, 1), (0, 1))))
    life = (*first, Release(0), Copy(1, 0, 9), Forward(((0, 1),)))
    made = replace(SMALL, schedule=life, slots=2)
    assert made.stream_of(8) == made.stream_of(9) == 3
    source, copy, second = (made.tokens(request, 0) for request in (3, 8, 9))
    assert (len(source), len(copy), len(second)) == (2, 3, 4)
    assert same(source.x, second.x[:2]) and same(copy.x, second.x[:3]) and same(made.start(9, 0), made.start(3, 0))


def test_requests_seeds_layers_and_regimes_have_different_bits() -> None:
    made = replace(SMALL, layers=2)
    first = made.tokens(0, 0).x
    others = [made.tokens(1, 0), made.tokens(0, 1), replace(made, seed=1).tokens(0, 0), replace(made, regime="fast").tokens(0, 0)]
    for other in others:
        assert not torch.equal(first[:1], other.x[:1])


def test_tensors_are_the_callers_to_write() -> None:
    for draw in (lambda: SMALL.tokens(0, 0).x, lambda: SMALL.layer(0).decay, lambda: SMALL.start(1, 0), lambda: SMALL.start(0, 0)):
        tensor = draw()
        if tensor is not None:
            tensor.fill_(99)
            assert not bool((draw() == 99).any())  # type: ignore[attr-defined, union-attr]


def test_the_name_changes_neither_id_nor_bits_and_everything_else_changes_the_id() -> None:
    renamed = replace(SMALL, name="other")
    assert renamed.id == SMALL.id and renamed.digest == SMALL.digest
    changes: list[dict[str, Any]] = [
        {"heads": 4}, {"head_dim": 5}, {"state_dim": 9}, {"groups": 2}, {"variant": Mamba2Variant(gated=True)},
        {"formats": Formats(state="bf16")},
        {"capacity": 3}, {"slots": 5}, {"layers": 2}, {"regime": "fast"}, {"seed": 1}, {"schedule": plain(4, 2)},
    ]
    assert len({replace(SMALL, **change).id for change in changes} | {SMALL.id}) == len(changes) + 1


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_geometries_a_case_can_have(name: str) -> None:
    size = preset(name)
    made = Case(name=name, heads=size.heads, head_dim=size.head_dim, state_dim=size.state_dim, groups=size.groups, schedule=plain(1, 1))
    assert made.layer(0).state_shape == (size.heads, size.head_dim, size.state_dim) and size.description


@pytest.mark.parametrize("change,message", [
    ({"heads": 0}, "heads must be an integer of at least 1, got 0"),
    ({"groups": 3}, "groups must divide heads, got groups 3 and heads 2"),
    ({"state_dim": -1}, "state_dim must be an integer of at least 1, got -1"),
    ({"capacity": 0}, "capacity must be an integer of at least 1, got 0"),
    ({"layers": 0}, "layers must be an integer of at least 1, got 0"),
    ({"seed": -1}, "seed must be an integer of at least 0, got -1"),
    ({"regime": "sunny"}, "regime 'sunny' is not known; known are trained-like,"),
    ({"recurrence": "gdn"}, "variant of recurrence 'gdn' must be a DeltaVariant, got Mamba2Variant"),
    ({"recurrence": "xlstm"}, "recurrence must be one of mamba2, gdn, kda, got 'xlstm'"),
    ({"formats": Formats(state="fp8_e4m3")}, "formats.state must be one of"),
    ({"slots": 1}, "schedule step 1"),
])
def test_a_case_that_cannot_be_made_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        replace(SMALL, **change)
    assert message in str(caught.value)


def test_an_unknown_request_layer_or_preset_is_named() -> None:
    with pytest.raises(ValueError, match="request 77 is not in the schedule; it has 0, 1"):
        SMALL.tokens(77, 0)
    with pytest.raises(ValueError, match=r"layer must be in 0\.\.0, got 3"):
        SMALL.layer(3)
    with pytest.raises(ValueError, match="layer 'huge' is not known; known are nemotron-3-nano-4b,"):
        preset("huge")


def changed(**fields: Any) -> str:
    return json.dumps({**SMALL.to_json(), **fields})


def without(field: str) -> str:
    return json.dumps({k: v for k, v in SMALL.to_json().items() if k != field})


VARIANT = SMALL.to_json()["variant"]
BAD_FILES = {
    "empty": ("", "is not JSON"),
    "cut": (changed()[:-40], "is not JSON"),
    "list": ("[1]", "a case must be an object, got list"),
    "no version": (without("format"), "format must be 'replaycheck-case/1', got None"),
    "other version": (changed(format="replaycheck-case/2"), "got 'replaycheck-case/2'"),
    **{f"no {name}": (without(name), f"field '{name}' is missing") for name in SMALL.to_json() if name not in ("format", "id", "digest")},
    "unknown field": (changed(colour="red"), "field 'colour' is not known"),
    "unknown regime": (changed(regime="sunny"), "regime 'sunny' is not known"),
    "recurrence": (changed(recurrence="gdn"), "field 'variant.channels' is missing"),
    "dims": (changed(head_dim=0), "head_dim must be an integer of at least 1, got 0"),
    "groups": (changed(groups=3), "groups must divide heads"),
    "float dim": (changed(heads=2.0), "field 'heads' must be an integer, got 2.0"),
    "bool seed": (changed(seed=True), "field 'seed' must be an integer, got True"),
    "null name": (changed(name=None), "field 'name' must be a string, got None"),
    "variant": (changed(variant={"softplus": True}), "field 'variant.bias' is missing"),
    "variant value": (changed(variant={**VARIANT, "decay_parameter": "B"}), "decay_parameter must be 'A' or 'A_log', got 'B'"),
    "variant type": (changed(variant={**VARIANT, "bias": 1}), "field 'variant.bias' must be a bool, got 1"),
    "formats": (changed(formats={"state": "fp7", "activation": "bf16", "output": "bf16"}), "must be one of fp32, fp16, bf16, got 'fp7'"),
    "schedule": (changed(schedule=[["forward", [[9, 1]]]]), "schedule step 0, Forward(rows=((9, 1),), counts=None): slot 9 is not live"),
    "schedule form": (changed(schedule=3), "schedule must be a list of events, got int"),
    "digest": (changed(seed=5), "digest is '"),
}


@pytest.mark.parametrize("what", BAD_FILES)
def test_a_bad_case_file_is_one_clear_line(what: str, tmp_path: Path) -> None:
    text, message = BAD_FILES[what]
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        Case.load(path)
    assert message in str(caught.value) and str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_case_file_that_is_absent_a_folder_or_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "absent.json", tmp_path, tmp_path / "binary"):
        with pytest.raises(UsageError, match="cannot be read") as caught:
            Case.load(path)
        assert str(path) in str(caught.value)


def test_an_unwritable_place_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"case .*none.* cannot be written: No such file"):
        SMALL.save(tmp_path / "none" / "case.json")
    target = tmp_path / "taken"
    target.mkdir()
    with pytest.raises(UsageError, match="cannot be written"):
        SMALL.save(target)
    assert list(tmp_path.iterdir()) == [target]


LATER_FORM = Mamba2Variant(skip_rows=True, dt_limits=(0.0625, 0.125))


def test_forms_that_came_later_leave_older_cases_their_files_and_come_back_from_their_own(tmp_path: Path) -> None:
    plain = Case(name="plain", heads=2, head_dim=4, state_dim=4, slots=1, schedule=())
    assert set(plain.to_json()["variant"]) == {"softplus", "bias", "skip", "gated", "decay_parameter"}
    made = replace(plain, variant=LATER_FORM)
    made.save(tmp_path / "case.json")
    assert Case.load(tmp_path / "case.json") == made != plain and made.id != plain.id
    skip = made.layer(0).D
    assert skip is not None and tuple(skip.shape) == (2, 4)


@pytest.mark.parametrize("limits", [(0.1, 0.25), (0.5, 0.25), (-1.0, 1.0), (0.0, float("inf")), (0.0,), "dt", [0.0, 1e300]])
def test_limits_of_dt_that_no_kernel_can_be_given_are_named(limits: Any) -> None:
    with pytest.raises(ValueError, match="variant.dt_limits must be two fp32 numbers with 0 <= low <= high, got"):
        Mamba2Variant(dt_limits=limits)
