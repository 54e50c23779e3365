"""Implied bits, gathered over a run from the facts of its measurements."""

from __future__ import annotations

from collections.abc import Iterator

from replaycheck.contract.claims import Formats
from replaycheck_reference.formats.spec import FORMATS

from .measurement import Measurement
from .results import ImpliedBits

__all__ = ["BitsTable"]

#: The regime whose implied bits are quoted where it was drawn: others bend them on purpose (cancellation, subnormals).
_QUOTED = "trained-like"


class BitsTable:
    """The smallest implied bits per quantity and regime. gate: the format of gates in the policy."""

    def __init__(self, gate: str) -> None:
        self._gate = gate
        self._smallest: dict[tuple[str, str], ImpliedBits] = {}

    def add(self, m: Measurement, formats: Formats, *, case: str) -> None:
        """Take in the fact "implied bits" of a window measurement; others are passed over."""
        for quantity, fmt, implied in self._found(m, formats):
            seen = self._smallest.get((quantity, m.regime))
            if seen is None or implied < seen.implied:
                self._smallest[quantity, m.regime] = ImpliedBits(
                    quantity=quantity, claimed=float(FORMATS[fmt].precision), implied=implied, regime=m.regime, case=case)

    def _found(self, m: Measurement, formats: Formats) -> Iterator[tuple[str, str, float]]:
        fact = m.facts.get("implied bits")
        if m.guarantee == "gates" and isinstance(fact, dict):
            yield from ((f"gates, {name}", self._gate, value) for name, value in fact.items() if value is not None)
        elif m.guarantee in ("outputs", "state") and isinstance(fact, float):
            fmt = formats.output if m.guarantee == "outputs" else formats.state
            yield f"{m.guarantee}, {fmt}", fmt, fact

    @property
    def quoted(self) -> tuple[ImpliedBits, ...]:
        """One entry per quantity: of the quoted regime where it was drawn, else the smallest of all."""
        chosen: dict[str, ImpliedBits] = {}
        for (quantity, regime), entry in self._smallest.items():
            known = chosen.get(quantity)
            if known is None or regime == _QUOTED or (known.regime != _QUOTED and entry.implied < known.implied):
                chosen[quantity] = entry
        return tuple(chosen[name] for name in sorted(chosen))
