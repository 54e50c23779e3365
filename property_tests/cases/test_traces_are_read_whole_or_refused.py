"""Traces go to a file and back bit for bit; every kind of bad file is one clear line; the dumper in the documentation works."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from replaycheck.cases.case import Case
from replaycheck.cases.schedule import plain
from replaycheck.cases.traces import Trace, read_trace, write_trace
from replaycheck.contract.claims import Claims, Formats
from replaycheck.contract.errors import UsageError
from replaycheck.play.windows import Window
from replaycheck_reference.formats.arrays import TORCH_DTYPE
from replaycheck_reference.layer import Mamba2Tokens
from replaycheck_reference.policy import Path as PolicyPath
from replaycheck_reference.policy import Policy
from replaycheck_reference.variant import Mamba2Variant

ROOT = Path(__file__).parents[2]
FORMS = ("fp32", "fp16", "bf16")
CLAIMS = Claims(name="dumped", kind="replay", capacities=(1, 8), states=FORMS, activations=FORMS, outputs=FORMS,
                policy=Policy(paths={"output": PolicyPath(output="scores"), "flush": PolicyPath()}))


#: Changes header and tensors of a trace in place.
Edit = Callable[[dict[str, Any], dict[str, Tensor]], object]


def windows_of(case: Case, length: int) -> list[Window]:
    """Windows of `length` tokens cut from the inputs of a case; outputs and end bits are drawn, for a trace does not judge them."""
    made, generator = [], torch.Generator().manual_seed(case.seed)
    for i in range(case.layers):
        for request in case.roots:
            start, tokens = case.start(request, i), case.tokens(request, i)
            assert start is not None
            for position in range(0, len(tokens), length):
                cut = tokens[position:position + length]
                end = torch.randn(start.shape, generator=generator).to(start.dtype)
                made.append(Window(
                    request=request, slot=request, layer=i, position=position, start=start, tokens=cut,
                    end=end if len(cut) == length else None,
                    outputs=torch.randn(cut.x.shape, generator=generator).to(TORCH_DTYPE[case.formats.output]),
                    paths=("output",) * (len(cut) - 1) + ("flush",), steps=tuple(range(position, position + len(cut)))))
                start = end
    return made


def case(**changes: Any) -> Case:
    return replace(Case(name="", heads=2, head_dim=4, state_dim=8, slots=2, capacity=4, schedule=plain(2, 7)), **changes)


def written(path: Path, made: Case, length: int = 3) -> list[Window]:
    windows = windows_of(made, length)
    write_trace(path, claims=CLAIMS, layers=[made.layer(i) for i in range(made.layers)], windows=windows)
    return windows


def assert_same(a: object, b: object) -> None:
    if isinstance(a, Tensor):
        assert isinstance(b, Tensor) and a.dtype == b.dtype and a.shape == b.shape
        assert torch.equal(a.flatten().view(torch.uint8), b.flatten().view(torch.uint8))
    elif isinstance(a, Window | Mamba2Tokens):
        for field in fields(a):
            assert_same(getattr(a, field.name), getattr(b, field.name))
    else:
        assert a == b


@examples(25)
@given(seed=st.integers(0, 1000), state=st.sampled_from(FORMS), activation=st.sampled_from(FORMS), layers=st.integers(1, 2),
       length=st.integers(1, 8),
       variant=st.builds(Mamba2Variant, softplus=st.booleans(), bias=st.booleans(), skip=st.booleans(), gated=st.booleans(),
                         decay_parameter=st.sampled_from(["A", "A_log"])))
def test_windows_come_back_bit_for_bit(
    seed: int, state: str, activation: str, layers: int, length: int, variant: Mamba2Variant, tmp_path_factory: pytest.TempPathFactory,
) -> None:
    made = case(seed=seed, layers=layers, variant=variant, formats=Formats(state=state, activation=activation, output=activation))
    path = tmp_path_factory.mktemp("trace") / "a.safetensors"
    windows = written(path, made, length)
    trace = read_trace(path)
    assert trace.claims == CLAIMS and trace.formats == made.formats and len(trace.windows) == len(windows)
    for mine, read in zip(windows, trace.windows, strict=True):
        assert_same(mine, read)
    for i, layer in enumerate(trace.layers):
        assert layer.variant == variant and layer.state_shape == made.layer(i).state_shape
        for name in ("decay", "dt_bias", "D"):
            assert_same(getattr(made.layer(i), name), getattr(layer, name))


def test_outputs_and_end_bits_may_be_anything(tmp_path: Path) -> None:
    path, made = tmp_path / "a.safetensors", case()
    windows = windows_of(made, 3)
    windows[0].outputs.fill_(float("nan"))
    assert windows[0].end is not None
    windows[0].end[0, 0, 0] = float("inf")
    write_trace(path, claims=CLAIMS, layers=[made.layer(0)], windows=windows)
    read = read_trace(path).windows
    assert bool(read[0].outputs.isnan().all()) and bool(read[1].start.isinf().any()), "a published inf goes on into the next window"


def test_claims_may_lie_beside_the_trace_or_be_given(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    written(path, case())
    rewrite(path, lambda header, _: header.update(claims="claims.json"))
    with pytest.raises(UsageError, match=r"claims file .*claims\.json cannot be read"):
        read_trace(path)
    other = replace(CLAIMS, name="other")
    assert read_trace(path, claims=other).claims == other
    (tmp_path / "claims.json").write_text(json.dumps(CLAIMS.to_json()))
    assert read_trace(path).claims == CLAIMS
    (tmp_path / "claims.json").write_text("{")
    with pytest.raises(UsageError, match=r"claims file .*claims\.json: "):
        read_trace(path)


def rewrite(path: Path, change: Edit) -> None:
    """Change header and tensors of a trace in place."""
    with safe_open(str(path), framework="pt") as file:
        header, tensors = json.loads(file.metadata()["replaycheck"]), {name: file.get_tensor(name).clone() for name in file.keys()}
    change(header, tensors)
    save_file(tensors, str(path), metadata={"replaycheck": json.dumps(header)})


def put(name: str, at: tuple[int, ...], value: float) -> Edit:
    return lambda _, tensors: tensors[name].__setitem__(at, value)


def change(name: str, fn: Callable[[Tensor], Tensor]) -> Edit:
    return lambda _, tensors: tensors.update({name: fn(tensors[name]).contiguous()})


def drop(name: str) -> Edit:
    return lambda _, tensors: tensors.pop(name)


def window(k: int, **values: Any) -> Edit:
    return lambda header, _: header["windows"][k].update(values)


def layer(**values: Any) -> Edit:
    return lambda header, _: header["layers"][0].update(values)


def claims(**values: Any) -> Edit:
    return lambda header, _: header["claims"].update(values)


def header(**values: Any) -> Edit:
    return lambda header, _: header.update(values)


NEEDED = ("layer.0.decay", "layer.0.dt_bias", "layer.0.D", "window.0.start", "window.0.x", "window.1.dt", "window.0.B", "window.2.C",
          "window.0.outputs")
FINITE = {"layer.0.decay": (1,), "layer.0.D": (0,), "window.0.x": (2, 1, 3), "window.0.dt": (0, 1), "window.1.B": (0, 0, 7),
          "window.1.C": (1, 0, 2), "window.0.start": (1, 3, 5), "window.1.start": (0, 0, 0)}
BAD: dict[str, tuple[Edit, str]] = {
    **{f"no {name}": (drop(name), f"tensor '{name}' is missing") for name in NEEDED},
    **{f"nan in {name}": (put(name, at, float("nan")), f"tensor '{name}' must be finite, got nan at {list(at)}")
       for name, at in FINITE.items()},
    "infinite x": (put("window.0.x", (0, 0, 0), float("-inf")), "tensor 'window.0.x' must be finite, got -inf at [0, 0, 0]"),
    "decay in bf16": (change("layer.0.decay", Tensor.bfloat16), "tensor 'layer.0.decay' must be fp32, got torch.bfloat16"),
    "x in fp64": (change("window.0.x", Tensor.double), "tensor 'window.0.x' must be fp32 or fp16 or bf16, got torch.float64"),
    "x in int64": (change("window.0.x", Tensor.long), "tensor 'window.0.x' must be fp32 or fp16 or bf16, got torch.int64"),
    "B in another format": (change("window.0.B", Tensor.float), "tensor 'window.0.B' must be bf16, got torch.float32"),
    "end in another format": (change("window.0.end", Tensor.half), "tensor 'window.0.end' must be fp32, got torch.float16"),
    "two builds": (change("window.1.outputs", Tensor.float), "window 1 has formats"),
    "decay a token": (change("layer.0.decay", lambda t: t.repeat(2)), "tensor 'layer.0.decay' must have shape [2], got [4]"),
    "x short": (change("window.0.x", lambda t: t[:, :1]), "tensor 'window.0.x' must have shape [tokens, 2, 4], got [3, 1, 4]"),
    "dt expanded": (change("window.0.dt", lambda t: t[..., None].repeat(1, 1, 4)),
                    "tensor 'window.0.dt' must have shape [3, 2], got [3, 2, 4]"),
    "B of other tokens": (change("window.0.B", lambda t: t[:2]), "tensor 'window.0.B' must have shape [3, 1, 8], got [2, 1, 8]"),
    "state turned": (change("window.0.start", lambda t: t.transpose(1, 2)),
                     "tensor 'window.0.start' must have shape [2, 4, 8], got [2, 8, 4]"),
    "end short": (change("window.0.end", lambda t: t[0]), "tensor 'window.0.end' must have shape [2, 4, 8], got [4, 8]"),
    "outputs short": (change("window.0.outputs", lambda t: t[:1]), "tensor 'window.0.outputs' must have shape [3, 2, 4], got [1, 2, 4]"),
    "no token": (lambda h, t: [t.update({f"window.0.{n}": t[f"window.0.{n}"][:0] for n in ("x", "dt", "B", "C")})],
                 "tensor 'window.0.x' must hold at least one token, got [0, 2, 4]"),
    "unasked tensor": (lambda _, tensors: tensors.update({"window.0.zz": torch.zeros(1)}), "tensor 'window.0.zz' is not known"),
    "z of an ungated layer": (lambda _, tensors: tensors.update({"window.0.z": tensors["window.0.x"].clone()}),
                              "tensor 'window.0.z' is not known"),
    "version": (header(format="replaycheck-trace/2"), "format must be 'replaycheck-trace/1', got 'replaycheck-trace/2'"),
    "no version": (lambda header, _: header.pop("format"), "got None"),
    "no windows": (header(windows=[]), "field 'windows' must be a list of at least one, got []"),
    "no layers": (lambda header, _: header.pop("layers"), "field 'layers' is missing"),
    "claims field": (claims(colour="red"), "claims has no field 'colour'"),
    "claims value": (claims(kind="fold"), "claims.kind must be one of step, replay, verify, got 'fold'"),
    "claims type": (claims(policy=3), "policy must be an object, got 3"),
    "claims name": (claims(name=None), "claims.name must be a string that is not empty, got None"),
    "claims capacities": (claims(capacities=5), "claims.capacities must be a list, got 5"),
    "claims capacity": (claims(capacities=[4]), "claims.capacities must be (smallest, largest), got (4,)"),
    "claims dims": (claims(head_dims=["x"]), "claims.head_dims holds 'x'; it takes integers of at least 1"),
    "claims formats": (claims(states="fp32"), "claims.states must be a list, got 'fp32'"),
    "policy paths": (claims(policy={"paths": 3}), "policy paths must be an object, got 3"),
    "policy path": (claims(policy={"paths": {"output": None}}), "paths.output must be an object, got None"),
    "policy softplus": (claims(policy={"softplus": "naive"}), "softplus must be an object, got 'naive'"),
    "policy units": (claims(policy={"softplus": {"units": "x"}}), "policy softplus.units must be a positive number of roundings, got 'x'"),
    "policy units of nothing": (claims(policy={"softplus": {"units": float("inf")}}), "policy softplus.units must be a positive number"),
    "policy identity": (claims(policy={"softplus": {"identity_from": "x"}}), "policy softplus.identity_from must be a number or none"),
    "policy ftz": (claims(policy={"ftz": "no"}), "policy ftz must be true or false, got 'no'"),
    "claims list": (header(claims=[]), "field 'claims' must be an object or a file name, got []"),
    "claims without fp32": (claims(states=["bf16"]), "tensor 'window.0.start' must be bf16, got torch.float32"),
    "layer dims": (layer(heads=0), "layers[0]: heads must be an integer of at least 1, got 0"),
    "layer groups": (layer(groups=3), "layers[0]: groups must divide heads, got groups 3 and heads 2"),
    "layer float": (layer(head_dim=4.0), "field 'layers[0].head_dim' must be an integer, got 4.0"),
    "layer field": (lambda header, _: header["layers"][0].pop("state_dim"), "field 'layers[0].state_dim' is missing"),
    "layer extra": (layer(width=1), "field 'layers[0].width' is not known"),
    "layer entry": (header(layers=[7]), "field 'layers[0]' must be an object, got 7"),
    "variant": (lambda header, _: header["layers"][0]["variant"].pop("skip"), "field 'layers[0].variant.skip' is missing"),
    "window layer": (window(0, layer=1), "field 'windows[0].layer' must be in 0..0, got 1"),
    "one place twice": (window(2, position=3), "windows 1 and 2 are both of request 0, layer 0, position 3: a request is one life"),
    "window position": (window(1, position=-1), "field 'windows[1].position' must be at least 0, got -1"),
    "window request": (window(0, request="a"), "field 'windows[0].request' must be an integer, got 'a'"),
    "window field": (lambda header, _: header["windows"][0].pop("steps"), "field 'windows[0].steps' is missing"),
    "path": (window(0, paths=["output", "step", "flush"]), "holds 'step'; the claims have output, flush"),
    "paths short": (window(0, paths=["flush"]), "field 'windows[0].paths' must be a list of 3, one a token"),
    "steps": (window(0, steps=[0, 1, None]), "field 'windows[0].steps' must be an integer, got None"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_trace_is_one_line_that_names_file_thing_and_value(what: str, tmp_path: Path) -> None:
    edit, message = BAD[what]
    path = tmp_path / "bad.safetensors"
    written(path, case())
    rewrite(path, edit)
    with pytest.raises(UsageError) as caught:
        read_trace(path)
    assert message in str(caught.value) and str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "a.safetensors"
    written(path, case())
    return path.read_bytes()


@examples(40)
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_trace_cut_anywhere_is_refused(share: float, whole: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("cut") / "cut.safetensors"
    path.write_bytes(whole[:int(share * len(whole))])
    with pytest.raises(UsageError, match=r"trace .*cut\.safetensors cannot be read: ") as caught:
        read_trace(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("metadata,message", [
    (None, "metadata 'replaycheck' is missing"), ({"format": "pt"}, "metadata 'replaycheck' is missing"),
    ({"replaycheck": "{"}, "metadata 'replaycheck' is not JSON"),
    ({"replaycheck": "[]"}, "metadata 'replaycheck' must be an object, got list"),
])
def test_a_safetensors_file_that_is_no_trace_is_refused(metadata: dict[str, str] | None, message: str, tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, str(tmp_path / "a.safetensors"), metadata=metadata)
    with pytest.raises(UsageError) as caught:
        read_trace(tmp_path / "a.safetensors")
    assert message in str(caught.value)


def test_what_is_no_safetensors_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("x" * 100)
    for path in (tmp_path / "absent", tmp_path, tmp_path / "text"):
        with pytest.raises(UsageError, match="cannot be read") as caught:
            read_trace(path)
        assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_an_unwritable_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"trace .*none.* cannot be written"):
        written(tmp_path / "none" / "a.safetensors", case())
    assert not list(tmp_path.iterdir())


def documented() -> tuple[str, Claims]:
    """The dumper and the claims of docs/traces.md."""
    text = (ROOT / "docs" / "traces.md").read_text()
    code = re.findall(r"```python\n(.*?)```", text, re.S)[0]
    return code, Claims.from_json(json.loads(re.findall(r"```json\n(.*?)```", text, re.S)[0]))


def test_the_documented_dumper_is_short_and_needs_torch_and_safetensors_only() -> None:
    code, _ = documented()
    assert len(code.splitlines()) <= 30 and set(re.findall(r"^(?:import|from) (\w+)", code, re.M)) <= {"json", "torch", "safetensors"}


@pytest.mark.parametrize("gated", [False, True])
def test_what_the_documented_dumper_writes_is_read_as_it_was(gated: bool, tmp_path: Path) -> None:
    code, claims = documented()
    space: dict[str, Any] = {}
    exec(code, space)
    made = case(layers=2, variant=Mamba2Variant(gated=gated))
    windows, dumper = windows_of(made, 1), space["TraceDumper"](claims.to_json())
    for i in range(made.layers):
        layer = made.layer(i)
        dumper.layer(layer.decay, layer.dt_bias, layer.D, head_dim=made.head_dim, state_dim=made.state_dim, groups=1, gated=gated)
    for w in windows:
        t = w.tokens
        dumper.window(w.start, t.x, t.dt, t.B, t.C, w.outputs, w.end, request=w.request, slot=w.slot, layer=w.layer, position=w.position,
                      paths=["step"], z=t.z)
    dumper.save(str(tmp_path / "a.safetensors"))
    trace: Trace = read_trace(tmp_path / "a.safetensors")
    assert trace.claims == claims and trace.formats == made.formats
    for mine, read in zip(windows, trace.windows, strict=True):
        assert_same(replace(mine, paths=("step",)), read)
