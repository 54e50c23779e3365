"""The inference: a kernel is played without a word of its policy, and the smallest policy that explains it is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from replaycheck.contract.claims import Claims
from replaycheck.contract.errors import KernelError
from replaycheck.play.source import PlaySource
from replaycheck.verdict.measurement import Measurement
from replaycheck.verdict.suites import ANALOGUE
from replaycheck_reference.gauge.functions import FunctionTable
from replaycheck_reference.policy import Policy

from .lattice import held, put
from .probes import BUILDS, Probe, Probes
from .reading import folds, identity_from, instructions_of, rounding_mode, with_instructions
from .search import Finding, explain, finding, loosened, tightened
from .stages import Stage, folding, stages, start

__all__ = ["Inference", "infer"]

Told = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Inference:
    """What was inferred of one kernel.

    claims: the kernel's, with the inferred policy in place of its own. findings: one a field. unexplained: measurements that no policy
    explains, worst first; then the policy is only the nearest. plays: how many were judged. notes: what could not be looked at.
    """

    claims: Claims
    findings: tuple[Finding, ...]
    unexplained: tuple[Measurement, ...]
    plays: int
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "claims": self.claims.to_json(), "findings": [vars(found) for found in self.findings], "plays": self.plays,
            "unexplained": [{"guarantee": m.guarantee, "regime": m.regime, "case": m.case, "ratio": min(m.ratio, 1e300)}
                            for m in self.unexplained],
            "notes": list(self.notes),
        }


def infer(
    source: PlaySource, table: FunctionTable, *, seed: int = 0, regimes: Sequence[str] = ANALOGUE, told: Told | None = None
) -> Inference:
    """The smallest policy that explains what the kernel does. Of its claims all is taken but the policy.

    table: backend function table. seed: which cases are drawn. regimes: those in which the policy is confirmed, a new draw each; what a
    draw does not confirm is loosened further. told: hears of every stage.
    Raises KernelError where the kernel raises, crashes or leaves its memory.
    """
    say = told or (lambda text: None)
    claims = source.claims
    probes = Probes(source, table, start(claims), seed=seed)
    say("playing probes")
    order = _folding_order(claims, probes)
    policy, planned = _begun(claims, order), list(stages(claims, folds=order))
    for stage in planned:
        say(stage.name)
        policy = explain(stage, policy, probes)
    policy, seen = _read_off(policy, claims, probes)
    say("confirming")
    extra = list(_confirming(claims, probes, source, regimes, seed + 1))
    known = {found.field for found in seen}
    open_ = [kept for stage in planned if (kept := _without(stage, known)).fields]
    fields = [field for stage in open_ for field in stage.fields]
    everything = [*probes.made(), *extra]
    policy = tightened(loosened(policy, open_, everything), policy, fields, everything)
    findings = [finding(field, stage, policy, probes, extra) for stage in open_ for field in stage.fields]
    say("reading instructions")
    instructions, notes = instructions_of(everything)
    policy, read = with_instructions(policy, instructions)
    replaced = {found.field for found in read}
    failing = [m for probe in everything for m in probe.measurements(policy) if not m.passed]
    return Inference(
        claims=replace(claims, policy=policy), plays=len(everything), notes=tuple(notes),
        findings=(*(found for found in findings if found.field not in replaced), *seen, *read, *_fixed(policy, claims)),
        unexplained=tuple(sorted(failing, key=lambda m: -m.ratio)),
    )


def _without(stage: Stage, known: set[str]) -> Stage:
    return replace(stage, fields=tuple(field for field in stage.fields if field.name not in known))


def _folding_order(claims: Claims, probes: Probes) -> str:
    """What a flush folds. Raises KernelError where the kernel never publishes, or left its memory."""
    probe = probes.of("probe-product")
    if probe is None:
        raise KernelError(f"kernel {claims.name} can be built for no probe")
    if probe.play.stopped:
        raise KernelError(probe.play.stopped)
    if not any(window.end is not None for window in probe.play.windows):
        raise KernelError(f"kernel {claims.name} published no state in {len(probe.play.case.schedule) - 1} steps")
    return "through" if claims.kind == "step" else folds(probe)


def _begun(claims: Claims, order: str) -> Policy:
    policy = start(claims)
    if order == "before":
        policy = put(put(policy, "paths.flush.folds", "before"), "paths.flush.reads", "stored")
    return policy


def _read_off(policy: Policy, claims: Claims, probes: Probes) -> tuple[Policy, list[Finding]]:
    """The policy with what is seen directly: rounding modes other than to nearest, and from where softplus is the identity."""
    found: list[Finding] = []
    for which, build in (("state", "narrow"), ("output", "short")):
        probe = probes.of("probe-product", build)
        if probe is not None and getattr(policy, which).rounding != "nearest":
            mode = rounding_mode(probe, policy, which)
            policy = put(policy, f"{which}.rounding", mode)
            note = "more than half an ulp away, always toward zero" if mode == "truncate" else "up to an ulp away, either side"
            found.append(Finding(field=f"{which}.rounding", value=mode, status="read", regime=probe.regime, note=note))
    probe = probes.of("probe-identity")
    value = None if probe is None else identity_from(probe)
    policy = replace(policy, softplus=replace(policy.softplus, identity_from=value))
    found.append(Finding(
        field="softplus.identity_from", value=value, status="not observable" if probe is None else "read", regime="probe-identity",
        note="no softplus to be asked for" if probe is None else "dt in the state is raw dt from here on" if value is not None else
        "dt in the state is not raw dt, at 32 and beyond"))
    if claims.kind == "replay":
        found.append(Finding(field="paths.flush.folds", value=policy.paths["flush"].folds, status="read", regime="probe-product",
                             note="the tokens in what a flush published"))
    return policy, found


def _confirming(claims: Claims, probes: Probes, source: PlaySource, regimes: Sequence[str], seed: int) -> Iterator[Probe]:
    """New draws, builds and forms in turn."""
    for number, regime in enumerate(regimes):
        case = probes.case(regime, BUILDS[number % len(BUILDS)], form=number // 2, seed=seed)
        if case is not None:
            yield probes.judged(source.play(case))


def _fixed(policy: Policy, claims: Claims) -> list[Finding]:
    """Fields that no probe looks at."""
    names = ["state.overflow", "output.overflow"]
    if claims.kind == "step":
        names += ["ring_dt", f"paths.{folding(claims)}.weights"]
    else:
        names.append("paths.output.reads")
    return [Finding(field=name, value=held(policy, name), status="not observable", note="no probe looks at it; the default stands")
            for name in names]
