"""Random numbers that are the same bits on every machine: raw Philox words and dyadic arithmetic, nothing else."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

__all__ = ["Floats", "Stream"]

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

_FIELDS = 12          # 16-bit fields in one normal: the variance of their sum is 2^32 * (1 - 2^-32)
_MEAN = _FIELDS * 0xFFFF // 2


@dataclass(frozen=True)
class Stream:
    """A source of named arrays. A name is a sequence of its own: drawing it moves no other, and a longer draw starts with the shorter.

    key: strings and integers that name the source. Words are those of Philox4x64-10, keyed by the first 128 bits of the
    SHA-256 of key and name. Values are float64 numbers made from the words by exact dyadic steps and IEEE sums and products only: no
    libm, no generator distributions.
    """

    key: tuple[str | int, ...]

    def child(self, *more: str | int) -> Stream:
        """The source named by a longer key."""
        return Stream((*self.key, *more))

    def words(self, name: str, shape: tuple[int, ...]) -> Words:
        """Raw 64-bit words: uint64 of `shape`."""
        digest = hashlib.sha256(json.dumps([*self.key, name]).encode()).digest()
        philox = np.random.Philox(key=int.from_bytes(digest[:16], "little"), counter=0)
        return np.asarray(philox.random_raw(prod(shape)), dtype=np.uint64).reshape(shape)

    def integers(self, name: str, shape: tuple[int, ...], low: int, high: int) -> NDArray[np.int64]:
        """Integers in [low, high), high - low < 2^31: int64 of `shape`. The bias of the multiply-shift is below 2^-32 * (high - low)."""
        scaled = (self.words(name, shape) >> np.uint64(32)) * np.uint64(high - low) >> np.uint64(32)
        return scaled.astype(np.int64) + low

    def integer(self, name: str, low: int, high: int) -> int:
        """One integer in [low, high)."""
        return int(self.integers(name, (1,), low, high)[0])

    def permutation(self, name: str, count: int) -> list[int]:
        """The numbers 0..count-1 in random order."""
        return [int(i) for i in np.argsort(self.words(name, (count,)), kind="stable")]

    def uniform(self, name: str, shape: tuple[int, ...], low: float, high: float) -> Floats:
        """low + (high - low) * k / 2^24 with k uniform in 0..2^24-1: float64 of `shape`."""
        return low + (high - low) * ((self.words(name, shape) >> np.uint64(40)).astype(np.float64) * 2.0**-24)

    def normal(self, name: str, shape: tuple[int, ...]) -> Floats:
        """Nearly normal, mean 0, variance 1, |value| <= 6: sums of twelve uniforms (Irwin-Hall), multiples of 2^-16: float64 of `shape`."""
        fields = self.words(name, (*shape, _FIELDS // 4))
        total = np.zeros(shape, dtype=np.int64)
        for shift in (0, 16, 32, 48):
            total += ((fields >> np.uint64(shift)) & np.uint64(0xFFFF)).sum(axis=-1).astype(np.int64)
        return np.asarray((total - _MEAN) * 2.0**-16, dtype=np.float64)

    def octaves(self, name: str, shape: tuple[int, ...], low: int, high: int) -> Floats:
        """Log-uniform over octaves: 2^e * m with e uniform in low..high-1 and m uniform in [1, 2): float64 of `shape`."""
        words = self.words(name, shape)
        exponent = ((words >> np.uint64(32)) * np.uint64(high - low) >> np.uint64(32)).astype(np.int64) + low
        mantissa = 1.0 + (words & np.uint64(0xFFFFFF)).astype(np.float64) * 2.0**-24
        return np.asarray(np.ldexp(mantissa, exponent), dtype=np.float64)
