"""Dots against float64 and against what a tensor core reads of its operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from replaycheck import interpreter

M, N, K = 16, 32, 64


@triton.jit
def product(A, B, C, PRECISION: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    a = tl.load(A + m[:, None] * K + k[None, :])
    b = tl.load(B + k[:, None] * N + n[None, :])
    acc = tl.load(C + m[:, None] * N + n[None, :])
    tl.store(C + m[:, None] * N + n[None, :], tl.dot(a, b, acc, input_precision=PRECISION, out_dtype=C.dtype.element_ty))


def operands(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(M, K, generator=generator), torch.randn(K, N, generator=generator)


def dot(a: torch.Tensor, b: torch.Tensor, precision: str = "tf32", c: torch.Tensor | None = None) -> torch.Tensor:
    out = torch.zeros(M, N) if c is None else c.clone()
    product[(1,)](a, b, out, PRECISION=precision, M=M, N=N, K=K)
    return out


def relative(got: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> float:
    """Largest error, relative to the sum of magnitudes."""
    a, b = a.double(), b.double()
    return float(((got.double() - a @ b).abs() / (a.abs() @ b.abs())).max())


def narrow_products(dtype: torch.dtype) -> dict[str, float]:
    """Integers give the exact result; random operands of the format one within fp32 summation."""
    generator = torch.Generator().manual_seed(9)
    a = torch.randint(-7, 8, (M, K), generator=generator).float()
    b = torch.randint(-7, 8, (K, N), generator=generator).float()
    c = torch.randint(-9, 10, (M, N), generator=generator).float()
    x, y = (v.to(dtype) for v in operands())
    return {"integers": int((dot(a.to(dtype), b.to(dtype), c=c) != a @ b + c).sum()), "relative": relative(dot(x, y), x.float(), y.float())}


def cut(values: torch.Tensor) -> torch.Tensor:
    return (values.view(torch.int32) & -0x2000).view(torch.float32)


def nearest(values: torch.Tensor) -> torch.Tensor:
    """Ties away from zero, by arithmetic: 11 significant bits of the magnitude."""
    mantissa, exponent = np.frexp(values.double().numpy())
    whole = np.sign(mantissa) * np.floor(np.abs(mantissa) * 2048 + 0.5)
    return torch.from_numpy(np.ldexp(whole, exponent - 11)).float()


def tf32() -> dict[str, float]:
    """A plain tf32 dot equals the fp32 dot of operands cut to tf32, bit for bit; after install(tf32="nearest"), of rounded ones."""
    a, b = operands()
    found: dict[str, float] = {
        "truncated": int((dot(a, b, "tf32") != dot(cut(a), cut(b), "ieee")).sum()), "relative": relative(dot(a, b, "tf32"), a, b)}
    interpreter.install(tf32="nearest")
    try:
        found["nearest"] = int((dot(a, b, "tf32") != dot(nearest(a), nearest(b), "ieee")).sum())
        found["nearest relative"] = relative(dot(a, b, "tf32"), a, b)
    finally:
        interpreter.install()
    return found


def tf32x3() -> dict[str, float]:
    """Three tf32 products, each exact: hi by hi, hi by lo and lo by hi, where lo is what rounding to tf32 left, cut."""
    a, b = operands()
    a_high, b_high = nearest(a), nearest(b)
    a_low, b_low = cut(a - a_high), cut(b - b_high)
    small = dot(a_low, b_high, "ieee") + dot(a_high, b_low, "ieee")
    expected = small + dot(a_high, b_high, "ieee")
    lost = torch.full((M, K), 1 + 2.0**-12 + 2.0**-23), torch.full((K, N), 1.0)
    return {"bits": int((dot(a, b, "tf32x3") != expected).sum()), "relative": relative(dot(a, b, "tf32x3"), a, b),
            "unlike ieee": int((dot(*lost, "tf32x3") != dot(*lost, "ieee")).sum())}


def special_values() -> dict[str, bool]:
    """inf and NaN operands go through a tf32 dot as they are."""
    a, b = operands()
    a[0, 0], a[1, 0] = float("inf"), torch.tensor(0x7F800001, dtype=torch.int32).view(torch.float32)
    b[0, :] = 1.0
    out = dot(a, b, "tf32")
    return {"inf": bool(out[0].isinf().all()), "nan": bool(out[1].isnan().all()), "tf32x3 inf": bool(dot(a, b, "tf32x3")[0].isinf().all())}


def batched() -> int:
    """K = 8 is interpreted, though no GPU compiler takes it: that is the compile check's to say."""
    a, b = torch.ones(16, 8), torch.ones(8, 16)
    out = torch.zeros(16, 16)
    product[(1,)](a, b, out, PRECISION="ieee", M=16, N=16, K=8)
    return int((out != 8).sum())


def half_sums() -> float:
    """fp16 operands with fp16 sums."""
    a, b = (v.half() for v in operands())
    out = torch.zeros(M, N, dtype=torch.float16)
    product[(1,)](a, b, out, PRECISION="ieee", M=M, N=N, K=K)
    return relative(out, a.float(), b.float())


def integer_products() -> int:
    generator = torch.Generator().manual_seed(3)
    a = torch.randint(-128, 128, (M, K), generator=generator, dtype=torch.int8)
    b = torch.randint(-128, 128, (K, N), generator=generator, dtype=torch.int8)
    out = torch.zeros(M, N, dtype=torch.int32)
    product[(1,)](a, b, out, PRECISION="ieee", M=M, N=N, K=K)
    return int((out != a.int() @ b.int()).sum())


def probe() -> dict[str, Any]:
    a, b = operands()
    narrow = {"bf16": torch.bfloat16, "fp16": torch.float16, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
    return {
        "narrow": {name: narrow_products(dtype) for name, dtype in narrow.items()},
        "tf32": tf32(), "tf32x3": tf32x3(), "ieee": relative(dot(a, b, "ieee"), a, b),
        "bf16x3": relative(dot(a, b, "bf16x3"), a, b), "bf16x6": relative(dot(a, b, "bf16x6"), a, b),
        "special": special_values(), "short": batched(), "fp16 sums": half_sums(), "int8": integer_products(),
    }
