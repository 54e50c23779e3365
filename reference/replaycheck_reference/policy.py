"""A policy: how every quantity is rounded and evaluated. Data, read by the gauge; no code path looks at it."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

__all__ = ["Path", "Policy", "Softplus", "Storage", "PRODUCTS", "RINGS", "WEIGHTS", "ORDERS"]

#: How a named product is formed. Operands that the narrow format holds exactly cost nothing.
PRODUCTS = (
    "fp64",        # products and sums in fp64
    "fp32",        # one fp32 rounding a product, or none where fused
    "tf32",        # fp32 operands cut to tf32 by truncation
    "tf32_rna",    # fp32 operands rounded to tf32, ties away
    "tf32x3",      # hi*hi + hi*lo + lo*hi with lo a second tf32 part
    "bf16x3",      # the computed operand split into three bf16 parts; the other operand is exactly bf16
    "fp16",        # operands rounded to fp16
    "bf16",        # operands rounded to bf16
)
#: How the weight of an older token is evaluated.
WEIGHTS = (
    "product",           # decays multiplied in as tokens arrive (the plain recurrence, or a running product)
    "sum",               # exp(A * sum of dt since), the dt all positive
    "difference",        # exp(cum_now - cum_then), prefix sums of A*dt since the checkpoint
)
#: Formats a ring may hold keys and deltas in: "bf16x2" and "fp16x2" are a value and the rounding it leaves, both in the narrow format.
RINGS = ("fp64", "fp32", "fp16", "bf16", "fp16x2", "bf16x2")
#: Reduction order: any order whatever, or a balanced tree.
ORDERS = ("any", "tree")


def _check(owner: str, name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"policy {owner}.{name} must be one of {', '.join(allowed)}, got {value!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _object(where: str, data: Any) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise ValueError(f"{where} must be an object, got {data!r}")
    return data


@dataclass(frozen=True, kw_only=True)
class Path:
    """How outputs and the folded state are evaluated on one path (an ordinary step, a flush step, ...).

    output: "state", y is read from the rebuilt state; "scores", y = decayed S0 C + sum of weighted scores (B_j.C) x_j.
    weights: one of WEIGHTS. token: product w*x*B folded into the state. readout: product state*C. score: B*C. value: score*x.
    accumulator: format of every sum. order: one of ORDERS. reads: whether a step that folds reads the "unrounded" or the "stored" state.
    folds: whether a step that folds takes everything up to and with its own token ("through"), or only the tokens "before" it; its own
    is then the first of the next window.
    In a delta rule, predict: product state*key. token: delta*key folded into the state. readout: state*query. score: key*key and key*query.
    value: score*delta.
    """

    output: str = "state"
    weights: str = "product"
    token: str = "fp32"
    readout: str = "fp32"
    score: str = "fp32"
    value: str = "fp32"
    accumulator: str = "fp32"
    order: str = "any"
    reads: str = "unrounded"
    folds: str = "through"
    predict: str = "fp32"

    def __post_init__(self) -> None:
        _check("path", "output", self.output, ("state", "scores"))
        _check("path", "weights", self.weights, WEIGHTS)
        for name in ("token", "readout", "score", "value", "predict"):
            _check("path", name, getattr(self, name), PRODUCTS)
        _check("path", "accumulator", self.accumulator, ("fp64", "fp32", "tensor", "fp16", "bf16"))
        _check("path", "order", self.order, ORDERS)
        _check("path", "reads", self.reads, ("unrounded", "stored"))
        _check("path", "folds", self.folds, ("through", "before"))


@dataclass(frozen=True, kw_only=True)
class Softplus:
    """How softplus is evaluated.

    form "naive": log(1 + e^x) with both roundings; "relative": within `units` fp32 roundings of the true value.
    identity_from: softplus(x) is x itself, exactly, for x >= identity_from; None where that is not promised.
    """

    form: str = "relative"
    units: float = 8.0
    identity_from: float | None = 20.0

    def __post_init__(self) -> None:
        _check("softplus", "form", self.form, ("naive", "relative"))
        if not _is_number(self.units) or not 0 < self.units < math.inf:
            raise ValueError(f"policy softplus.units must be a positive number of roundings, got {self.units!r}")
        if self.identity_from is not None and not (_is_number(self.identity_from) and math.isfinite(self.identity_from)):
            raise ValueError(f"policy softplus.identity_from must be a number or none, got {self.identity_from!r}")


@dataclass(frozen=True, kw_only=True)
class Storage:
    """A stored format: its name, rounding ("nearest", "truncate", "stochastic") and what overflow gives ("infinite", "saturate")."""

    format: str = "fp32"
    rounding: str = "nearest"
    overflow: str = "infinite"

    def __post_init__(self) -> None:
        _check("storage", "rounding", self.rounding, ("nearest", "truncate", "stochastic"))
        _check("storage", "overflow", self.overflow, ("infinite", "saturate"))


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Every rounding a kernel declares.

    paths: by name: "step" (a token that is folded at once), "output" (an ordinary replay step), "flush" (a step that folds).
    gate: format dt and A*dt are computed in. ring_dt: format dt is held in between steps. decay: format a computed decay or weight is held
    in. softplus: see Softplus. exponential: "exp" or "exp2" (argument multiplied by log2 e first): the row of the backend function table.
    ftz: results below the smallest normal number may be flushed to zero. state, output: Storage.
    In a delta rule gate and ring_dt are the formats of log decays. beta: format beta is held in. key: format normalised keys and queries
    are held in before every use. ring_key, ring_delta: one of RINGS, what keys and deltas are held in between steps. norm_units: keys and
    queries are within so many fp32 roundings of the quotient by their norm, the norm's sum of squares aside.
    """

    paths: dict[str, Path] = field(default_factory=lambda: {"step": Path()})
    gate: str = "fp32"
    ring_dt: str = "fp32"
    decay: str = "fp32"
    softplus: Softplus = field(default_factory=Softplus)
    exponential: str = "exp"
    ftz: bool = True
    state: Storage = field(default_factory=Storage)
    output: Storage = field(default_factory=Storage)
    beta: str = "fp32"
    key: str = "fp32"
    ring_key: str = "fp32"
    ring_delta: str = "fp32"
    norm_units: float = 8.0

    def __post_init__(self) -> None:
        for name in ("gate", "ring_dt", "decay", "beta", "key"):
            _check("policy", name, getattr(self, name), ("fp64", "fp32", "fp16", "bf16"))
        for name in ("ring_key", "ring_delta"):
            _check("policy", name, getattr(self, name), RINGS)
        if not _is_number(self.norm_units) or not 0 < self.norm_units < math.inf:
            raise ValueError(f"policy norm_units must be a positive number of roundings, got {self.norm_units!r}")
        for name, path in self.paths.items():
            if path.folds == "before" and name != "flush":
                raise ValueError(f"policy paths.{name}.folds is 'before'; only the path 'flush' folds the tokens before its own")
        _check("policy", "exponential", self.exponential, ("exp", "exp2"))
        if not isinstance(self.ftz, bool):
            raise ValueError(f"policy ftz must be true or false, got {self.ftz!r}")

    def built(self, *, state: str, output: str) -> Policy:
        """The same policy with the state and output formats of one build."""
        return replace(self, state=replace(self.state, format=state), output=replace(self.output, format=output))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Policy:
        """The policy of a claims file. Raises ValueError naming an unknown field or value."""
        parts: dict[str, Any] = dict(_object("policy", data))
        made: dict[str, Any] = {}
        if "paths" in parts:
            paths = _object("policy paths", parts.pop("paths"))
            made["paths"] = {name: _build(Path, value, f"paths.{name}") for name, value in paths.items()}
        for name, kind in (("softplus", Softplus), ("state", Storage), ("output", Storage)):
            if name in parts:
                made[name] = _build(kind, parts.pop(name), name)
        return _build(Policy, {**parts, **made}, "policy")  # type: ignore[no-any-return]


def _build(kind: Any, data: dict[str, Any], where: str) -> Any:
    known = {f.name for f in fields(kind)}
    data = _object(where, data)
    unknown = sorted(set(data) - known)
    if unknown:
        raise ValueError(f"{where} has no field {unknown[0]!r}; it has {', '.join(sorted(known))}")
    return kind(**data)
