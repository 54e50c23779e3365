"""Kernels for the compile tests, and the launches of each. Imported by name, loaded by path, and run as a script that records."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import triton
import triton.language as tl


@triton.jit
def softplus(x):
    return tl.where(x > 20, x, tl.log(1 + tl.exp(x)))


@triton.jit
def scaled(X, O, scale, N: tl.constexpr):
    o = tl.arange(0, N)
    tl.store(O + o, softplus(tl.load(X + o).to(tl.float32)) * scale)


@triton.jit
def many_types(X, Y, O, count, one, big, flag, nothing, TYPE: tl.constexpr, NAME: tl.constexpr, N: tl.constexpr):
    o = tl.arange(0, N)
    x = tl.load(X + o).to(TYPE) + tl.load(Y + o).to(TYPE)
    if nothing is None:
        x += count + one + (big % 7)
    if flag:
        x += 1
    tl.store(O + o, x)


@triton.jit
def of_tuple(pair, O, N: tl.constexpr):
    o = tl.arange(0, N)
    tl.store(O + o, tl.load(pair[0] + o) + pair[1])


@triton.heuristics({"N": lambda args: 16 if args["n"] < 20 else 32})
@triton.jit
def by_heuristics(X, O, n, N: tl.constexpr):
    o = tl.arange(0, N)
    tl.store(O + o, tl.load(X + o, mask=o < n, other=0.0), mask=o < n)


@triton.autotune([triton.Config({"N": 16}, num_warps=2), triton.Config({"N": 32}, num_warps=4)], key=["n"])
@triton.jit
def by_autotuning(X, O, n, N: tl.constexpr):
    o = tl.arange(0, N)
    tl.store(O + o, tl.load(X + o, mask=o < n, other=0.0) + 1, mask=o < n)


@triton.jit
def product(A, B, O, PRECISION: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = tl.arange(0, M)[:, None]
    n = tl.arange(0, N)[None, :]
    a = tl.load(A + m * K + tl.arange(0, K)[None, :])
    b = tl.load(B + tl.arange(0, K)[:, None] * N + n)
    tl.store(O + m * N + n, tl.dot(a, b, input_precision=PRECISION, out_dtype=O.dtype.element_ty))


@triton.jit
def divided(X, O, N: tl.constexpr):
    o = tl.arange(0, N)
    x = tl.load(X + o)
    tl.store(O + o, tl.sqrt(x) / (1 + tl.exp2(x)))


@triton.jit
def only_here(X, O, flag, N: tl.constexpr):
    o = tl.arange(0, N)
    if flag:
        later = tl.load(X + o)
    tl.store(O + o, later)


def local_kernel():
    """A kernel that no other process can import."""
    @triton.jit
    def inner(X, O, N: tl.constexpr):
        o = tl.arange(0, N)
        tl.store(O + o, tl.load(X + o))
    return inner


def _dots() -> dict[str, object]:
    def launch(precision: str, dtype: torch.dtype, K: int = 32, out: torch.dtype = torch.float32) -> object:
        a, b, o = torch.ones(16, K, dtype=dtype), torch.ones(K, 16, dtype=dtype), torch.empty(16, 16, dtype=out)
        return lambda: product[(1,)](a, b, o, PRECISION=precision, M=16, N=16, K=K)

    return {"tf32": launch("tf32", torch.float32), "tf32x3": launch("tf32x3", torch.float32), "ieee": launch("ieee", torch.float32),
            "bf16": launch("ieee", torch.bfloat16), "fp16 sums": launch("ieee", torch.float16, out=torch.float16),
            "short": launch("tf32", torch.float32, K=8)}


def launches() -> dict[str, object]:
    """What is launched, by the name the tests use."""
    x, o = torch.ones(64), torch.empty(64)
    return {
        "plain": lambda: scaled[(1,)](x, o, 0.5, N=32, num_warps=2, num_stages=1),
        "repeated": lambda: [scaled[(1,)](x, o, scale, N=32) for scale in (0.5, 0.25, 2.0)],
        "unaligned": lambda: scaled[(1,)](x[1:], o, 0.5, N=32),
        "types": lambda: many_types[(1,)](x.bfloat16(), x.half(), o, 32, 1, 2**40, True, None, TYPE=tl.float32, NAME="a", N=32),
        "tuple": lambda: of_tuple[(1,)]((x, 3), o, N=32),
        "heuristics": lambda: by_heuristics[(1,)](x, o, 17),
        "autotuned": lambda: by_autotuning[(1,)](x, o, 17),
        "functions": lambda: divided[(1,)](x, o, N=32),
        "branch": lambda: only_here[(1,)](x, o, 2, N=32),
        "local": lambda: local_kernel()[(1,)](x, o, N=32),
        **_dots(),
    }


def record(answer: str) -> None:
    """Run every launch in the interpreter and write what was recorded of it."""
    from replaycheck import interpreter

    interpreter.install()
    found = {}
    with interpreter.recorder.record() as everything:
        for name, launch in launches().items():
            with interpreter.recorder.record() as seen:
                launch()
            found[name] = [one.to_json() for one in seen]
    found["everything"] = [one.to_json() for one in everything]
    Path(answer).write_text(json.dumps(found))


if __name__ == "__main__":
    import importlib.util

    # As replaycheck loads a kernel file: under a name that is on no path.
    spec = importlib.util.spec_from_file_location("loaded_by_path", __file__)
    module = sys.modules["loaded_by_path"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.record(sys.argv[1])
