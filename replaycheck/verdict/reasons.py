"""From a tally to a verdict, with a reason in words for everything that is not a plain pass."""

from __future__ import annotations

from collections.abc import Sequence

from .causes import by_cause
from .checks import CONTRACT, GUARANTEES
from .tally import Tally
from .verdict import Verdict, decide

__all__ = ["reasons"]


def reasons(tally: Tally, *, subject: str, gaps: Sequence[str] = (), strict: bool = False) -> Verdict:
    """The verdict on `subject`. gaps: what is owed and was not measured, in words."""
    names = by_cause(sorted(tally.failures, key=GUARANTEES.index))
    broken = {name: f"{name}: {tally.failures[name][0].diagnosis or 'beyond its budget'}" for name in names}
    warnings = [f"suspicious: {name} at ratio {m.ratio:.2g}{f' in {m.regime}' if m.regime else ''}: "
                f"{m.diagnosis or 'beyond what right kernels show'}" for name, m in tally.suspicious.items()]
    return decide(subject=subject, errors=[line for name, line in broken.items() if name == CONTRACT],
                  failures=[line for name, line in broken.items() if name != CONTRACT], gaps=gaps, warnings=warnings, strict=strict)
