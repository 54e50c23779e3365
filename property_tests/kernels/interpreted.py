"""Run by conftest.py in a process that interprets kernels: python interpreted.py ANSWER.json."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import triton
import triton.language as tl
from builds import MATRIX, recorded
from exactness import far_slots, views, widths
from launches import DTYPES, made_inputs, made_pool

from replaycheck import interpreter
from replaycheck_kernels import cursors, mamba2
from replaycheck_kernels.mamba2.configs import replay_config
from replaycheck_kernels.numerics import exp_nonpositive, sigmoid, softplus
from replaycheck_kernels.pool import Geometry


@triton.jit
def probe_kernel(x, soft, exponential, gate, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(soft + i, softplus(v))
    tl.store(exponential + i, exp_nonpositive(-tl.abs(v)))
    tl.store(gate + i, sigmoid(v))


def functions() -> dict[str, list[float]]:
    """Arguments, and what our elementary functions give for them."""
    generator = torch.Generator().manual_seed(0)
    small = torch.randn(1 << 14, generator=generator) * torch.pow(10.0, torch.rand(1 << 14, generator=generator) * 20 - 20)
    x = torch.cat([-87 * torch.rand(3 << 14, generator=generator), 100 * torch.rand(1 << 14, generator=generator), small])
    special = torch.tensor([32.0, 0.0, -104.0, -1e30, 3e38, 17.5, float("inf"), float("-inf")])
    x = torch.cat([x, special, torch.ones((1 << 17) - len(x) - len(special))])
    results = [torch.empty_like(x) for _ in range(3)]
    probe_kernel[(1,)](x, *results, N=len(x))
    return {name: value.double().tolist() for name, value in zip(("x", "softplus", "exp", "sigmoid"), [x, *results], strict=True)}


def relations() -> dict[str, bool]:
    """Launches that must agree bit for bit, or touch nothing."""
    found: dict[str, bool] = {}
    geometry = Geometry(heads=2, head_dim=64, state_dim=64, groups=1)
    slots = torch.tensor([2, -1, 0], dtype=torch.int32)
    for state in ("fp32", "bf16"):
        results = {}
        for name in ("contiguous", "packed", "split"):
            pool = made_pool(geometry, slots=3, state=state, activation="bf16", capacity=3, device="cpu")
            assert pool.ring is not None
            config = replay_config(geometry, state=DTYPES[state], activation=torch.bfloat16, rows=1 if name == "split" else 1 << 20)
            outs = []
            for token in range(4):
                inputs = made_inputs(geometry, rows=3, activation="bf16", device="cpu", seed=token, packed=name != "contiguous", gated=True)
                outs.append(mamba2.replay(pool, slots, **inputs, config=config))
                cursors.advance(pool.ring.cursor, slots, capacity=3)
            results[name] = (torch.stack(outs), pool.state, pool.ring.cursor)
        wanted = results["contiguous"]
        for name in ("packed", "split"):
            found[f"{state} {name}"] = all(torch.equal(a, b) for a, b in zip(results[name], wanted, strict=True))
        found[f"{state} pads"] = bool((wanted[0][:, 1] == 7).all()) and wanted[2].tolist() == [1, 0, 1]
        found[f"{state} finite"] = bool(wanted[0].isfinite().all())
    return found


if __name__ == "__main__":
    interpreter.install()
    held = {**relations(), **widths(), **views(), **far_slots()}
    Path(sys.argv[1]).write_text(json.dumps({"functions": functions(), "relations": held, "launches": recorded(MATRIX)}))
