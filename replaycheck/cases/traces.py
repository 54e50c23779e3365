"""Traces: windows in a safetensors file, from our player or dumped by any engine. The layout is described in docs/traces.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from replaycheck.contract.bits import same_bits
from replaycheck.contract.claims import Claims, Formats
from replaycheck.contract.errors import UsageError
from replaycheck.play.windows import Window
from replaycheck_reference.formats.arrays import format_name
from replaycheck_reference.layer import Layer, Tokens

from .families import family
from .files import typed, write_whole
from .layers import Geometry
from .tensors import Tensors, check_finite, one_line

__all__ = ["FORMAT", "Trace", "read_trace", "write_trace"]

FORMAT = "replaycheck-trace/1"

_KEY = "replaycheck"        # of the safetensors metadata
_GEOMETRY = ("heads", "head_dim", "state_dim", "groups")
_PLACE = ("request", "slot", "layer", "position")
_RESULTS = ("outputs", "end")


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Windows of a stack of layers under one set of claims; formats: those of the build that made them, as the tensors have them."""

    claims: Claims
    layers: list[Layer]
    windows: list[Window]
    formats: Formats


def read_trace(path: Path, *, claims: Claims | None = None) -> Trace:
    """The trace of a file, with its own claims or those given instead.

    Raises UsageError naming file, tensor or field, and value: not safetensors, truncated, missing or unknown tensors, wrong dtypes or
    shapes, inputs that are not finite, formats or paths outside the claims. Outputs and end bits may be anything: they are judged; so may
    start bits that are the end bits of the request's window before.
    """
    try:
        with safe_open(str(path), framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except (OSError, SafetensorError) as error:
        raise UsageError(f"trace {path} cannot be read: {one_line(error)}") from error
    try:
        return _trace(_header(metadata), Tensors(tensors), Path(path).parent, claims)
    except (ValueError, UsageError) as error:
        raise UsageError(f"trace {path}: {one_line(error)}") from error


def write_trace(path: Path, *, claims: Claims, layers: Sequence[Layer], windows: Sequence[Window]) -> None:
    """Write windows as a trace, claims embedded. Raises UsageError naming the path where it cannot be written."""
    tensors: dict[str, Tensor] = {}
    for i, layer in enumerate(layers):
        tensors |= {f"layer.{i}.{name}": value for name, value in layer.parameters().items()}
    for k, window in enumerate(windows):
        tensors |= {f"window.{k}.{name}": getattr(window, name) for name in ("start", *_RESULTS)}
        tensors |= {f"window.{k}.{name}": value for name, value in window.tokens.tensors().items()}
    header = {
        "format": FORMAT, "claims": claims.to_json(),
        "layers": [{**{name: getattr(layer, name) for name in (*_GEOMETRY, *family(layer.recurrence).numbers)},
                    "variant": layer.variant.to_json()} for layer in layers],
        "windows": [{**{n: getattr(w, n) for n in _PLACE}, "paths": list(w.paths), "steps": list(w.steps)} for w in windows],
    }
    own = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items() if tensor is not None}
    write_whole(path, save(own, {_KEY: json.dumps(header)}), what="trace")


def _trace(header: dict[str, Any], tensors: Tensors, folder: Path, claims: Claims | None) -> Trace:
    claims = claims or _claims(header["claims"], folder)
    layers = [_layer(i, entry, tensors, claims) for i, entry in enumerate(header["layers"])]
    windows = [_window(k, entry, tensors, layers, claims) for k, entry in enumerate(header["windows"])]
    tensors.finish()
    _check_places(windows)
    _check_starts(windows)
    return Trace(claims=claims, layers=layers, windows=windows, formats=_formats(windows))


def _header(metadata: dict[str, str]) -> dict[str, Any]:
    if _KEY not in metadata:
        raise ValueError(f"metadata {_KEY!r} is missing")
    try:
        header = json.loads(metadata[_KEY])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"metadata {_KEY!r} is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise ValueError(f"metadata {_KEY!r} must be an object, got {type(header).__name__}")
    if header.get("format") != FORMAT:
        raise ValueError(f"format must be {FORMAT!r}, got {header.get('format')!r}")
    for name in ("claims", "layers", "windows"):
        if name not in header:
            raise ValueError(f"field {name!r} is missing")
    for name in ("layers", "windows"):
        if not isinstance(header[name], list) or not header[name]:
            raise ValueError(f"field {name!r} must be a list of at least one, got {header[name]!r}")
    return header


def _claims(given: Any, folder: Path) -> Claims:
    """Embedded claims, or those of a file named relative to the trace."""
    if isinstance(given, str):
        try:
            return Claims.load(folder / given)
        except OSError as error:
            raise ValueError(f"claims file {folder / given} cannot be read: {error.strerror or error}") from error
    if not isinstance(given, dict):
        raise ValueError(f"field 'claims' must be an object or a file name, got {given!r}")
    try:
        return Claims.from_json(given)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"field 'claims' holds a value of the wrong type: {error}") from error


def _layer(i: int, entry: Any, tensors: Tensors, claims: Claims) -> Layer:
    _check_entry(f"layers[{i}]", entry, (*_GEOMETRY, *family(claims.recurrence).numbers, "variant"))
    dims = {name: typed(f"layers[{i}].{name}", entry[name], int) for name in _GEOMETRY}
    try:
        geometry = Geometry(**dims)
    except ValueError as error:
        raise ValueError(f"layers[{i}]: {error}") from error
    own = family(claims.recurrence)
    variant = own.variant_of(f"layers[{i}].variant", entry["variant"])
    made: dict[str, Any] = {name: tensors.take(f"layer.{i}.{name}", shape, ("fp32",))
                            for name, shape in own.parameters(geometry, variant).items()}
    for name in own.numbers:
        if type(entry[name]) not in (int, float):
            raise ValueError(f"field 'layers[{i}].{name}' must be a number, got {entry[name]!r}")
        made[name] = float(entry[name])
    layer: Layer = own.layer(**dims, variant=variant, **made)
    return layer


def _window(k: int, entry: Any, tensors: Tensors, layers: list[Layer], claims: Claims) -> Window:
    where, name = f"windows[{k}]", f"window.{k}"
    _check_entry(where, entry, (*_PLACE, "paths", "steps"))
    place = {field: typed(f"{where}.{field}", entry[field], int) for field in _PLACE}
    if not 0 <= place["layer"] < len(layers):
        raise ValueError(f"field '{where}.layer' must be in 0..{len(layers) - 1}, got {place['layer']}")
    if place["position"] < 0:
        raise ValueError(f"field '{where}.position' must be at least 0, got {place['position']}")
    layer = layers[place["layer"]]
    tokens = _tokens(name, tensors, layer, claims)
    if not len(tokens):
        first, shapes = next(iter(tokens.tensors().items()))
        raise ValueError(f"tensor '{name}.{first}' must hold at least one token, got {list(shapes.shape)}")
    start = tensors.take(f"{name}.start", layer.state_shape, claims.states, finite=False)
    end = None
    if tensors.has(f"{name}.end"):
        end = tensors.take(f"{name}.end", layer.state_shape, (format_name(start.dtype),), finite=False)
    return Window(
        **place, start=start, tokens=tokens, end=end,
        outputs=tensors.take(f"{name}.outputs", (len(tokens), layer.heads, layer.head_dim), claims.outputs_of(format_name(tokens.dtype)),
                             finite=False),
        paths=_paths(f"{where}.paths", entry["paths"], len(tokens), tuple(claims.policy.paths)),
        steps=tuple(typed(f"{where}.steps", step, int) for step in _list(f"{where}.steps", entry["steps"], len(tokens))),
    )


def _tokens(name: str, tensors: Tensors, layer: Layer, claims: Claims) -> Tokens:
    own, made = family(layer.recurrence), {}
    count, forms = None, claims.activations
    for tensor, shape in own.received(Geometry.of(layer), layer.variant).items():
        allowed = (*claims.activations, "fp32") if tensor in own.processed else forms
        made[tensor] = tensors.take(f"{name}.{tensor}", (count, *shape), allowed)
        if count is None:                       # one build has one activation format
            count, forms = len(made[tensor]), (format_name(made[tensor].dtype),)
    tokens: Tokens = own.tokens(**made)
    return tokens


def _paths(where: str, given: Any, count: int, known: tuple[str, ...]) -> tuple[str, ...]:
    for path in _list(where, given, count):
        if path not in known:
            raise ValueError(f"field {where!r} holds {path!r}; the claims have {', '.join(known)}")
    return tuple(given)


def _list(where: str, given: Any, count: int) -> list[Any]:
    if not isinstance(given, list) or len(given) != count:
        raise ValueError(f"field {where!r} must be a list of {count}, one a token, got {given!r}")
    return given


def _check_entry(where: str, entry: Any, wanted: Sequence[str]) -> None:
    if not isinstance(entry, dict):
        raise ValueError(f"field {where!r} must be an object, got {entry!r}")
    for field in (*wanted, *entry):
        if field not in entry or field not in wanted:
            raise ValueError(f"field '{where}.{field}' is {'missing' if field in wanted else 'not known'}")


def _check_places(windows: list[Window]) -> None:
    """One window a place: two would leave open which of them the next one follows."""
    seen: dict[tuple[int, int, int], int] = {}
    for k, window in enumerate(windows):
        place = (window.request, window.layer, window.position)
        if place in seen:
            raise ValueError(f"windows {seen[place]} and {k} are both of request {place[0]}, layer {place[1]}, position {place[2]}: "
                             f"a request is one life in a slot")
        seen[place] = k


def _check_starts(windows: list[Window]) -> None:
    """Start bits are finite, or what the kernel itself published: a fault that an earlier window shows, not one of the file."""
    ends = {(w.request, w.layer, w.position + len(w.tokens)): w.end for w in windows}
    for k, window in enumerate(windows):
        end = ends.get((window.request, window.layer, window.position))
        if end is None or not same_bits(window.start, end):
            check_finite(f"window.{k}.start", window.start)


def _formats(windows: list[Window]) -> Formats:
    """The formats of the build. Raises ValueError where two windows differ: they come from two builds."""
    found = [
        Formats(state=format_name(w.start.dtype), activation=format_name(w.tokens.dtype), output=format_name(w.outputs.dtype))
        for w in windows
    ]
    for k, other in enumerate(found):
        if other != found[0]:
            raise ValueError(f"window {k} has formats {other}, window 0 has {found[0]}: a trace is of one build")
    return found[0]
