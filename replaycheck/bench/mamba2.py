"""Time our Mamba-2 kernels on this device beside public ones, and measure how far each lies from the recurrence.

    python -m replaycheck.bench.mamba2 --out reports/mamba2-h200 [--peers DIR] [--batches 1,16,64,256]

writes OUT.json and OUT.md. Times are replays of a captured graph over rotating input sets that together exceed the second-level cache
five times over: "in step" is the average over a whole period with all rows at one cursor, "staggered" has rows at all cursors, as in
serving. Floors are the fewest bytes of a step over the bandwidth measured in the same run.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import triton
from torch import Tensor

from replaycheck_kernels import cursors, mamba2
from replaycheck_kernels.pool import Geometry, Pool

from .clock import copy_bandwidth, graph_time, sets_beyond_cache
from .mamba2_sets import Inputs, Sets
from .mamba2_tables import markdown
from .peers import Peer, load_peers, peers_version
from .residuals import residual

__all__ = ["main", "measure"]

CAPACITY = 16
STATES = {"fp32": torch.float32, "bf16": torch.bfloat16}
SHAPES = {
    "128 heads, 64x128, 8 groups": Geometry(heads=128, head_dim=64, state_dim=128, groups=8),
    "96 heads, 80x128, 8 groups": Geometry(heads=96, head_dim=80, state_dim=128, groups=8),
}


def _launch(kind: str, sets: Sets, pool: Pool, inputs: Inputs, rows: Tensor | slice) -> Tensor:
    """Our kernel over some rows of a set; output into the set's own where it is all of them."""
    launch = mamba2.replay if kind == "replay" else mamba2.step
    return launch(
        pool, sets.slots[rows], x=inputs.x[rows], dt=inputs.dt[rows], B=inputs.B[rows], C=inputs.C[rows], A=sets.A, dt_bias=sets.dt_bias,
        D=sets.D, out=inputs.out[rows],
    )


def _replay(sets: Sets, index: int, cursor: Tensor) -> Tensor:
    return _launch("replay", sets, *sets.at(index, cursor), slice(None))


def _step(sets: Sets, index: int, cursor: Tensor) -> Tensor:
    return _launch("step", sets, *sets.at(index, cursor), slice(None))


OURS = [Peer(name="ours, step", kind="step", call=_step), Peer(name="ours, replay", kind="replay", call=_replay)]


def _warm(sets: Sets, call: Callable[[Sets, int, Tensor], Tensor]) -> None:
    for cursor in (sets.in_step[0], sets.in_step[-1]):
        call(sets, 0, cursor)


def _times(sets: Sets, kernel: Peer) -> dict[str, Any]:
    """Timings of one kernel: a whole period in step, and staggered."""
    _warm(sets, kernel.call)
    calls = max(CAPACITY, len(sets.pools))
    in_step = graph_time([lambda i=i: kernel.call(sets, i, sets.in_step[i % CAPACITY]) for i in range(calls)])  # type: ignore[misc]
    result = {"in_step": asdict(in_step)}
    if kernel.kind == "replay" and sets.rows > 1:
        staggered = graph_time([lambda i=i: kernel.call(sets, i, sets.staggered) for i in range(calls)])  # type: ignore[misc]
        result["staggered"] = asdict(staggered)
    return result


def _batch_invariant(kind: str, state: torch.dtype, *, rows: int = 256) -> bool:
    """Whether requests drawn from a batch of `rows` and run in smaller, shuffled batches give the same output and state bits."""
    sets = Sets(next(iter(SHAPES.values())), rows=rows, state=state, capacity=CAPACITY, output=torch.float32)
    pool, inputs = sets.at(0, sets.staggered)
    start = pool.state.clone()
    out, stored = _launch(kind, sets, pool, inputs, slice(None)).clone(), pool.state.clone()
    for count in (1, 2, 4, 16, 32, 64, 128):
        chosen = torch.randperm(rows, device="cuda")[:count]
        pool.state.copy_(start)
        same_out = torch.equal(_launch(kind, sets, pool, inputs, chosen), out[chosen])
        if not same_out or not torch.equal(pool.state[sets.slots[chosen]], stored[sets.slots[chosen]]):
            return False
    return True


def measure(*, batches: Sequence[int], peers: Sequence[Peer], tokens: int, progress: Callable[[str], None]) -> dict[str, Any]:
    """All timings and residuals, JSON-able."""
    bandwidth = copy_bandwidth()
    kernels = [*OURS, *peers]
    times: list[dict[str, Any]] = []
    for shape, geometry in SHAPES.items():
        for state_name, state in STATES.items():
            for rows in batches:
                one = Sets(geometry, rows=1, state=state, capacity=CAPACITY)
                bytes_a_set = rows * one.pools[0].state[1:].numel() * state.itemsize
                sets = Sets(geometry, rows=rows, state=state, capacity=CAPACITY, count=sets_beyond_cache(bytes_a_set, multiple=CAPACITY))
                progress(f"{shape}, {state_name}, batch {rows}")
                for kernel in kernels:
                    floor = (sets.step_bytes() if kernel.kind == "step" else sets.cycle_bytes()) / bandwidth
                    times.append({
                        "shape": shape, "state": state_name, "rows": rows, "kernel": kernel.name, "kind": kernel.kind, "floor": floor,
                        "sets": len(sets.pools), **_times(sets, kernel),
                    })  # fmt: skip
                del sets
                torch.cuda.empty_cache()
    return {
        "bandwidth_GBps": bandwidth / 1e3, "times": times, "residuals": _residuals(kernels, tokens),
        "advance": _advance_time(),
        "batch_invariant": {
            f"{kind}, {name}": _batch_invariant(kind, state) for kind in ("step", "replay") for name, state in STATES.items()
        },
    }


def _residuals(kernels: Sequence[Peer], tokens: int) -> list[dict[str, Any]]:
    found = []
    geometry = next(iter(SHAPES.values()))
    for state_name, state in STATES.items():
        for regime in ("near1", "mixed"):
            for kernel in kernels:
                sets = Sets(geometry, rows=2, state=state, capacity=CAPACITY, output=torch.float32, regime=regime)
                period = 1 if kernel.kind == "step" else CAPACITY
                errors = residual(sets, kernel.call, tokens=tokens, period=period)
                found.append({"state": state_name, "regime": regime, "kernel": kernel.name, **asdict(errors)})
    return found


def _advance_time() -> dict[str, float]:
    """The cursor kernel, once a forward for all layers, at batch 256."""
    cursor = torch.zeros(257, dtype=torch.int32, device="cuda")
    slots = torch.arange(1, 257, dtype=torch.int32, device="cuda")
    cursors.advance(cursor, slots, capacity=CAPACITY)
    return asdict(graph_time([lambda: cursors.advance(cursor, slots, capacity=CAPACITY)] * 64))


def _environment(arguments: Sequence[str]) -> dict[str, Any]:
    cuda: Any = torch.cuda
    properties = cuda.get_device_properties(0)
    return {
        "device": properties.name, "driver": _driver(), "L2_MiB": properties.L2_cache_size >> 20, "torch": torch.__version__,
        "triton": triton.__version__, "cuda": torch.version.cuda, "python": platform.python_version(),
        "command": " ".join(["python -m replaycheck.bench.mamba2", *arguments]),
    }  # fmt: skip


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.split()[0]
    except (OSError, IndexError, subprocess.SubprocessError):
        return "unknown"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. Exit 0 when written, 2 on bad usage."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog="python -m replaycheck.bench.mamba2", description="Time our Mamba-2 kernels beside public ones.")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="write FILE.json and FILE.md")
    parser.add_argument("--peers", type=Path, metavar="DIR", help="an unpacked vLLM wheel, or only its mamba ops")
    parser.add_argument("--batches", default="1,16,64,256", metavar="N,...")
    parser.add_argument("--tokens", type=int, default=256, help="tokens of the residual runs")
    options = parser.parse_args(given)
    if not torch.cuda.is_available():
        parser.error("no CUDA device here")
    if not options.out.parent.is_dir():
        parser.error(f"--out {options.out}: there is no folder {options.out.parent}")
    try:
        batches = [int(n) for n in options.batches.split(",")]
        peers = load_peers(options.peers)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    results = measure(batches=batches, peers=peers, tokens=options.tokens, progress=lambda line: print(line, file=sys.stderr, flush=True))
    report = {"environment": {**_environment(given), "peers": peers_version(options.peers)}, "capacity": CAPACITY, **results}
    options.out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    options.out.with_suffix(".md").write_text(markdown(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
