"""Recordings: what recurrent layers received, in a safetensors file. The layout is described in docs/recordings.md."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from replaycheck.contract.errors import UsageError
from replaycheck_reference.layer import Layer
from replaycheck_reference.variant import Mamba2Variant, Variant

from .families import family
from .files import typed, write_whole
from .tensors import Tensors, one_line

__all__ = ["FORMAT", "LARGEST", "SHIPPED", "Forms", "RecordedLayer", "Recording", "RecordingFile", "forms_of", "read_recording",
           "write_recording"]

FORMAT = "replaycheck-recording/1"
#: Bytes of the largest file that is read.
LARGEST = 1 << 28
#: By name, recordings that are part of the package.
SHIPPED = {"trained-here": Path(__file__).with_name("trained-here.safetensors")}

_KEY = "replaycheck"        # of the safetensors metadata
_ACTIVATIONS = ("fp32", "fp16", "bf16")
_FIELDS = ("format", "source", "layers", "stretches", "tokens")


@dataclass(frozen=True, kw_only=True)
class Forms:
    """The tensors of one recurrence by name, with the names of their dims; a token tensor has the tokens first. start: of the state."""

    dims: tuple[str, ...]
    start: tuple[str, ...]
    parameters: Mapping[str, tuple[str, ...]]
    tokens: Mapping[str, tuple[str, ...]]


#: By recurrence.
FORMS: dict[str, Forms] = {
    "mamba2": Forms(
        dims=("heads", "head_dim", "state_dim", "groups"), start=("heads", "head_dim", "state_dim"),
        parameters={"decay": ("heads",), "dt_bias": ("heads",), "D": ("heads",)},
        tokens={"x": ("heads", "head_dim"), "dt": ("heads",), "B": ("groups", "state_dim"), "C": ("groups", "state_dim"),
                "z": ("heads", "head_dim")},
    ),
    "gdn": Forms(
        dims=("heads", "value_heads", "key_dim", "value_dim"), start=("value_heads", "value_dim", "key_dim"),
        parameters={"A_log": ("value_heads",), "dt_bias": ("value_heads",)},
        tokens={"q": ("heads", "key_dim"), "k": ("heads", "key_dim"), "v": ("value_heads", "value_dim"), "a": ("value_heads",),
                "b": ("value_heads",)},
    ),
}


def forms_of(recurrence: str) -> Forms:
    """The tensors of a recurrence. Raises ValueError listing the known ones."""
    if recurrence not in FORMS:
        raise ValueError(f"recurrence must be one of {', '.join(FORMS)}, got {recurrence!r}")
    return FORMS[recurrence]


@dataclass(frozen=True, kw_only=True)
class RecordedLayer:
    """One layer. name: where it sits in its model. dims: by name, as Forms has them. variant: of a Mamba-2 layer, else None.

    parameters: fp32. starts: one state a stretch, None for zero. stretches: one dict a stretch, token tensors by name.
    """

    name: str
    recurrence: str
    dims: Mapping[str, int]
    variant: Variant | None
    parameters: Mapping[str, Tensor]
    starts: list[Tensor | None] = field(default_factory=list)
    stretches: list[dict[str, Tensor]] = field(default_factory=list)

    def layer(self) -> Layer:
        """The layer as the reference has it. Raises ValueError where its dims and parameters make none."""
        own = family(self.recurrence)
        renamed = {own.recorded.get(f.name, f.name): f.name for f in fields(own.layer)}
        made: dict[str, Any] = {renamed[name]: value for name, value in (*self.dims.items(), *self.parameters.items())}
        numbers = {name: own.plain_numbers(name, made["state_dim"]) for name in own.numbers}
        found: Layer = own.layer(variant=self.form, **made, **numbers)
        return found

    @property
    def form(self) -> Variant:
        """The variant; a layer recorded without one is of the form that its recurrence starts from."""
        made: Variant = family(self.recurrence).variant() if self.variant is None else self.variant
        return made


@dataclass(frozen=True, kw_only=True)
class Recording:
    """Stretches of consecutive tokens of one or more requests, as the layers of a model received them; every layer has all stretches.

    source: what was recorded, in words. tokens: of every stretch. A stretch begins with the state its layer had at that moment: where it
    begins at the first token after a prefill, that is the final state of the prefill.
    """

    source: str
    layers: list[RecordedLayer]
    tokens: int

    @property
    def stretches(self) -> int:
        return len(self.layers[0].stretches)

    def of(self, recurrence: str) -> list[RecordedLayer]:
        """The layers of that recurrence, in the order of the model."""
        return [layer for layer in self.layers if layer.recurrence == recurrence]


@dataclass(frozen=True)
class RecordingFile:
    """A recording by the path of its file, or a name of SHIPPED, and the SHA-256 of its bytes, which alone says what is in it."""

    path: str
    sha256: str

    @staticmethod
    def of(path: str) -> RecordingFile:
        """The file as it is now. Raises UsageError naming the path where it cannot be read or is no recording."""
        found = RecordingFile(path if path in SHIPPED else str(Path(path).absolute()), hashlib.sha256(_bytes(_located(path))).hexdigest())
        found.read()
        return found

    def read(self) -> Recording:
        """The recording. Raises UsageError where the file cannot be read or has other bytes than it had."""
        return _read(self)


@lru_cache(maxsize=4)
def _read(file: RecordingFile) -> Recording:
    data = _bytes(_located(file.path))
    found = hashlib.sha256(data).hexdigest()
    if found != file.sha256:
        raise UsageError(f"recording {file.path} has SHA-256 {found}, but {file.sha256} is wanted: the file changed")
    return _parsed(file.path, data)


def _located(path: str) -> Path:
    return SHIPPED.get(path, Path(path))


def _bytes(path: Path) -> bytes:
    try:
        if path.stat().st_size > LARGEST:
            raise UsageError(f"recording {path} has {path.stat().st_size} bytes; at most {LARGEST} are read")
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"recording {path} cannot be read: {error.strerror or error}") from error


def read_recording(path: str | Path) -> Recording:
    """The recording of a file, or of a name in SHIPPED.

    Raises UsageError naming file, tensor or field, and value: not safetensors, truncated, missing or unknown tensors, wrong dtypes or
    shapes, values that are not finite.
    """
    return _parsed(str(path), _bytes(_located(str(path))))


def write_recording(path: Path, recording: Recording) -> None:
    """Write a recording. Raises UsageError naming the path where it cannot be written."""
    tensors: dict[str, Tensor] = {}
    for i, layer in enumerate(recording.layers):
        tensors |= {f"layer.{i}.{name}": value for name, value in layer.parameters.items()}
        for s, (start, tokens) in enumerate(zip(layer.starts, layer.stretches, strict=True)):
            tensors |= {f"stretch.{s}.layer.{i}.{name}": value for name, value in tokens.items()}
            tensors |= {} if start is None else {f"stretch.{s}.layer.{i}.start": start}
    header = {
        "format": FORMAT, "source": recording.source, "stretches": recording.stretches, "tokens": recording.tokens,
        "layers": [{"name": layer.name, "recurrence": layer.recurrence, "dims": dict(layer.dims),
                    "variant": None if layer.variant is None else layer.variant.to_json()} for layer in recording.layers],
    }
    own = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    write_whole(path, save(own, {_KEY: json.dumps(header)}), what="recording")


def _parsed(path: str, data: bytes) -> Recording:
    try:
        header, tensors = _header(data), Tensors(load(data))
        recording = Recording(
            source=header["source"], tokens=header["tokens"],
            layers=[_layer(i, entry, header, tensors) for i, entry in enumerate(header["layers"])],
        )
        tensors.finish()
    except SafetensorError as error:
        raise UsageError(f"recording {path} cannot be read: {one_line(error)}") from error
    except (ValueError, UsageError) as error:
        raise UsageError(f"recording {path}: {one_line(error)}") from error
    return recording


def _header(data: bytes) -> dict[str, Any]:
    """The fields of the metadata, which safetensors' own reader of bytes does not give."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise ValueError("it is no safetensors file, or a truncated one")
    try:
        said = json.loads(json.loads(data[8: 8 + length]).get("__metadata__", {})[_KEY])
    except KeyError as error:
        raise ValueError(f"metadata {_KEY!r} is missing") from error
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ValueError(f"metadata is not JSON: {one_line(error)}") from error
    if not isinstance(said, dict):
        raise ValueError(f"metadata {_KEY!r} must be an object, got {type(said).__name__}")
    for name in (*_FIELDS, *said):
        if name not in said or name not in _FIELDS:
            raise ValueError(f"field {name!r} is {'missing' if name in _FIELDS else 'not known'}")
    if said["format"] != FORMAT:
        raise ValueError(f"format must be {FORMAT!r}, got {said['format']!r}")
    typed("source", said["source"], str)
    for name in ("stretches", "tokens"):
        if not 1 <= typed(name, said[name], int) <= LARGEST:
            raise ValueError(f"field {name!r} must be at least 1, got {said[name]}")
    if not isinstance(said["layers"], list) or not said["layers"]:
        raise ValueError(f"field 'layers' must be a list of at least one, got {said['layers']!r}")
    return said


def _layer(i: int, entry: Any, header: dict[str, Any], tensors: Tensors) -> RecordedLayer:
    where, wanted = f"layers[{i}]", ("name", "recurrence", "dims", "variant")
    if not isinstance(entry, dict) or set(entry) != set(wanted):
        raise ValueError(f"field {where!r} must be an object of {', '.join(wanted)}, got {entry!r}")
    name, recurrence = (typed(f"{where}.{field}", entry[field], str) for field in ("name", "recurrence"))
    forms = forms_of(recurrence)
    if not isinstance(entry["dims"], dict) or set(entry["dims"]) != set(forms.dims):
        raise ValueError(f"field '{where}.dims' must be an object of {', '.join(forms.dims)}, got {entry['dims']!r}")
    dims = {dim: typed(f"{where}.dims.{dim}", size, int) for dim, size in entry["dims"].items()}
    variant: Variant | None = None
    if entry["variant"] is not None:
        variant = family(recurrence).variant_of(f"{where}.variant", entry["variant"])
    wide: dict[str, tuple[str, ...]] = {}
    absent: set[str] = set()
    if isinstance(variant, Mamba2Variant):
        absent = {tensor for tensor, present in (("dt_bias", variant.bias), ("D", variant.skip), ("z", variant.gated)) if not present}
        wide = {"D": ("head_dim",)} if variant.skip_rows else {}
    layer = RecordedLayer(
        name=name, recurrence=recurrence, dims=dims, variant=variant,
        parameters={n: tensors.take(f"layer.{i}.{n}", _sizes((*shape, *wide.get(n, ())), dims), ("fp32",))
                    for n, shape in forms.parameters.items() if n not in absent},
    )
    layer.layer()      # raises where dims and parameters make no layer
    for s in range(header["stretches"]):
        at = f"stretch.{s}.layer.{i}"
        layer.stretches.append({
            n: tensors.take(f"{at}.{n}", (header["tokens"], *_sizes(shape, dims)), _ACTIVATIONS)
            for n, shape in forms.tokens.items() if n not in absent
        })
        layer.starts.append(tensors.take(f"{at}.start", _sizes(forms.start, dims), _ACTIVATIONS) if tensors.has(f"{at}.start") else None)
    return layer


def _sizes(names: tuple[str, ...], dims: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(dims[name] for name in names)
