"""What a kernel claims and a run did not draw. A report says it, so that a pass is read for what it is."""

from __future__ import annotations

from collections.abc import Iterator

from replaycheck.cases.case import Case
from replaycheck.cases.families import family
from replaycheck.contract.claims import FEATURES, GUARANTEES, Claims

from .evidence import Evidence
from .plan import builds

__all__ = ["uncovered"]

def uncovered(claims: Claims, evidence: Evidence) -> tuple[str, ...]:
    """Claimed formats, dims, capacities, features and guarantees that no case of the run had, one line each."""
    return tuple(_lines(claims, list(evidence.drawn.values()), evidence))


def _lines(claims: Claims, cases: list[Case], evidence: Evidence) -> Iterator[str]:
    drawn = {(c.formats.state, c.formats.activation, c.formats.output) for c in cases}
    missing = [f for f in builds(claims) if (f.state, f.activation, f.output) not in drawn]
    if missing:
        names = [f"{f.state} state, {f.activation} activations, {f.output} outputs" for f in missing]
        yield f"builds: {len(missing)} of {len(builds(claims))} claimed: {_short(names, separator='; ')}"
    for name in ("head_dim", "state_dim"):
        claimed = getattr(claims, f"{name}s")
        dims = [str(dim) for dim in sorted(set(claimed) - {getattr(c, name) for c in cases})]
        if dims:
            yield f"{name}: {len(dims)} of {len(claimed)} claimed: {_short(dims)}"
    yield from _capacities(claims, cases)
    shown = {name for c in cases for name, needed in family(c.recurrence).needs(c.variant, c.geometry).items() if needed}
    features = [name for name in FEATURES[claims.recurrence] if name in claims.features and name not in shown]
    if features:
        yield "features: " + ", ".join(features)
    if not evidence.compiled:
        yield "compilation: no Triton launch was compiled"
    owed = {"batch_invariant": "isolation", "phase_invariant": "split", "nan_poison": "poison",
            "nan_in_draft": "drafts", "spec_exact": "speculation"}
    for name in claims.guarantees:
        if owed.get(name) not in evidence.tally.guarantees:
            yield f"guarantee {name}: {GUARANTEES[name]}"


def _capacities(claims: Claims, cases: list[Case]) -> Iterator[str]:
    if claims.kind == "step":
        return
    low, high = claims.capacities
    drawn = {c.capacity for c in cases}
    missing = [c for c in range(low, high + 1) if c not in drawn]
    if missing:
        yield f"capacities: {_ranges(missing)} of {low}..{high}"


def _short(names: list[str], *, separator: str = ", ", most: int = 6) -> str:
    """The names, or the first few and how many more."""
    more = f"{separator}and {len(names) - most} more" if len(names) > most else ""
    return separator.join(names[:most]) + more


def _ranges(numbers: list[int]) -> str:
    """Sorted integers as ranges: 5..7, 9."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}..{r[-1]}" for r in runs)
