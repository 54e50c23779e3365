"""Plays a host kernel in this process and judges it: what the tests of the checker's quality share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from replaycheck.cases.case import Case
from replaycheck.contract.claims import Formats
from replaycheck.contract.memory import Memory
from replaycheck.contract.session import Kernel
from replaycheck.judge.windows import judge_play, judge_windows
from replaycheck.play.player import play
from replaycheck.play.result import Play
from replaycheck.play.windows import Window
from replaycheck.verdict.measurement import Measurement
from replaycheck_reference.formats.arrays import TORCH_DTYPE
from replaycheck_reference.gauge.functions import load_table
from replaycheck_reference.layer import Mamba2Layer, Mamba2Tokens

TABLE = load_table("numpy")
FP32 = Formats(state="fp32", activation="fp32", output="fp32")


def judged(kernel: Kernel, case: Case) -> tuple[Play, list[Measurement]]:
    """One play, its findings and its window checks."""
    made = play(kernel, case)
    return made, [*made.findings, *judge_play(made, kernel.claims, TABLE)]


def broken(measurements: Sequence[Measurement]) -> dict[str, float]:
    """Guarantee -> worst ratio of those that failed."""
    worst: dict[str, float] = {}
    for m in measurements:
        if not m.passed:
            worst[m.guarantee] = max(worst.get(m.guarantee, 0.0), m.ratio)
    return worst


def window(kernel: Kernel, layer: Mamba2Layer, start: Tensor, tokens: Mamba2Tokens, *, formats: Formats = FP32) -> Window:
    """A window of the given tokens on the given start bits: one request, a ring of as many rows as there are tokens, folded at the last."""
    count = len(tokens)
    capacity = count if kernel.claims.kind == "replay" else 1
    session = kernel.open([layer], formats=formats, capacity=capacity, slots=1, memory=Memory("cpu"), seed=0)
    session.admit(0, [start])
    out = torch.zeros(count, layer.heads, layer.head_dim, dtype=TORCH_DTYPE[formats.output])
    for step in range(count):
        session.begin([(0, 1)])
        session.run(0, tokens[slice(step, step + 1)], out[step : step + 1])
        session.commit([None])
    paths = ("step",) * count if kernel.claims.kind == "step" else ("output",) * (count - 1) + ("flush",)
    return Window(request=0, slot=0, layer=0, position=0, start=start, tokens=tokens, outputs=out, paths=paths,
                  steps=tuple(range(count)), end=session.stored(0, 0).bits)


def judged_windows(kernel: Kernel, layer: Mamba2Layer, windows: Sequence[Window], *, formats: Formats = FP32) -> dict[str, float]:
    """Guarantee -> ratio of hand-made windows, under the kernel's own policy."""
    policy = kernel.claims.policy.built(state=formats.state, output=formats.output)
    worst: dict[str, float] = {}
    for m in judge_windows(windows, [layer], policy, TABLE):
        worst[m.guarantee] = max(worst.get(m.guarantee, 0.0), m.ratio)
    return worst
