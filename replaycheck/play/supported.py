"""Whether a case lies within what a kernel claims to be built for."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from replaycheck.cases.case import Case
from replaycheck.cases.families import entry_of, family
from replaycheck.contract.claims import Claims
from replaycheck.contract.errors import UsageError

__all__ = ["check_supported", "unsupported"]


def check_supported(claims: Claims, case: Case) -> None:
    """Raises UsageError naming the first thing the case needs and the kernel does not claim."""
    reason = unsupported(claims, case)
    if reason:
        raise UsageError(f"case {case.id} needs {reason}")


def unsupported(claims: Claims, case: Case) -> str:
    """The first thing the case needs and the kernel does not claim, empty where it claims everything."""
    low, high = claims.capacities
    outputs = claims.outputs_of(case.formats.activation)
    needs: list[tuple[str, Any, Container[Any], str]] = [
        ("recurrence", case.recurrence, (claims.recurrence,), claims.recurrence),
        ("state format", case.formats.state, claims.states, ", ".join(claims.states)),
        ("activation format", case.formats.activation, claims.activations, ", ".join(claims.activations)),
        ("output format", case.formats.output, outputs, ", ".join(outputs)),
        ("head_dim", case.head_dim, claims.head_dims or (case.head_dim,), ", ".join(map(str, claims.head_dims))),
        ("state_dim", case.state_dim, claims.state_dims or (case.state_dim,), ", ".join(map(str, claims.state_dims))),
        ("capacity", case.capacity, range(low, high + 1), f"{low}..{high}"),
    ]
    if claims.kind == "verify":
        least, most = claims.windows
        needs.append(("window", case.window, range(least, most + 1), f"{least}..{most}"))
    elif case.speculative:
        return f"a verify kernel; kernel {claims.name} is a {claims.kind} kernel"
    features = ", ".join(claims.features) or "none"
    if case.recurrence == claims.recurrence:
        needs.append(("entry", entry_of(case.variant), (claims.entry,), claims.entry))
        needs += [("feature", name, claims.features, features)
                  for name, needed in family(case.recurrence).needs(case.variant, case.geometry).items() if needed]
    for name, needed, claimed, listed in needs:
        if needed not in claimed:
            return f"{name} {needed}; kernel {claims.name} claims {listed}"
    return ""
