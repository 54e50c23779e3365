"""The second opinion: one element of a window, computed again by the exact engines of the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replaycheck.play.result import Play
from replaycheck.play.windows import Window
from replaycheck_reference.layer import Layer
from replaycheck_reference.recurrence import recurrence_of
from replaycheck_reference.recurrences.confirm import confirm

from .measurement import Measurement

__all__ = ["confirmed", "confirmed_window"]

_DIGITS = 50


def confirmed(m: Measurement, play: Play) -> str:
    """One line on the element that `m` (of "outputs" or "state") is about, in `play`; empty where the play holds no such window."""
    return confirmed_window(m, play.windows, {i: play.case.layer(i) for i in range(play.case.layers)})


def confirmed_window(m: Measurement, windows: Sequence[Window], layers: Mapping[int, Layer]) -> str:
    """The same among any windows."""
    window = next((w for w in windows if _holds(w, m)), None)
    if window is None or m.exact is None:
        return ""
    head, row, column = int(m.place["head"]), int(m.place["row"]), m.place.get("column")
    token = len(window.paths) - 1 if column is not None else int(m.place["token"]) - window.position
    if not bool(window.start.isfinite().all()):
        return f"{m.guarantee}: the window starts from values that are not finite, so no exact value exists"
    layer, cell = layers[window.layer], None if column is None else int(column)
    found = confirm(recurrence_of(layer).run_row, layer, window.start, window.tokens, token, head, row, cell, digits=_DIGITS)
    proof = "no ball engine is installed, so no radius is proven" if found.radius is None else f"radius {found.radius:.1e}"
    apart = abs(found.nearest - m.exact)
    share = f", {apart / m.budget:.1e} of the budget" if m.budget > 0 else ""
    agreement = "agrees to the last bit" if apart == 0 else f"is {apart:.1e} away{share}"
    return (f"{m.guarantee}: exact value {found.value}, confirmed to {_DIGITS} digits by {found.engine} ({proof}); "
            f"the float64 reference {agreement}")


def _holds(window: Window, m: Measurement) -> bool:
    same = window.request == m.place.get("request") and window.layer == m.place.get("layer")
    token = m.place.get("token")
    return same and isinstance(token, int) and window.position <= token < window.position + len(window.paths)
