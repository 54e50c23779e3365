"""Out-of-bounds access: what is refused, what is said, and that nothing was written."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl

from replaycheck.interpreter import OutOfBounds, bounds


@triton.jit
def reads(X, O, first, N: tl.constexpr):
    o = tl.arange(0, N)
    tl.store(O + o, tl.load(X + first + o))


@triton.jit
def reads_masked(X, O, limit, N: tl.constexpr):
    o = tl.arange(0, N)
    tl.store(O + o, tl.load(X + o, mask=o < limit, other=-1.0))


@triton.jit
def writes(X, O, first, N: tl.constexpr):
    o = tl.arange(0, N)
    tl.store(O + first + o, tl.load(X + o))


@triton.jit
def writes_masked(O, limit, N: tl.constexpr):
    o = tl.arange(0, N)
    tl.store(O + o, o.to(tl.float32), mask=o < limit)


@triton.jit
def adds(O, first, N: tl.constexpr):
    tl.atomic_add(O + first + tl.arange(0, N), 1.0)


@triton.jit
def tiles(X, O, H, W, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.program_id(1) * B + tl.arange(0, B)
    p = r[:, None] * W + c[None, :]
    tl.store(O + p, tl.load(X + p, mask=(r < H)[:, None] & (c < W)[None, :], other=0.0))


@triton.jit
def through_block_pointer(X, O, rows, first, B: tl.constexpr):
    source = tl.make_block_ptr(X, shape=(rows, B), strides=(B, 1), offsets=(first, 0), block_shape=(4, B), order=(1, 0))
    target = tl.make_block_ptr(O, shape=(4, B), strides=(B, 1), offsets=(0, 0), block_shape=(4, B), order=(1, 0))
    tl.store(target, tl.load(source, boundary_check=(0,), padding_option="zero"))


@triton.jit
def through_descriptor(X, O, rows, B: tl.constexpr):
    source = tl.make_tensor_descriptor(X, shape=[rows, B], strides=[B, 1], block_shape=[4, B])
    target = tl.make_tensor_descriptor(O, shape=[4, B], strides=[B, 1], block_shape=[4, B])
    target.store([0, 0], source.load([2, 0]))


@triton.jit
def through_table(TABLE, O, first, N: tl.constexpr):
    o = tl.arange(0, N)
    base = tl.load(TABLE).to(tl.pointer_type(tl.float32))
    tl.store(O + o, tl.load(base + first + o))


@triton.jit
def reinterprets(X, O, count: tl.constexpr):
    o = tl.arange(0, count)
    tl.store(O + o, tl.load(X.to(tl.pointer_type(tl.int16)) + o).to(tl.int32))


@triton.jit
def chooses(X, Y, O, flag, first, N: tl.constexpr):
    o = tl.arange(0, N)
    source = tl.where(o + flag > 0, X + o, Y + o)
    tl.store(O + o, tl.load(source + first))


@triton.jit
def wraps(X, O, rows, stride, N: tl.constexpr):
    o = tl.arange(0, N)
    tl.store(O + o, tl.load(X + (rows * stride) + o))


def refusal(launch: Callable[[], Any]) -> dict[str, Any]:
    """What was refused; empty where nothing was."""
    try:
        launch()
    except OutOfBounds as error:
        return {"message": str(error), "kernel": error.kernel, "program": list(error.program), "argument": error.argument,
                "access": error.access, "count": error.count, "offset": error.offset}
    return {}


def guarded(count: int = 16, band: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    """A registered view of ones, and the storage of zeros around it."""
    storage = torch.zeros(band + count + band)
    view = storage[band:band + count]
    view.fill_(1.0)
    bounds.restrict(view)
    return view, storage


def plain() -> dict[str, Any]:
    x, o = torch.arange(16.0), torch.zeros(16)
    return {
        "inside": refusal(lambda: reads[(1,)](x, o, 0, N=16)),
        "read after": refusal(lambda: reads[(1,)](x, o, 8, N=16)),
        "read before": refusal(lambda: reads[(1,)](x, o, -3, N=16)),
        "write after": refusal(lambda: writes[(1,)](x, o, 12, N=16)),
        "keyword": refusal(lambda: writes[(1,)](X=x, O=o, first=12, N=16)),
        "atomic": refusal(lambda: adds[(1,)](o, 1, N=16)),
        "empty": refusal(lambda: reads[(1,)](torch.empty(0), o, 0, N=16)),
        "one line": all("\n" not in r.get("message", "") for r in (refusal(lambda: reads[(1,)](x, o, 8, N=16)),)),
    }


def masked() -> dict[str, Any]:
    x, o = torch.arange(8.0), torch.zeros(16)
    found = {"lanes masked off": refusal(lambda: reads_masked[(1,)](x, o, 8, N=16)), "values": o.tolist(),
             "one lane too many": refusal(lambda: reads_masked[(1,)](x, o, 9, N=16)),
             "all masked off": refusal(lambda: reads_masked[(1,)](torch.empty(0), o, 0, N=16))}
    short = torch.zeros(10)
    found["write masked off"] = refusal(lambda: writes_masked[(1,)](short, 10, N=16))
    found["written"] = short.tolist()
    found["write one too many"] = refusal(lambda: writes_masked[(1,)](short, 11, N=16))
    grid = torch.ones(5, 7)
    found["second program"] = refusal(lambda: tiles[(2, 2)](grid, torch.zeros(64), 5, 7, B=4))
    found["wrong stride"] = refusal(lambda: tiles[(2, 2)](grid, torch.zeros(128), 5, 8, B=4))
    return found


def guards() -> dict[str, Any]:
    view, storage = guarded()
    x, o = torch.full((16,), 5.0), torch.zeros(16)
    found: dict[str, Any] = {"write": refusal(lambda: writes[(1,)](x, view, 12, N=16)),
                             "read": refusal(lambda: reads[(1,)](view, o, 1, N=16))}
    found["storage unchanged"] = int((storage != torch.cat([torch.zeros(16), torch.ones(16), torch.zeros(16)])).sum())
    found["inside"] = refusal(lambda: writes[(1,)](x, view, 0, N=16))
    found["written"] = float(storage.sum())
    found["sub-view"] = refusal(lambda: reads[(1,)](view[4:8], o, -4, N=16))
    found["guard itself"] = refusal(lambda: reads[(1,)](storage[:16], o, 0, N=16))
    found["strided view"] = strided()
    return found


def strided() -> dict[str, Any]:
    """The extent of a view with gaps: first to last element."""
    storage = torch.zeros(64)
    view = storage.view(8, 8)[2:4, 1:3]               # elements 17 to 26
    bounds.restrict(view)
    o = torch.zeros(16)
    return {"inside": refusal(lambda: reads_masked[(1,)](view, o, 10, N=16)),
            "after": refusal(lambda: reads_masked[(1,)](view, o, 11, N=16))}


def reused() -> dict[str, Any]:
    """A registration ends with its storage, even where the next tensor stands at the same address."""
    addresses = set()
    for _ in range(50):
        view, storage = guarded(1024, 1024)
        addresses.add(storage.data_ptr())
        del view, storage
        gc.collect()
        fresh = torch.zeros(3072)
        seen = fresh.data_ptr() in addresses
        found = refusal(lambda fresh=fresh: reads[(1,)](fresh, torch.zeros(16), 0, N=16))
        if seen or found:
            return {"same address": seen, "refusal": found}
    return {"same address": False, "refusal": {}}


def pointers() -> dict[str, Any]:
    x, o = torch.arange(16.0), torch.zeros(16)
    table = torch.tensor([x.data_ptr()], dtype=torch.int64)
    view, _ = guarded()
    views = torch.tensor([view.data_ptr()], dtype=torch.int64)
    ints = torch.zeros(32, dtype=torch.int32)
    return {
        "block": refusal(lambda: through_block_pointer[(1,)](torch.ones(6, 16), torch.zeros(4, 16), 6, 4, B=16)),
        "block of wrong shape": refusal(lambda: through_block_pointer[(1,)](torch.ones(6, 16), torch.zeros(4, 16), 9, 4, B=16)),
        "descriptor": refusal(lambda: through_descriptor[(1,)](torch.ones(5, 16), torch.zeros(4, 16), 5, B=16)),
        "descriptor of wrong shape": refusal(lambda: through_descriptor[(1,)](torch.ones(5, 16), torch.zeros(4, 16), 6, B=16)),
        "unknown table": refusal(lambda: through_table[(1,)](table, o, 0, N=16)),
        "table of registered": refusal(lambda: through_table[(1,)](views, o, 0, N=16)),
        "table beyond registered": refusal(lambda: through_table[(1,)](views, o, 1, N=16)),
        "other type": refusal(lambda: reinterprets[(1,)](x, ints, count=32)),
        "other type, too many": refusal(lambda: reinterprets[(1,)](x, torch.zeros(64, dtype=torch.int32), count=64)),
        "choice": refusal(lambda: chooses[(1,)](x, torch.ones(16), o, 1, 0, N=16)),
        "int32 overflow": refusal(lambda: wraps[(1,)](x, o, 70000, 70000, N=16)),
    }


def narrow_atomics() -> list[float]:
    total = torch.zeros(16, dtype=torch.bfloat16)
    adds[(3,)](total, 0, N=16)
    return total.float().tolist()


def other_devices() -> str:
    try:
        reads[(1,)](torch.empty(16, device="meta"), torch.zeros(16), 0, N=16)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "accepted"


def probe() -> dict[str, Any]:
    return {"plain": plain(), "masked": masked(), "guards": guards(), "reused": reused(), "pointers": pointers(),
            "bf16 atomics": narrow_atomics(), "device": other_devices()}
