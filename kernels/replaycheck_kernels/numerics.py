"""Elementary functions and exact splittings in fp32, as device functions.

Everything here is faithful to a few fp32 roundings over the whole range and never overflows on the way, compiled or interpreted.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["dot3", "dot3_right", "exp_nonpositive", "sigmoid", "softplus", "split3"]


@triton.jit
def exp_nonpositive(x):
    """e^x for x <= 0, fp32, to about four roundings whatever the size of x.

    e^x = 2^k e^r with k = floor(x log2 e + 1/2) and r = x - k ln 2; ln 2 is taken as 355/512 minus a small rest, so that
    k * 355/512 is exact. (Multiplying x by log2 e first loses |x| roundings.) Below -104 the result is zero in fp32.
    """
    x = tl.where(x < -104.0, -104.0, x)
    k = tl.floor(x * 1.4426950408889634 + 0.5)
    r = (x - k * 0.693359375) + k * 2.121944400546905827679e-4
    return tl.exp2(k) * tl.exp(r)


@triton.jit
def log1p_unit(u):
    """log(1 + u) for 0 <= u <= 1, fp32: 2 atanh(s) with s = u / (2 + u) <= 1/3, nine terms of the series (rest below 2^-32)."""
    s = u / (2.0 + u)
    t = s * s
    p = t * 0.058823529411764705 + 0.06666666666666667
    p = p * t + 0.07692307692307693
    p = p * t + 0.09090909090909091
    p = p * t + 0.1111111111111111
    p = p * t + 0.14285714285714285
    p = p * t + 0.2
    p = p * t + 0.3333333333333333
    p = p * t + 1.0
    return 2.0 * s * p


@triton.jit
def softplus(x):
    """log(1 + e^x), fp32, relative error of a few roundings for every x: max(x, 0) + log1p(e^-|x|).

    log(1 + e^x) as written loses the result below x = -8 and is zero below -16.6; softplus(x) == x from x = 17 on.
    """
    return tl.where(x > 0.0, x, 0.0) + log1p_unit(exp_nonpositive(-tl.abs(x)))


@triton.jit
def sigmoid(x):
    """1 / (1 + e^-x), fp32, relative error of a few roundings for every x."""
    e = exp_nonpositive(-tl.abs(x))
    s = 1.0 / (1.0 + e)
    return tl.where(x < 0.0, e * s, s)


@triton.jit
def upper_half(a):
    """fp32 truncated to the 16 upper bits (a bf16 number), kept as fp32."""
    return (a.to(tl.int32, bitcast=True) & -65536).to(tl.float32, bitcast=True)


@triton.jit
def as_bf16(a):
    """An fp32 number that is exactly a bf16 number, as bf16, by moving bits."""
    return (a.to(tl.int32, bitcast=True) >> 16).to(tl.int16).to(tl.bfloat16, bitcast=True)


@triton.jit
def split3(a):
    """fp32 -> three bf16 parts of 8 bits each whose sum is exactly `a` (parts below 2^-126 may be lost).

    A product of a part with a bf16 number is exact in fp32, so a matrix unit with bf16 operands and fp32 sums does fp32 work.
    """
    high = upper_half(a)
    rest = a - high
    middle = upper_half(rest)
    return as_bf16(high), as_bf16(middle), as_bf16(rest - middle)


@triton.jit
def dot3(a, b):
    """a @ b with `a` fp32 in three exact parts, small parts first, and `b` bf16."""
    high, middle, low = split3(a)
    return tl.dot(high, b, tl.dot(middle, b, tl.dot(low, b)))


@triton.jit
def dot3_right(a, b):
    """a @ b with `a` bf16 and `b` fp32 in three exact parts, small parts first."""
    high, middle, low = split3(b)
    return tl.dot(a, high, tl.dot(a, middle, tl.dot(a, low)))
