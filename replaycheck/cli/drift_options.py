"""The options of `replaycheck drift`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

__all__ = ["add_drift"]


def _words(text: str) -> tuple[str, ...]:
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not words:
        raise argparse.ArgumentTypeError(f"must be names with commas between them, got {text!r}")
    return words


def _numbers(make: Callable[[str], float], said: str) -> Callable[[str], tuple[float, ...]]:
    def read(text: str) -> tuple[float, ...]:
        try:
            return tuple(dict.fromkeys(make(word) for word in _words(text)))
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"must be {said} with commas between them, got {text!r}") from error

    return read


def _half_life(word: str) -> float:
    tokens = float(word)
    if not 0 < tokens < float("inf"):
        raise ValueError(word)
    return float(2.0 ** (-1 / tokens))


def add_drift(drift: argparse.ArgumentParser, *, count: Callable[[str], int], device: Callable[[str], str]) -> None:
    """count, device: how the command line reads a number of things, and a device."""
    drift.add_argument("--formats", type=_words, metavar="NAME[,NAME]", help="fp32, fp16, bf16, fp8_e4m3, int8 (default: all but fp32)")
    drift.add_argument("--roundings", type=_words, metavar="NAME[,NAME]", help="nearest, stochastic, truncate (default: the first two)")
    drift.add_argument("--periods", type=_numbers(int, "whole numbers"), metavar="N[,N]",
                       help="tokens from one store to the next (default: 1,4,16,64)")
    rate = drift.add_mutually_exclusive_group()
    rate.add_argument("--decays", type=_numbers(float, "numbers"), metavar="A[,A]",
                      help="what a token leaves of a state (default: 0.9,0.99,0.999,0.9999)")
    rate.add_argument("--half-lives", type=_numbers(_half_life, "positive numbers of tokens"), dest="decays", metavar="T[,T]",
                      help="the same as tokens after which half is left")
    drift.add_argument("--drives", type=_words, metavar="NAME[,NAME]", help="zero-mean, positive, decay-only (default: the first two)")
    drift.add_argument("--elements", type=count, help="of a cell, a multiple of 256 (default: 256)")
    drift.add_argument("--steps", type=count, help="the horizon in tokens (default: 16384)")
    drift.add_argument("--seeds", type=count, help="how many, for bands (default: 1)")
    drift.add_argument("--processes", type=count, help="side by side (default: as many as there are cores)")
    drift.add_argument("--device", type=device, default="cpu", help="cpu, or cuda in one process (default: %(default)s)")
    drift.add_argument("--out", type=Path, default=Path("replaycheck-drift"),
                       help="directory of drift.jsonl and drift.md; a run that was cut off goes on there (default: %(default)s)")
    drift.add_argument("--traceback", action="store_true", help="show the full traceback of what went wrong")
