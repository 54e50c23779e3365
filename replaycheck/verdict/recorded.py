"""The plan for a recording: the cases that play it, for a kernel of given claims."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from replaycheck.cases.case import Case
from replaycheck.cases.families import family
from replaycheck.cases.layers import Geometry
from replaycheck.cases.recorded import START, forms_played
from replaycheck.cases.recordings import RecordingFile
from replaycheck.cases.regimes import RECORDED
from replaycheck.cases.schedule import Schedule, mixed, plain, restarted
from replaycheck.contract.claims import Claims, Formats
from replaycheck.contract.errors import UsageError
from replaycheck.play.supported import check_supported

from .checks import CHECKS, PLAY, Selection
from .plan import Job, builds
from .suites import RELATIONS

__all__ = ["RecordedPlan"]

#: Builds that stretches are played in. The first few of a kernel show every format.
_BUILDS = 6
#: Rings in which the stretches are played from end to end.
_CAPACITIES = (4, 8, 16, 3)
#: Requests of a life in which slots are handed from one prefill to the next.
_LIVE = 3


@dataclass
class RecordedPlan:
    """The jobs of a recording for a kernel: stretches side by side from the state their prefill handed over, up to six builds and a few
    rings in turn; and lives of a pool in which prefills are handed over while others decode, with the relations between plays.

    not_covered: what of the recording the kernel is not asked for, in words. Raises UsageError where no case can be made of the recording
    for this kernel, with the reason of the first.
    """

    recording: RecordingFile
    claims: Claims
    seed: int = 0
    selection: Selection = field(default_factory=Selection)
    not_covered: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        made = self.recording.read()
        own = self.claims.recurrence
        if not made.of(own):
            raise UsageError(f"recording {self.recording.path} has no layer of recurrence {own}, which kernel {self.claims.name} is of")
        others = [layer.name for layer in made.layers if layer.recurrence != own]
        self.not_covered += [f"layers of the recording of other recurrences: {', '.join(others)}"] if others else []
        layers = made.of(own)
        like_first = [(layer.dims, layer.variant) == (layers[0].dims, layers[0].variant) for layer in layers]
        self._stack = [*like_first, False].index(False)
        variant, *plainer = forms_played(layers[0].form)
        geometry = Geometry.of(layers[0].layer())
        missing = [name for name, needed in family(own).needs(variant, geometry).items() if needed and name not in self.claims.features]
        if "gated" in missing and plainer:
            self.not_covered.append("the gate z of the recording, which the kernel does not claim")
            variant = plainer[0]
        if self._stack < len(layers):
            self.not_covered.append(f"layers of the recording from {layers[self._stack].name} on: they are not like the first")
        self._variant, self._tokens, self._stretches = variant, made.tokens, made.stretches
        self._dims: dict[str, Any] = {name: getattr(geometry, name) for name in ("heads", "head_dim", "state_dim", "groups")}
        self._made = list(self._jobs())

    def jobs(self) -> Iterator[Job]:
        """The jobs in order; the same arguments give the same jobs."""
        return iter(self._made)

    def count(self) -> int:
        """How many jobs there are."""
        return len(self._made)

    @property
    def owed(self) -> tuple[str, ...]:
        """The guarantees that must have been measured: those that the selected checks owe."""
        return tuple(guarantee for check in self.selection.checks_of((PLAY, "windows", *RELATIONS))
                     for guarantee in CHECKS[check].owes(self.claims))

    def _jobs(self) -> Iterator[Job]:
        played, capacities = builds(self.claims)[:_BUILDS], self._capacities()
        if len(builds(self.claims)) > _BUILDS:
            self.not_covered.append(f"builds: {len(builds(self.claims)) - _BUILDS} of {len(builds(self.claims))} claimed")
        for number in range(max(len(played), len(capacities))):
            formats, capacity = played[number % len(played)], capacities[number % len(capacities)]
            requests = min(self._stretches, 2)
            yield from self._job(("windows", "compile"), f"stretches at capacity {capacity}", plain(requests, self._tokens), requests,
                                 formats, capacity)
        for number, formats in enumerate((played[0], played[-1])):
            capacity = capacities[(number + 1) % len(capacities)]
            life = mixed(self.seed + number, slots=_LIVE + 1, forwards=min(2 * capacity + _LIVE, self._tokens), idle=True)
            yield from self._job(("windows", *RELATIONS), "prefills handed over in a life of a pool", life, _LIVE + 1, formats, capacity)

    def _job(self, checks: tuple[str, ...], name: str, schedule: Schedule, slots: int, formats: Formats, capacity: int) -> Iterator[Job]:
        wanted = self.selection.checks_of((PLAY, *checks))
        if not wanted:
            return
        try:
            case = Case(name=f"recorded: {name}", recurrence=self.claims.recurrence,
                        **self._dims, variant=self._variant, formats=formats, capacity=capacity, slots=slots,
                        layers=self._stack, regime=RECORDED.name, seed=self.seed, schedule=restarted(schedule, START),
                        recording=self.recording)
        except ValueError as error:
            self.not_covered.append(str(error))
            return
        check_supported(self.claims, case)
        yield Job(case=case, checks=wanted)

    def _capacities(self) -> list[int]:
        if self.claims.kind == "step":
            return [1]
        low, high = self.claims.capacities
        return [c for c in _CAPACITIES if low <= c <= min(high, self._tokens)] or [low]
