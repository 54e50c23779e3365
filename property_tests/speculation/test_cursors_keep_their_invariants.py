"""Cursors of a ring that turns: every capacity and window up to 8, every position, length and commit, on paper and as the kernel moves."""

from __future__ import annotations

from typing import Any

import pytest
from cursor_model import Ring, cells

SIZES = [(capacity, window) for capacity in range(1, 9) for window in range(1, capacity + 1)]


@pytest.mark.parametrize(("capacity", "window"), SIZES)
def test_every_round_keeps_what_was_accepted_once_and_in_order_and_nothing_else(capacity: int, window: int) -> None:
    for used, origin, length, count in cells(capacity, window):
        if not 0 <= count <= length:
            continue
        ring = Ring(capacity, window, used=used, origin=origin)
        before = [("committed", i) for i in range(used)]
        for i, token in enumerate(before):
            ring.rows[ring.row(i)] = token
        ring.accepted = list(before)
        written = {ring.row(used + i) for i in range(length)}
        assert len(written) == length and not written & {ring.row(i) for i in range(used)}, "a window overwrites committed rows or itself"
        folded = ring.round([("fresh", i) for i in range(length)], count)
        assert ring.checkpoint == (before if folded else []), "a fold takes the committed tokens and no other"
        assert ring.held() == ring.accepted == before + [("fresh", i) for i in range(count)]
        assert 0 <= ring.used <= capacity and 0 <= ring.origin < capacity + window
        assert length or not folded


@pytest.mark.parametrize(("capacity", "window"), SIZES)
def test_every_position_of_the_ring_becomes_its_origin(capacity: int, window: int) -> None:
    reached, waiting = {(0, 0)}, [(0, 0)]
    while waiting:
        used, origin = waiting.pop()
        for length in range(window + 1):
            for count in range(length + 1):
                ring = Ring(capacity, window, used=used, origin=origin)
                ring.round(list(range(length)), count)
                if (ring.used, ring.origin) not in reached:
                    reached.add((ring.used, ring.origin))
                    waiting.append((ring.used, ring.origin))
    assert {origin for _, origin in reached} == set(range(capacity + window))
    assert {used for used, _ in reached} == set(range(capacity + 1))


def test_the_kernel_moves_cursors_as_the_model_does_in_every_cell_and_for_no_pad(interpreted: dict[str, Any]) -> None:
    assert len(interpreted["cells"]) == len(SIZES)
    assert {size: wrong[:3] for size, wrong in interpreted["cells"].items() if wrong} == {}
