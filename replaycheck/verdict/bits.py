"""Implied bits, gathered over a run from the facts of its measurements."""

from __future__ import annotations

import math
from collections.abc import Iterator

from replaycheck.contract.claims import Formats
from replaycheck_reference.formats.spec import FORMATS
from replaycheck_reference.gauge.units import product_error
from replaycheck_reference.policy import Policy

from .measurement import Measurement
from .results import ImpliedBits

__all__ = ["BitsTable"]

#: The regime whose implied bits are quoted where it was drawn: others bend them on purpose (cancellation, subnormals).
_QUOTED = "trained-like"

#: Regimes in which one product alone makes what a guarantee measures: its name, the field of a policy's path, and the formats of a build
#: that have to be fp32, lest an operand be exact in any format, or the result be cut to fewer bits than the product has.
_ALONE = {
    ("state", "erase"): ("token product", "token", ("activation", "state")),
    ("outputs", "readout"): ("readout", "readout", ("state", "output")),
}


class BitsTable:
    """The smallest implied bits per quantity and regime. policy: what is claimed; formats of state and outputs come with each build."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._smallest: dict[tuple[str, str], ImpliedBits] = {}

    def add(self, m: Measurement, formats: Formats, *, case: str) -> None:
        """Take in the fact "implied bits" of a window measurement; others are passed over."""
        for quantity, claimed, implied in self._found(m, formats):
            seen = self._smallest.get((quantity, m.regime))
            if seen is None or implied < seen.implied:
                self._smallest[quantity, m.regime] = ImpliedBits(
                    quantity=quantity, claimed=claimed, implied=implied, regime=m.regime, case=case)

    def _found(self, m: Measurement, formats: Formats) -> Iterator[tuple[str, float, float]]:
        fact = m.facts.get("implied bits")
        if m.guarantee == "gates" and isinstance(fact, dict):
            gate = float(FORMATS[self._policy.gate].precision)
            yield from ((f"gates, {name}", gate, value) for name, value in fact.items() if value is not None)
        elif m.guarantee in ("outputs", "state") and isinstance(fact, float):
            fmt = formats.output if m.guarantee == "outputs" else formats.state
            stored = float(FORMATS[fmt].precision)
            yield f"{m.guarantee}, {fmt}", stored, fact
            name, product, wide = _ALONE.get((m.guarantee, m.regime), ("", "", ()))
            if name and all(getattr(formats, part) == "fp32" for part in wide):
                yield name, min(stored, self._product(product, formats)), fact

    def _product(self, name: str, formats: Formats) -> float:
        """Bits of that product on the least precise path, from the gauge's own error of it."""
        methods = {getattr(path, name) for path in self._policy.paths.values()}
        return round(-math.log2(max(product_error(method, given=formats.activation).relative for method in methods)), 1)

    @property
    def quoted(self) -> tuple[ImpliedBits, ...]:
        """One entry per quantity: of the quoted regime where it was drawn, else the smallest of all."""
        chosen: dict[str, ImpliedBits] = {}
        for (quantity, regime), entry in self._smallest.items():
            known = chosen.get(quantity)
            if known is None or regime == _QUOTED or (known.regime != _QUOTED and entry.implied < known.implied):
                chosen[quantity] = entry
        return tuple(chosen[name] for name in sorted(chosen))
