"""Builds of our kernels, recorded as a device would be given them; no test.

    python property_tests/kernels/builds.py         compiles every build there is for sm_90: half an hour a core
    python property_tests/kernels/builds.py 3/50    every 50th of them, from the third on

Tests compile MATRIX, a sample. Needs `.`, `kernels` and `reference` on PYTHONPATH. Exit code 1 where a build fails.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from launches import DTYPES, made_inputs, made_pool

from replaycheck.interpreter.recorder import Launch, record
from replaycheck_kernels import cursors, mamba2
from replaycheck_kernels.mamba2.configs import replay_config
from replaycheck_kernels.pool import Geometry


class Build(NamedTuple):
    """What the compiler distinguishes. rows: of the batch that the configuration is made for. skip_rows: D is a number a row of a head.

    dt_limits: of the variant.
    """

    state: str
    activation: str
    output: str
    heads: int
    head_dim: int
    state_dim: int
    groups: int
    capacity: int
    gated: bool
    softplus: bool
    rows: int
    skip_rows: bool = False
    dt_limits: tuple[float, float] | None = None


_LIMITS = (2.0**-10, 2.0**-3)

MATRIX = [
    Build("fp32", "bf16", "bf16", 2, 64, 128, 1, 16, False, True, 1),
    Build("fp32", "bf16", "fp32", 2, 80, 128, 2, 16, True, True, 1 << 20),
    Build("fp32", "bf16", "bf16", 2, 64, 64, 1, 32, False, False, 1 << 20),
    Build("bf16", "bf16", "bf16", 2, 64, 128, 1, 16, True, True, 1),
    Build("bf16", "bf16", "bf16", 2, 80, 128, 1, 1, False, True, 1 << 20),
    Build("bf16", "bf16", "fp32", 4, 64, 128, 2, 17, True, False, 1 << 20),
    Build("bf16", "bf16", "bf16", 2, 64, 64, 2, 8, False, True, 64),
    Build("fp32", "fp32", "fp32", 2, 64, 128, 1, 16, False, True, 1),
    Build("bf16", "fp32", "bf16", 2, 80, 64, 1, 20, True, True, 1 << 20),
    Build("fp16", "fp16", "fp16", 2, 64, 128, 1, 16, False, True, 1),
    Build("fp32", "bf16", "bf16", 2, 16, 16, 1, 4, False, True, 1),
    Build("bf16", "bf16", "bf16", 4, 100, 80, 1, 16, False, True, 1 << 20, skip_rows=True, dt_limits=_LIMITS),
    Build("fp32", "bf16", "bf16", 3, 60, 112, 3, 16, True, True, 1 << 20),
    Build("fp16", "fp16", "fp16", 2, 112, 60, 2, 64, False, True, 1, skip_rows=True),
    Build("bf16", "fp16", "fp16", 2, 96, 100, 1, 20, True, False, 1 << 20, dt_limits=_LIMITS),
]

_DIMS = (16, 20, 60, 64, 80, 96, 100, 112, 128, 200, 256)
_FORMATS = ("fp32", "fp16", "bf16")


def every_build() -> Iterator[Build]:
    """Every pair of dims in every state and activation format; outputs, capacities, forms, groups and batches in turn."""
    outputs, capacities = itertools.cycle(_FORMATS), itertools.cycle((1, 4, 16, 20, 32, 33, 64))
    forms, groups = itertools.cycle(itertools.product((False, True), repeat=2)), itertools.cycle((1, 2, 4))
    rows, skip_rows = itertools.cycle((1, 64, 1 << 20)), itertools.cycle((False, True))
    dt_limits = itertools.cycle((None, _LIMITS, None))
    for state_dim, head_dim, state, activation in itertools.product(_DIMS, _DIMS, _FORMATS, _FORMATS):
        dims = (4, head_dim, state_dim, next(groups), next(capacities))
        yield Build(state, activation, next(outputs), *dims, *next(forms), next(rows), next(skip_rows), next(dt_limits))


def recorded(builds: Sequence[Build]) -> list[dict[str, Any]]:
    """The launches of the builds' replay and step kernels, and of the cursor kernel, as JSON. Needs an interpreting process."""
    slots = torch.tensor([-1], dtype=torch.int32)      # a pad: what is compiled is the same, and nothing has to be interpreted
    with record() as launches:
        for build in builds:
            geometry = Geometry(heads=build.heads, head_dim=build.head_dim, state_dim=build.state_dim, groups=build.groups)
            inputs = made_inputs(
                geometry, rows=1, activation=build.activation, output=build.output, device="cpu", gated=build.gated,
                skip_rows=build.skip_rows,
            )
            pool = made_pool(
                geometry, slots=1, state=build.state, activation=build.activation, capacity=build.capacity, device="cpu"
            )
            form: dict[str, Any] = {"softplus": build.softplus, "dt_limits": build.dt_limits}
            config = replay_config(geometry, state=DTYPES[build.state], activation=DTYPES[build.activation], rows=build.rows)
            mamba2.replay(pool, slots, **inputs, **form, config=config)
            mamba2.step(replace(pool, ring=None), slots, **inputs, **form)
        assert pool.ring is not None
        cursors.advance(pool.ring.cursor, slots, capacity=4)
    return [launch.to_json() for launch in launches]


def _chosen(share: str) -> list[Build]:
    first, every = map(int, share.split("/"))
    return list(every_build())[first - 1::every]


def _main(share: str) -> int:
    from replaycheck.adapters.mamba2 import replay, step
    from replaycheck.compile import compile_launches, compile_measurements

    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    child = subprocess.run([sys.executable, __file__, "--record", share], env=environment, capture_output=True, text=True, check=True)
    launches, failed = [Launch.from_json(told) for told in json.loads(child.stdout)], 0
    for launch in launches:
        [compiled] = compile_launches([launch])
        claims = step.claims if launch.qualname == "step_kernel" else replay.claims
        for measurement in compile_measurements([compiled], claims):
            if not measurement.passed or measurement.suspicious:
                failed += 1
                print(f"{launch.qualname} {launch.constexprs}: {measurement.diagnosis}")
    print(f"{len(launches)} launches compiled, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    if sys.argv[1:2] == ["--record"]:
        from replaycheck import interpreter

        interpreter.install()
        print(json.dumps(recorded(_chosen(sys.argv[2]))))
    else:
        sys.exit(_main(sys.argv[1] if len(sys.argv) > 1 else "1/1"))
