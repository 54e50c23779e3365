"""Random words are those of Philox4x64-10 and values are exact in them."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from replaycheck.cases.stream import Stream

_MASK = 2**64 - 1


def philox4x64(counter: int, key: int) -> list[int]:
    """Philox4x64-10 on Python integers, from Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"."""
    c = [counter >> 64 * i & _MASK for i in range(4)]
    k0, k1 = key & _MASK, key >> 64
    for _ in range(10):
        p0, p1 = c[0] * 0xD2E7470EE14C6C93, c[2] * 0xCA5A826395121157
        c = [p1 >> 64 ^ c[1] ^ k0, p1 & _MASK, p0 >> 64 ^ c[3] ^ k1, p0 & _MASK]
        k0, k1 = k0 + 0x9E3779B97F4A7C15 & _MASK, k1 + 0xBB67AE8584CAA73B & _MASK
    return c


def test_the_reference_philox_gives_the_published_answer() -> None:
    assert philox4x64(0, 0) == [0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B]


@examples(30)
@given(seed=st.integers(0, 2**63), name=st.text(max_size=8), count=st.integers(0, 40))
def test_words_are_philox_under_the_hash_of_key_and_name(seed: int, name: str, count: int) -> None:
    key = int.from_bytes(hashlib.sha256(json.dumps(["a", seed, name]).encode()).digest()[:16], "little")
    expected = [word for block in range(1, count // 4 + 2) for word in philox4x64(block, key)][:count]
    assert Stream(("a", seed)).words(name, (count,)).tolist() == expected


def test_keys_and_names_do_not_run_together() -> None:
    streams = [Stream(("a", "b")), Stream(("ab",)), Stream(("a", 1)), Stream(("a", "1")), Stream(("a",)).child(1, 2)]
    names = ["", "x", "x "]
    first = {int(stream.words(name, (1,))[0]) for stream in streams for name in names}
    assert len(first) == len(streams) * len(names)


@examples(30)
@given(seed=st.integers(0, 1000), short=st.integers(0, 6), more=st.integers(0, 6), width=st.integers(1, 5))
def test_a_longer_draw_begins_with_the_shorter(seed: int, short: int, more: int, width: int) -> None:
    stream = Stream((seed,))
    for draw in (lambda shape: stream.normal("a", shape), lambda shape: stream.uniform("a", shape, -1, 1),
                 lambda shape: stream.octaves("a", shape, -3, 4), lambda shape: stream.integers("a", shape, -5, 9)):
        assert np.array_equal(draw((short + more, width))[:short], draw((short, width)))


def test_normals_have_mean_zero_and_variance_one() -> None:
    values = Stream(("moments",)).normal("n", (100_000,))
    assert abs(values.mean()) < 5 / np.sqrt(1e5)
    assert abs(values.var() - 1) < 5 * np.sqrt(2 / 1e5)
    assert abs((values**4).mean() - 2.9) < 0.1     # twelve uniforms: 3 - 6/5/12
    assert np.array_equal(values * 2**16, np.round(values * 2**16)) and abs(values).max() <= 6


def test_uniforms_and_octaves_fill_their_spans_and_fit_fp32() -> None:
    uniform = Stream(("span",)).uniform("u", (100_000,), -1.0, 3.0)
    assert uniform.min() >= -1 and uniform.max() < 3 and abs(uniform.mean() - 1) < 5 * np.sqrt(16 / 12 / 1e5)
    octaves = Stream(("span",)).octaves("o", (100_000,), -4, 2)
    assert octaves.min() >= 2.0**-4 and octaves.max() < 4
    counts = np.bincount(np.floor(np.log2(octaves)).astype(int) + 4, minlength=6)
    assert (abs(counts - 1e5 / 6) < 5 * np.sqrt(1e5 / 6)).all()


@pytest.mark.parametrize("low,high", [(0, 1), (-3, 4), (5, 12)])
def test_integers_are_uniform_in_their_range(low: int, high: int) -> None:
    drawn = Stream(("range",)).integers("i", (70_000,), low, high)
    counts = np.bincount(drawn - low, minlength=high - low)
    assert len(counts) == high - low and (abs(counts - 70_000 / len(counts)) <= 5 * np.sqrt(70_000 / len(counts))).all()


@examples(30)
@given(seed=st.integers(0, 1000), count=st.integers(0, 20))
def test_permutations_hold_every_number_once(seed: int, count: int) -> None:
    assert sorted(Stream((seed,)).permutation("p", count)) == list(range(count))
