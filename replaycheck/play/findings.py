"""What only the player can see, counted while it plays and turned into measurements at the end."""

from __future__ import annotations

from dataclasses import dataclass, field

from replaycheck.verdict.measurement import Measurement

__all__ = ["FINDINGS", "Findings"]

#: Guarantees that a play itself measures: what is promised, in one line.
FINDINGS = {
    "write-set": "an operation writes only the slots it names; inputs, guard bands and other rows keep their bits",
    "bounds": "a kernel reads only inside the tensors it was given",
    "continuity": "a slot holds the bits it last published until it publishes again, through copy and admission",
    "pads": "pad rows of the output are left untouched, or set to zero, as claimed",
    "finite": "finite inputs give finite outputs and states, and every output is written",
}

_KEPT = 5


@dataclass
class _Count:
    compared: int = 0
    offending: int = 0
    violations: list[tuple[dict[str, int | str], str]] = field(default_factory=list)
    more: int = 0


class Findings:
    """Counts per guarantee of FINDINGS: elements compared, elements offending, and the first few violations with their places."""

    def __init__(self) -> None:
        self._counts: dict[str, _Count] = {}

    def compared(self, guarantee: str, elements: int) -> None:
        """`elements` were compared and found as promised, or are about to be reported by `violated`."""
        self._count(guarantee).compared += elements

    def violated(self, guarantee: str, elements: int, diagnosis: str, **place: int | str) -> None:
        """`elements` were not as promised."""
        count = self._count(guarantee)
        count.offending += elements
        if len(count.violations) < _KEPT:
            count.violations.append((place, diagnosis))
        else:
            count.more += 1

    def _count(self, guarantee: str) -> _Count:
        if guarantee not in FINDINGS:
            raise ValueError(f"guarantee must be one of {', '.join(FINDINGS)}, got {guarantee!r}")
        return self._counts.setdefault(guarantee, _Count())

    def measurements(self, *, case: str, regime: str, poison: str) -> list[Measurement]:
        """One measurement for every guarantee that was looked at: value is the number of offending elements, budget 0.

        place and diagnosis are those of the first violation; facts count what was compared and list further violations.
        """
        found: list[Measurement] = []
        for guarantee, promise in FINDINGS.items():
            count = self._counts.get(guarantee)
            if count is None:
                continue
            place, diagnosis = count.violations[0] if count.violations else ({}, "")
            facts: dict[str, object] = {"compared": count.compared, "poison": poison, "violations": len(count.violations) + count.more}
            if len(count.violations) > 1:
                facts["further"] = [text for _, text in count.violations[1:]]
            found.append(Measurement(
                guarantee=guarantee, value=float(count.offending), budget=0.0, unit="elements", regime=regime, case=case,
                derivation=promise, place=place, diagnosis=diagnosis, facts=facts))
        return found
