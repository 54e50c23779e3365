"""Two plays compared bit for bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from replaycheck.contract.bits import count_differing, first_differing
from replaycheck.play.result import Play
from replaycheck.verdict.measurement import Measurement

__all__ = ["Difference", "compare", "measured"]


@dataclass
class Difference:
    """Elements compared so far, how many differ, and the first of them."""

    compared: int = 0
    differing: int = 0
    place: dict[str, int | str] = field(default_factory=dict)
    got: float | None = None
    expected: float | None = None
    requests: set[int] = field(default_factory=set)

    def add(self, got: Tensor, expected: Tensor, axes: tuple[str, ...], **place: int | str) -> None:
        """Compare two tensors of one shape and dtype; axes name their dimensions."""
        self.compared += got.numel()
        differing = count_differing(got, expected)
        if not differing:
            return
        first = first_differing(got, expected)
        if not self.differing:
            self.place = {**place, **dict(zip(axes, first, strict=True))}
            self.got, self.expected = float(got[first]), float(expected[first])
        self.differing += differing
        self.requests.add(int(place["request"]))


def compare(guarantee: str, expected: Play, got: Play, *, promise: str, relation: str,
            requests: Mapping[int, int] | None = None) -> list[Measurement]:
    """One measurement: how many elements of outputs and published states differ between two plays, budget 0.

    promise: what is owed, for the report. relation: how `got` was made from `expected`. requests: request of `expected` -> request of
    `got`, the identity where None. Outputs are compared up to the shorter of both, states at the positions that both published; where
    nothing is comparable there is no measurement.
    """
    pairs = {request: request for request, _ in expected.outputs} if requests is None else requests
    difference = Difference()
    for (request, layer), outputs in expected.outputs.items():
        if request in pairs and (pairs[request], layer) in got.outputs:
            other = got.outputs[pairs[request], layer]
            common = min(len(outputs), len(other))
            difference.add(other[:common], outputs[:common], ("token", "head", "row"), request=request, layer=layer, what="output")
    for (request, layer), states in expected.published.items():
        published = dict(got.published.get((pairs[request], layer), [])) if request in pairs else {}
        for position, bits in states:
            if position in published:
                difference.add(published[position], bits, ("head", "row", "column"),
                               request=request, layer=layer, token=position - 1, what="state")
    return measured(guarantee, difference, [expected, got], promise=promise, relation=relation)


def measured(guarantee: str, difference: Difference, plays: Sequence[Play], *, promise: str, relation: str) -> list[Measurement]:
    """The measurement of a difference; none where nothing was compared. The first play is the one to replay."""
    if not difference.compared:
        return []
    case = plays[0].case
    named = [{"case": play.case.id, "name": play.case.name, "poison": play.poison} for play in plays]
    facts: dict[str, Any] = {"compared": difference.compared, "relation": relation, "plays": named}
    diagnosis = ""
    if difference.differing:
        facts["requests"] = sorted(difference.requests)
        facts["other_case"] = plays[-1].case.to_json()
        diagnosis = f"{difference.differing} of {difference.compared} elements differ {relation}"
    return [Measurement(
        guarantee=guarantee, value=float(difference.differing), budget=0.0, unit="elements", regime=case.regime, case=case.id,
        derivation=promise, place=difference.place, got=difference.got, exact=difference.expected, diagnosis=diagnosis, facts=facts)]
