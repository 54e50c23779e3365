"""The stages of an inference: fields that stand together, and the probes in which nothing else is inexact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from replaycheck.contract.claims import Claims
from replaycheck_reference.formats.arrays import unit
from replaycheck_reference.gauge.units import accumulator_unit, additions, product_error
from replaycheck_reference.policy import Path, Policy, Storage

from .lattice import ACCUMULATORS, PRODUCTS, SOFTPLUS, Field
from .probes import formats_of

__all__ = ["Stage", "Where", "folding", "stages", "start"]

#: (regime, build, what): the probe and the ratio that speaks about a stage.
Where = tuple[str, str, str]

_COLUMNS = 128      # of a probe's state, give or take: sizes are for comparing only


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Fields inferred together. evidence: where they show and fields of later stages do not. size: how loose a policy is in these fields;
    of two candidates the one of smaller size is stricter. It is a relative error, give or take, so that stages can be compared."""

    name: str
    fields: tuple[Field, ...]
    evidence: tuple[Where, ...]
    size: Callable[[Policy], float]


def folding(claims: Claims) -> str:
    """The path that makes the published state."""
    return "step" if claims.kind == "step" else "flush"


def start(claims: Claims) -> Policy:
    """The bottom of the lattice: fp64 throughout, sums as trees, nothing flushed, everything rounded to nearest.

    Where no output is in fp32 nothing could tell fp64 from fp32, and the bottom is fp32.
    """
    wide = "fp64" if formats_of(claims, "wide").output == "fp32" else "fp32"
    strict = Path(order="tree", weights="product" if claims.kind == "step" else "sum", token=wide, readout=wide, score=wide, value=wide,
                  accumulator=wide)
    names = ("step",) if claims.kind == "step" else ("output", "flush")
    return Policy(paths=dict.fromkeys(names, strict), gate=wide, ring_dt=wide, decay=wide, softplus=SOFTPLUS[0], ftz=False,
                  state=Storage(), output=Storage())


def stages(claims: Claims, *, folds: str) -> Iterator[Stage]:
    """In order: each may rely on what those before it found. folds: of the flush path, as read off the windows."""
    folded = folding(claims)
    paths = ("step",) if claims.kind == "step" else ("output", "flush")
    for path in paths:
        yield _readout(path)
    yield _token(folded)
    for path in paths:
        yield _products(path, folds_here=path == folded)
    yield _gates(claims)
    yield _decays(claims, folded)
    for path in paths:
        if path != folded:
            yield _weights(path)
    yield Stage(name="underflow", fields=(Field(name="ftz", values=(False, True)),), size=lambda policy: policy.ftz * unit("fp64"),
                evidence=(("subnormal", "wide", "state"), *(("subnormal", "wide", f"outputs:{path}") for path in paths)))
    yield _storage("state", tuple(("probe-product", build, "state") for build in ("narrow", "wide")))
    yield _storage("output", tuple(("probe-product", build, f"outputs:{path}") for build in ("short", "wide") for path in paths))
    yield _reads(folded, folds)


def _readout(path: str) -> Stage:
    return Stage(
        name=f"readout on path {path}", size=partial(_readout_size, path),
        fields=(Field(name=f"paths.{path}.accumulator", values=ACCUMULATORS), Field(name=f"paths.{path}.readout", values=PRODUCTS),
                Field(name=f"paths.{path}.order", values=("tree", "any"))),
        evidence=tuple((regime, build, f"outputs:{path}") for regime in ("readout", "probe-sums") for build in ("wide", "thin")))


def _readout_size(name: str, policy: Policy) -> float:
    path = policy.paths[name]
    return product_error(path.readout, given="fp32").relative + additions(_COLUMNS, path.order) * accumulator_unit(path.accumulator)


def _product_size(names: tuple[str, ...], path: str, policy: Policy) -> float:
    return sum(product_error(getattr(policy.paths[path], name), given="fp32").relative for name in names)


def _token(path: str) -> Stage:
    return Stage(name="token products in the state", fields=(Field(name=f"paths.{path}.token", values=PRODUCTS),),
                 size=partial(_product_size, ("token",), path),
                 evidence=tuple(("probe-product", build, "state") for build in ("wide", "thin")))


def _products(path: str, *, folds_here: bool) -> Stage:
    """How a token reaches the output. The token product of the path that folds is known from its state."""
    own = () if folds_here else (Field(name=f"paths.{path}.token", values=PRODUCTS),)
    return Stage(
        name=f"tokens in outputs of path {path}", size=partial(_output_size, path),
        fields=(Field(name=f"paths.{path}.output", values=("state", "scores")), *own,
                Field(name=f"paths.{path}.score", values=PRODUCTS), Field(name=f"paths.{path}.value", values=PRODUCTS)),
        evidence=tuple(("probe-product", build, f"outputs:{path}") for build in ("wide", "thin")))


def _output_size(path: str, policy: Policy) -> float:
    """Products that an output does not go through count as well, so that they stay strict."""
    scores = policy.paths[path].output == "scores"
    return _product_size(("token", "score", "value"), path, policy) + scores * unit("fp32")


def _gates(claims: Claims) -> Stage:
    ring = () if claims.kind == "step" else (Field(name="ring_dt", values=("fp64", "fp32", "fp16", "bf16")),)
    gate = Field(name="gate", values=("fp64", "fp32", "fp16", "bf16"))
    return Stage(name="dt", fields=(gate, *ring, Field(name="softplus", values=SOFTPLUS)), size=_gate_size,
                 evidence=tuple(("probe-dt", build, what) for build in ("wide", "thin") for what in ("state", "gates")))


def _gate_size(policy: Policy) -> float:
    softplus = 2.0**-12 if policy.softplus.form == "naive" else policy.softplus.units * unit("fp32")
    return 2 * unit(policy.gate) + unit(policy.ring_dt) + softplus


_WEIGHTS = ("sum", "product", "difference")
_DECAYING = ("slow", "fast", "trained-like", "spike", "extreme-dt")


def _decays(claims: Claims, path: str) -> Stage:
    weights = () if claims.kind == "step" else (Field(name=f"paths.{path}.weights", values=_WEIGHTS),)
    return Stage(
        name="decays in the state", size=partial(_decay_size, path),
        fields=(Field(name="decay", values=("fp64", "fp32", "fp16", "bf16")), Field(name="exponential", values=("exp", "exp2")), *weights),
        evidence=tuple((regime, "wide", what) for regime in _DECAYING for what in ("state", "gates")))


def _decay_size(path: str, policy: Policy) -> float:
    looser = _WEIGHTS.index(policy.paths[path].weights) + (policy.exponential == "exp2")
    return unit(policy.decay) + looser * unit("fp32")


def _weights(path: str) -> Stage:
    return Stage(name=f"weights on path {path}", fields=(Field(name=f"paths.{path}.weights", values=_WEIGHTS),),
                 size=lambda policy: _WEIGHTS.index(policy.paths[path].weights) * unit("fp32"),
                 evidence=tuple((regime, "wide", f"outputs:{path}") for regime in _DECAYING))


def _storage(which: str, evidence: tuple[Where, ...]) -> Stage:
    """Truncation and stochastic rounding have one budget; which of the two it is is read off signs."""
    return Stage(name=f"rounding of the {which}", fields=(Field(name=f"{which}.rounding", values=("nearest", "stochastic")),),
                 evidence=evidence, size=lambda policy: (getattr(policy, which).rounding != "nearest") * unit("bf16") / 2)


def _reads(path: str, folds: str) -> Stage:
    """A flush that folds before its own token starts from what it stored; to start from the unrounded state is the looser claim there."""
    values = ("stored", "unrounded") if folds == "before" else ("unrounded", "stored")
    return Stage(name="what a step that folds reads", fields=(Field(name=f"paths.{path}.reads", values=values),),
                 size=lambda policy: values.index(policy.paths[path].reads) * unit("bf16") / 2,
                 evidence=tuple((regime, "narrow", f"outputs:{path}") for regime in ("probe-product", "decay-one")))
