"""Claims: what a kernel says of itself. The verdict holds it to them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path as FilePath
from typing import Any

from replaycheck_reference.policy import Policy

__all__ = ["CLAIMS_VERSION", "FEATURES", "GUARANTEES", "Claims", "Formats"]

CLAIMS_VERSION = 1

#: Guarantees a kernel may claim beyond those every kernel owes.
GUARANTEES = {
    "batch_invariant": "a request's bits do not depend on the other rows, on its row or on its slot",
    "nan_poison": "NaN in memory that must not be read changes nothing",
    "phase_invariant": "a request's bits do not depend on where in the ring it stands",
    "nan_in_draft": "NaN in drafts that are rejected changes nothing",
    "spec_exact": "accepted tokens have the bits that they have in rows of one token",
}

_DELTA = {
    "bias": "dt_bias is added to the raw gate",
    "groups": "several value heads may share a key head",
    "lower_bound": "the gate may be lower_bound sigmoid(exp(A_log) raw)",
    "no_A_log": "the gate may come without A_log",
    "doubled": "beta may be 2 sigmoid(b)",
    "norm_outside": "eps may be added outside of the root",
    "norm_max": "the norm may be the larger of the root and eps",
    "norm_off": "keys and queries may come normalised",
}

#: By recurrence, what a kernel may support beyond the bare one.
FEATURES: dict[str, dict[str, str]] = {
    "mamba2": {
        "bias": "dt_bias is added to dt",
        "skip": "D x is added to the output, D one number a head",
        "gated": "the output is multiplied by z sigmoid(z)",
        "groups": "several groups of heads with B and C of their own",
        "no_softplus": "dt may come without softplus",
        "A_log": "the decay may be handed over as A_log",
        "skip_rows": "D may be one number a row of a head",
        "dt_limits": "dt may be held to two limits",
    },
    "gdn": _DELTA, "kda": _DELTA,
}


@dataclass(frozen=True, kw_only=True)
class Formats:
    """The formats of one build: stored state, activations (x, B, C, dt, z) and outputs."""

    state: str = "fp32"
    activation: str = "bf16"
    output: str = "bf16"


@dataclass(frozen=True, kw_only=True)
class Claims:
    """What a kernel claims.

    name: shown in reports. recurrence: of FEATURES. kind: "step", "replay" or "verify". entry: "raw", gates before bias and
    softplus, or "given", of a delta rule: log decays and betas themselves.
    policy: see Policy; its state and output formats are set by the build under test.
    states, activations, outputs: formats it can be built for; no outputs: always that of the activations. head_dims, state_dims: dims it
    supports, empty = any.
    capacities: smallest and largest ring. windows: of a verify kernel, the fewest and the most tokens that a row may be built for; a build
    takes a window of at most its capacity. features: of those of its recurrence.
    guarantees: of GUARANTEES. pad_output: what pad rows of the output hold, "untouched" or "zero".
    """

    name: str
    recurrence: str = "mamba2"
    kind: str = "step"
    entry: str = "raw"
    policy: Policy = field(default_factory=Policy)
    states: tuple[str, ...] = ("fp32",)
    activations: tuple[str, ...] = ("bf16",)
    outputs: tuple[str, ...] = ("bf16",)
    head_dims: tuple[int, ...] = ()
    state_dims: tuple[int, ...] = ()
    capacities: tuple[int, int] = (1, 1)
    windows: tuple[int, int] = (1, 1)
    features: tuple[str, ...] = ("bias", "skip", "groups")
    guarantees: tuple[str, ...] = ()
    pad_output: str = "untouched"
    version: int = CLAIMS_VERSION

    def __post_init__(self) -> None:
        self._check_types()
        if self.recurrence not in FEATURES:
            raise ValueError(f"claims.recurrence must be one of {', '.join(FEATURES)}, got {self.recurrence!r}")
        for name, allowed in (("kind", ("step", "replay", "verify")),
                              ("entry", ("raw",) if self.recurrence == "mamba2" else ("raw", "given")),
                              ("pad_output", ("untouched", "zero")), ("version", (CLAIMS_VERSION,))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"claims.{name} must be one of {', '.join(map(str, allowed))}, got {getattr(self, name)!r}")
        for name, known in (("guarantees", tuple(GUARANTEES)), ("features", tuple(FEATURES[self.recurrence])),
                            *((name, ("fp32", "fp16", "bf16")) for name in ("states", "activations", "outputs"))):
            for value in getattr(self, name):
                if value not in known:
                    raise ValueError(f"claims.{name} holds {value!r}; known are {', '.join(known)}")
        for name in ("states", "activations"):
            if not getattr(self, name):
                raise ValueError(f"claims.{name} must name at least one format, got {getattr(self, name)!r}")
        for name in ("capacities", "windows"):
            low, high = getattr(self, name)
            if not 1 <= low <= high:
                raise ValueError(f"claims.{name} must be (smallest, largest) with 1 <= smallest <= largest, got {getattr(self, name)}")
        if self.windows[0] > self.capacities[1]:
            raise ValueError(f"claims.windows must begin at or below the largest capacity {self.capacities[1]}, got {self.windows}")
        wanted = {"step": {"step"}, "replay": {"output", "flush"}, "verify": {"output", "flush"}}[self.kind]
        missing = sorted(wanted - set(self.policy.paths))
        if missing:
            raise ValueError(f"claims.policy.paths of a {self.kind} kernel needs {missing[0]!r}")

    def _check_types(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"claims.name must be a string that is not empty, got {self.name!r}")
        if not isinstance(self.policy, Policy):
            raise ValueError(f"claims.policy must be a policy, got {self.policy!r}")
        for name in ("states", "activations", "outputs", "head_dims", "state_dims", "capacities", "windows", "features",
                     "guarantees"):
            if not isinstance(getattr(self, name), (tuple, list)):
                raise ValueError(f"claims.{name} must be a list, got {getattr(self, name)!r}")
        for name in ("head_dims", "state_dims", "capacities", "windows"):
            for value in getattr(self, name):
                if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                    raise ValueError(f"claims.{name} holds {value!r}; it takes integers of at least 1")
        for name in ("capacities", "windows"):
            if len(getattr(self, name)) != 2:
                raise ValueError(f"claims.{name} must be (smallest, largest), got {getattr(self, name)}")

    def outputs_of(self, activation: str) -> tuple[str, ...]:
        """The output formats of builds with this activation format."""
        return self.outputs or (activation,)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Claims:
        """Claims from a parsed claims file. Raises ValueError naming the field and the value."""
        known = {f.name for f in fields(Claims)}
        unknown = sorted(set(data) - known)
        if unknown:
            raise ValueError(f"claims has no field {unknown[0]!r}; it has {', '.join(sorted(known))}")
        made: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        if "policy" in made:
            made["policy"] = Policy.from_json(made["policy"])
        return Claims(**made)

    @staticmethod
    def load(path: FilePath) -> Claims:
        """Claims read from a JSON file. Raises ValueError naming the file."""
        try:
            return Claims.from_json(json.loads(path.read_text()))
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"claims file {path}: {error}") from error
