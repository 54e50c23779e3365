"""The search: field by field from the strictest value, loosened only where nothing stricter explains what isolates the field."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from replaycheck_reference.policy import Policy

from .lattice import Field, held, narrowed, put, said, sound
from .probes import Probe, Probes
from .stages import Stage, Where

__all__ = ["Finding", "explain", "finding", "loosened", "tightened"]

#: Fields loosened at most to explain what the stages left.
_REPAIRS = 12


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What is known of one field.

    status: "determined", every stricter value is rejected; "bounded", nothing stricter could be told apart or there is nothing stricter;
    "not observable", no probe depends on it; "read", seen directly and not by a budget. regime, build: of the probe that says so.
    margin: "determined": ratio of the nearest stricter value there; "bounded": share of its budget that was used. note: in words.
    """

    field: str
    value: object
    status: str
    regime: str = ""
    build: str = ""
    margin: float | None = None
    note: str = ""


def explain(stage: Stage, policy: Policy, probes: Probes) -> Policy:
    """The policy with the stage's fields at the strictest values that explain its evidence; as given where none does."""
    evidence = _evidence(stage.evidence, probes)
    if not evidence:
        return policy
    for candidate in _candidates(stage, policy):
        if all(probe.ratio(candidate, what) <= 1 for probe, what in evidence):
            return candidate
    return policy


def _evidence(places: Sequence[Where], probes: Probes) -> list[tuple[Probe, str]]:
    """The probes that the kernel can be asked for, each once."""
    found = [(probes.of(regime, build), what) for regime, build, what in places]
    return list({(id(probe), what): (probe, what) for probe, what in found if probe is not None}.values())


def _candidates(stage: Stage, policy: Policy) -> Iterator[Policy]:
    """Every combination of the stage's values that is considered, strictest first."""
    made: dict[str, Policy] = {}
    for values in itertools.product(*(field.values for field in stage.fields)):
        candidate = policy
        for field, value in zip(stage.fields, values, strict=True):
            candidate = put(candidate, field.name, value)
        candidate = narrowed(candidate)
        if sound(candidate) and all(held(candidate, f.name) == v for f, v in zip(stage.fields, values, strict=True)):
            made[repr(candidate)] = candidate
    return iter(sorted(made.values(), key=lambda c: (stage.size(c), [f.rank(c) for f in stage.fields])))


def loosened(policy: Policy, stages: Sequence[Stage], probes: Sequence[Probe]) -> Policy:
    """A policy that explains every probe, loosened one field at a time from the given one, by the least that helps; it may not get there.

    The smallest single change that explains everything is taken; where there is none, the one that lowers the worst ratio most. Where
    the loosest policy of all does not explain, the policy is returned as given.
    """
    loosest = policy
    for field in (field for stage in stages for field in stage.fields):
        loosest = put(loosest, field.name, field.values[-1])
    if any(probe.ratio(policy, "all") > 1 and probe.ratio(loosest, "all") > 1 for probe in probes):
        return policy
    for _ in range(_REPAIRS):
        failing = [probe for probe in probes if probe.ratio(policy, "all") > 1]
        if not failing:
            break
        best = (max(probe.ratio(policy, "all") for probe in failing), policy)
        for candidate in _looser(policy, stages):
            ratio = max(probe.ratio(candidate, "all") for probe in failing)
            if ratio < best[0]:
                best = (ratio, candidate)
            if ratio <= 1:
                break
        if best[1] is policy:
            break
        policy = best[1]
    return policy


def _looser(policy: Policy, stages: Sequence[Stage]) -> list[Policy]:
    """Single changes to a looser value, the smallest first."""
    found = [(stage.size(candidate) - stage.size(policy), repr(candidate), candidate)
             for stage in stages for field in stage.fields for value in field.values[field.rank(policy) + 1 :]
             if sound(candidate := put(policy, field.name, value))]
    return [candidate for _, _, candidate in sorted(found, key=lambda entry: entry[:2])]


def tightened(policy: Policy, since: Policy, fields: Sequence[Field], probes: Sequence[Probe]) -> Policy:
    """The policy with every field that was loosened since then at the strictest value with which all probes are still explained."""
    for field in fields:
        for rank in range(field.rank(since), field.rank(policy)):
            candidate = put(policy, field.name, field.values[rank])
            if sound(candidate) and all(probe.ratio(candidate, "all") <= 1 for probe in probes):
                policy = candidate
                break
    return policy


def finding(field: Field, stage: Stage, policy: Policy, probes: Probes, extra: Sequence[Probe]) -> Finding:
    """What is known of one field under the policy that was found. extra: probes to ask as a whole where the stage's own reject nothing."""
    evidence, name = _evidence(stage.evidence, probes), field.name
    value, stricter = said(held(policy, name)), _stricter(field, policy)
    if stricter is not None:
        for places in (evidence, [(probe, "all") for probe in extra]):
            probe, ratio = _worst(places, stricter)
            if probe is not None and ratio > 1:
                return Finding(field=name, value=value, status="determined", regime=probe.regime, build=_build(probe), margin=ratio,
                               note=f"{_instead(field, stricter)} is rejected")
    others = [c for v in field.values if v != held(policy, name) and sound(c := put(policy, name, v))]
    depends = [(probe, what) for probe, what in evidence if any(probe.ratio(policy, what) != probe.ratio(c, what) for c in others)]
    probe, ratio = _worst(depends, policy)
    if probe is None:
        return Finding(field=name, value=value, status="not observable", note="no worst ratio depends on it")
    note = "nothing stricter is considered" if stricter is None else f"{_instead(field, stricter)} would explain as well"
    return Finding(field=name, value=value, status="bounded", regime=probe.regime, build=_build(probe), margin=ratio, note=note)


def _instead(field: Field, stricter: Policy) -> str:
    value = said(held(stricter, field.name))
    return f"fp64 throughout {field.name.rpartition('.')[0]}" if value == "fp64" and field.name.startswith("paths.") else str(value)


def _stricter(field: Field, policy: Policy) -> Policy | None:
    """The policy with the next stricter value; where that is fp64, with all of the path in fp64."""
    rank = field.rank(policy)
    if rank == 0:
        return None
    value = field.values[rank - 1]
    parts = field.name.split(".")
    if value == "fp64" and parts[0] == "paths":
        for name in ("accumulator", "token", "readout", "score", "value"):
            policy = put(policy, f"paths.{parts[1]}.{name}", value)
        return policy
    candidate = put(policy, field.name, value)
    return candidate if sound(candidate) else None


def _build(probe: Probe) -> str:
    formats = probe.play.case.formats
    return f"state {formats.state}, activations {formats.activation}, outputs {formats.output}"


def _worst(evidence: Sequence[tuple[Probe, str]], policy: Policy) -> tuple[Probe | None, float]:
    """The probe with the worst ratio."""
    best: tuple[Probe | None, float] = (None, -math.inf)
    for probe, what in evidence:
        ratio = probe.ratio(policy, what)
        if ratio > best[1]:
            best = probe, ratio
    return best
