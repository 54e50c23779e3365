"""Probes: the cases a kernel plays for inference, and what is kept of each play."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from replaycheck.cases.case import Case
from replaycheck.cases.regimes import PROBES
from replaycheck.cases.schedule import plain
from replaycheck.contract.claims import Claims, Formats
from replaycheck.judge.windows.batches import Batch, batches, under
from replaycheck.judge.windows.gates import gate_measurement
from replaycheck.judge.windows.pooled import pooled_decay_measurements
from replaycheck.judge.windows.residuals import output_measurement, state_measurement
from replaycheck.judge.windows.rounding import rounding_measurements
from replaycheck.play.result import Play
from replaycheck.play.source import PlaySource
from replaycheck.verdict.measurement import Measurement
from replaycheck.verdict.plan import builds, nearest, variants
from replaycheck_reference.formats.spec import FORMATS
from replaycheck_reference.gauge.functions import FunctionTable
from replaycheck_reference.policy import Policy

__all__ = ["BUILDS", "Probe", "Probes", "formats_of"]

#: Which formats a probe is built in: "wide", the widest of each kind; "thin", the narrowest activations beside them; "narrow", the
#: narrowest state; "short", the narrowest output.
BUILDS = ("wide", "thin", "narrow", "short")

_CAPACITY = 4
#: Regimes that are about sums over the state dim, which are then long.
_SUMS, _LONG = ("readout", "probe-sums"), 128


def _bits(name: str) -> int:
    return FORMATS[name].precision


def formats_of(claims: Claims, build: str) -> Formats:
    """The claimed build of that kind."""
    def order(f: Formats) -> tuple[int, ...]:
        return {
            "wide": (_bits(f.output), _bits(f.state), _bits(f.activation)),
            "thin": (_bits(f.state), -_bits(f.activation), _bits(f.output)),
            "narrow": (-_bits(f.state), _bits(f.output), _bits(f.activation)),
            "short": (-_bits(f.output), _bits(f.state), _bits(f.activation)),
        }[build]
    return max(builds(claims), key=order)


@dataclass
class Probe:
    """One play and its windows, as stacked terms. Ratios of a policy are kept: a search asks for the same ones again."""

    play: Play
    judged: list[Batch]
    table: FunctionTable
    _known: dict[tuple[str, str], float] = field(default_factory=dict)
    _last: tuple[str, list[Batch]] = ("", [])

    @property
    def regime(self) -> str:
        return self.play.case.regime

    def ratio(self, policy: Policy, what: str) -> float:
        """The worst ratio of its windows: what is "outputs:PATH", "state", "gates" or "all"; 0 where there is nothing of the kind."""
        key = (repr(policy), what)
        if key not in self._known:
            self._known[key] = self._measured(policy, what)
        return self._known[key]

    def measurements(self, policy: Policy) -> list[Measurement]:
        """The window checks of the play under a policy."""
        judged = self._under(policy)
        found = [output_measurement(judged), state_measurement(judged), gate_measurement(judged), *rounding_measurements(judged)]
        if self.regime not in PROBES:       # where nothing cancels, operands that are cut pull a pooled decay along; that is no gate
            found += pooled_decay_measurements(judged)
        return [replace(m, regime=self.regime, case=self.play.case.id) for m in found if m is not None]

    def built(self, policy: Policy) -> Policy:
        formats = self.play.case.formats
        return policy.built(state=formats.state, output=formats.output)

    def _under(self, policy: Policy) -> list[Batch]:
        """The windows under a policy; a search asks for several things under the same one in turn."""
        if self._last[0] != repr(policy):
            self._last = repr(policy), [under(batch, self.built(policy), self.table) for batch in self.judged]
        return self._last[1]

    def _measured(self, policy: Policy, what: str) -> float:
        if what == "all":
            return max((m.ratio for m in self.measurements(policy)), default=0.0)
        judged = self._under(policy)
        if what == "gates":
            gate = gate_measurement(judged)
            return 0.0 if gate is None else gate.ratio
        if what == "state":
            return max((float(b.end.ratio().max()) for b in judged if b.end is not None), default=0.0)
        path = what.partition(":")[2]
        ratios = [float(b.outputs.ratio()[:, token].max()) for b in judged for token, name in enumerate(b.paths) if name == path]
        return max(ratios, default=0.0)


class Probes:
    """Plays of one kernel by regime and build, each made once, when first asked for."""

    def __init__(self, source: PlaySource, table: FunctionTable, neutral: Policy, *, seed: int = 0) -> None:
        self.claims, self._source, self._table, self._neutral, self._seed = source.claims, source, table, neutral, seed
        self._made: dict[tuple[str, str], Probe | None] = {}

    def of(self, regime: str, build: str = "wide") -> Probe | None:
        """The probe; None where the kernel cannot be built for the regime."""
        key = (regime, build)
        if key not in self._made:
            case = self.case(regime, build)
            same = next((b for b in BUILDS[: BUILDS.index(build)] if formats_of(self.claims, b) == formats_of(self.claims, build)), None)
            fresh = None if case is None or same is not None else self.judged(self._source.play(case))
            self._made[key] = fresh if same is None else self.of(regime, same)
        return self._made[key]

    def judged(self, play: Play) -> Probe:
        """A play with the terms of its windows."""
        case = play.case
        policy = self._neutral.built(state=case.formats.state, output=case.formats.output)
        layers = [case.layer(i) for i in range(case.layers)]
        return Probe(play=play, judged=list(batches(play.windows, layers, policy, self._table)), table=self._table)

    def made(self) -> Iterator[Probe]:
        """Every probe so far."""
        return iter({id(p): p for p in self._made.values() if p is not None}.values())

    def case(self, regime: str, build: str, *, form: int | None = None, seed: int | None = None) -> Case | None:
        """The case of a probe: one request, tokens for two folds. form: which claimed variant, None for the plain one without skip."""
        claims = self.claims
        forms = variants(claims)
        variant = replace(forms[0], skip=False) if form is None else forms[form % len(forms)]
        low, high = claims.capacities
        capacity = min(max(_CAPACITY, low), high) if claims.kind == "replay" else 1
        tokens = min(2 * capacity + 2, 40) if claims.kind == "replay" else 6
        for chosen in dict.fromkeys((variant, *forms)):
            try:
                return Case(
                    name=f"infer {regime}", heads=4, head_dim=nearest(16, claims.head_dims),
                    state_dim=nearest(_LONG if regime in _SUMS else 32, claims.state_dims),
                    variant=chosen, formats=formats_of(claims, build), capacity=capacity, slots=2, regime=regime,
                    seed=self._seed if seed is None else seed, schedule=plain(1, tokens),
                )
            except ValueError:
                continue
        return None
