"""Number formats, one value at a time, over rationals: the readable specification that the array twin is tested against."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

__all__ = [
    "FORMATS", "INTEGERS", "OVERFLOWS", "ROUNDINGS", "Format", "Special", "decode", "decode_integer", "encode", "encode_integer",
    "encode_stochastic", "format_of",
]

#: To the nearest, ties to even; to the nearest, ties away from zero; toward zero.
ROUNDINGS = ("nearest", "nearest_away", "truncate")
#: What a value too large gives: infinity (NaN where the format has none), or the largest finite value.
OVERFLOWS = ("infinite", "saturate")


class Special(Enum):
    """Values of a format that are no rational number."""

    NAN = "nan"
    POSITIVE_INFINITY = "inf"
    NEGATIVE_INFINITY = "-inf"
    NEGATIVE_ZERO = "-0"


@dataclass(frozen=True, kw_only=True)
class Format:
    """A binary format: sign, biased exponent, fraction, with subnormals.

    precision: significand bits, the hidden one included. emin, emax: exponents of the smallest and largest normal numbers (1 <= m < 2).
    has_infinity: the largest exponent field is kept for infinity and NaN; where False (e4m3) only the all-ones pattern is NaN.
    has_nan: where False (e2m1) every pattern is a number, NaN cannot be encoded, and whatever overflow is asked for saturates.
    """

    name: str
    precision: int
    emin: int
    emax: int
    has_infinity: bool = True
    has_nan: bool = True

    @property
    def fraction_bits(self) -> int:
        return self.precision - 1

    @property
    def exponent_bits(self) -> int:
        return (2 - self.emin).bit_length()

    @property
    def bits(self) -> int:
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def bias(self) -> int:
        return 1 - self.emin

    @property
    def smallest_normal(self) -> Fraction:
        return Fraction(2) ** self.emin

    @property
    def smallest_subnormal(self) -> Fraction:
        return Fraction(2) ** (self.emin - self.fraction_bits)

    @property
    def max_finite(self) -> Fraction:
        missing = 1 if self.has_infinity or not self.has_nan else 2
        return (2 - missing * Fraction(2) ** -self.fraction_bits) * Fraction(2) ** self.emax


#: tf32 is counted as the 19 bits it keeps of an fp32. fp8 follows the OCP specification: e4m3 has no infinity, e5m2 has.
FORMATS = {
    f.name: f
    for f in (
        Format(name="fp64", precision=53, emin=-1022, emax=1023),
        Format(name="fp32", precision=24, emin=-126, emax=127),
        Format(name="tf32", precision=11, emin=-126, emax=127),
        Format(name="fp16", precision=11, emin=-14, emax=15),
        Format(name="bf16", precision=8, emin=-126, emax=127),
        Format(name="fp8_e4m3", precision=4, emin=-6, emax=8, has_infinity=False),
        Format(name="fp8_e5m2", precision=3, emin=-14, emax=15),
        Format(name="fp4_e2m1", precision=2, emin=0, emax=2, has_infinity=False, has_nan=False),
    )
}

#: Two's complement integers by name, with their bits. What is stored stays within +-(2^(bits-1) - 1): the most negative code is never made.
INTEGERS = {"int8": 8, "int16": 16}


def format_of(name: str) -> Format:
    """The format called `name`. Raises ValueError naming it where there is none."""
    if name not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}, got {name!r}")
    return FORMATS[name]


def decode(bits: int, fmt: Format) -> Fraction | Special:
    """The value of a bit pattern. Raises ValueError where the pattern has more bits than the format."""
    if not 0 <= bits < 1 << fmt.bits:
        raise ValueError(f"bits of {fmt.name} must be in 0 .. 2^{fmt.bits} - 1, got {bits}")
    negative = bool(bits >> (fmt.bits - 1))
    exponent = (bits >> fmt.fraction_bits) & ((1 << fmt.exponent_bits) - 1)
    fraction = bits & ((1 << fmt.fraction_bits) - 1)
    top = (1 << fmt.exponent_bits) - 1
    if fmt.has_infinity and exponent == top:
        if fraction:
            return Special.NAN
        return Special.NEGATIVE_INFINITY if negative else Special.POSITIVE_INFINITY
    if fmt.has_nan and not fmt.has_infinity and exponent == top and fraction == (1 << fmt.fraction_bits) - 1:
        return Special.NAN
    if exponent == 0 and fraction == 0 and negative:
        return Special.NEGATIVE_ZERO
    hidden = 0 if exponent == 0 else 1 << fmt.fraction_bits
    magnitude = (hidden + fraction) * Fraction(2) ** (max(exponent, 1) - fmt.bias - fmt.fraction_bits)
    return -magnitude if negative else magnitude


def encode(value: Fraction | Special, fmt: Format, *, rounding: str = "nearest", overflow: str = "infinite") -> int:
    """The bit pattern `value` is rounded to. NaN gives the canonical quiet NaN.

    rounding: one of ROUNDINGS. overflow: one of OVERFLOWS; a saturating format takes infinity to its largest finite value too.
    """
    if rounding not in ROUNDINGS:
        raise ValueError(f"rounding must be one of {', '.join(ROUNDINGS)}, got {rounding!r}")
    if overflow not in OVERFLOWS:
        raise ValueError(f"overflow must be one of {', '.join(OVERFLOWS)}, got {overflow!r}")
    if value is Special.NAN:
        return _nan(fmt)
    if isinstance(value, Special):
        negative = value is not Special.POSITIVE_INFINITY
        magnitude = 0 if value is Special.NEGATIVE_ZERO else _too_large(fmt, overflow)
    else:
        negative = value < 0
        magnitude = _magnitude(abs(value), fmt, rounding, overflow)
    return magnitude | (1 << (fmt.bits - 1)) if negative else magnitude


def encode_stochastic(value: Fraction, fmt: Format, *, word: int, bits: int, overflow: str = "infinite") -> int:
    """The bit pattern below `value` in magnitude, or the next above where word / 2^bits carries the fraction between them to one.

    word: uniform in 0 .. 2^bits - 1, so that up is taken with probability floor(2^bits fraction) / 2^bits; a value of the format stays.
    Raises ValueError naming a word or a count of bits out of range.
    """
    _check_word(word, bits)
    magnitude = abs(value)
    exponent = max(_exponent(magnitude), fmt.emin) if magnitude else fmt.emin
    steps = magnitude / Fraction(2) ** (exponent - fmt.fraction_bits)
    pattern = ((exponent - fmt.emin) << fmt.fraction_bits) + int(steps + Fraction(word, 1 << bits))
    if pattern > _largest(fmt):
        pattern = _too_large(fmt, overflow)
    return pattern | (1 << (fmt.bits - 1)) if value < 0 else pattern


def decode_integer(bits: int, name: str) -> int:
    """The value of a two's complement pattern. Raises ValueError where the pattern has more bits than the format."""
    width = INTEGERS[name]
    if not 0 <= bits < 1 << width:
        raise ValueError(f"bits of {name} must be in 0 .. 2^{width} - 1, got {bits}")
    return bits - (1 << width) if bits >> (width - 1) else bits


def encode_integer(value: Fraction, name: str, *, rounding: str = "nearest") -> int:
    """The two's complement pattern of `value` rounded to a whole number (ROUNDINGS), held to +-(2^(bits-1) - 1)."""
    if rounding not in ROUNDINGS:
        raise ValueError(f"rounding must be one of {', '.join(ROUNDINGS)}, got {rounding!r}")
    largest = (1 << (INTEGERS[name] - 1)) - 1
    whole = min(_round(abs(value), rounding), largest)
    return (-whole if value < 0 else whole) % (1 << INTEGERS[name])


def _check_word(word: int, bits: int) -> None:
    if not 1 <= bits <= 32:
        raise ValueError(f"bits must be in 1 .. 32, got {bits}")
    if not 0 <= word < 1 << bits:
        raise ValueError(f"word must be in 0 .. 2^{bits} - 1, got {word}")


def _magnitude(value: Fraction, fmt: Format, rounding: str, overflow: str) -> int:
    exponent = max(_exponent(value), fmt.emin) if value else fmt.emin
    steps = value / Fraction(2) ** (exponent - fmt.fraction_bits)  # in units of the last place
    whole = _round(steps, rounding)
    # Patterns of one sign are in order of value, so that a carry out of the fraction lands in the exponent by itself.
    pattern = ((exponent - fmt.emin) << fmt.fraction_bits) + whole
    largest = _largest(fmt)
    if pattern <= largest:
        return pattern
    return largest if rounding == "truncate" else _too_large(fmt, overflow)


def _round(steps: Fraction, rounding: str) -> int:
    if rounding == "nearest":
        return round(steps)  # Fraction rounds half to even
    if rounding == "nearest_away":
        return int(steps + Fraction(1, 2))
    return int(steps)


def _exponent(value: Fraction) -> int:
    """e with 2^e <= value < 2^(e+1)."""
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if value >= Fraction(2) ** guess else guess - 1


def _largest(fmt: Format) -> int:
    everything = (1 << (fmt.bits - 1)) - 1
    if not fmt.has_nan:
        return everything
    return everything - (1 << fmt.fraction_bits) if fmt.has_infinity else everything - 1


def _too_large(fmt: Format, overflow: str) -> int:
    if overflow == "saturate" or not fmt.has_nan:
        return _largest(fmt)
    return _largest(fmt) + 1  # infinity, or NaN where there is none


def _nan(fmt: Format) -> int:
    if not fmt.has_nan:
        raise ValueError(f"{fmt.name} has no NaN")
    everything = (1 << (fmt.bits - 1)) - 1
    return everything - (1 << (fmt.fraction_bits - 1)) + 1 if fmt.has_infinity else everything
