"""Reading PTX: which instructions a kernel is made of."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

__all__ = ["Instructions", "read"]

_OPCODE = re.compile(r"(?:@!?%?[\w$]+\s+)?([a-z][a-z0-9_]*(?:[.:]+[A-Za-z0-9_]+)*)(?=[\s;]|$)")
_MATRIX = ("mma.sync", "wgmma.mma_async", "wmma.mma")
_TYPES = {"f16", "bf16", "tf32", "e4m3", "e5m2", "f32", "f64", "s8", "u8", "s32", "s4", "u4", "b1"}


@dataclass(frozen=True)
class Instructions:
    """Counts of the instructions in a PTX text, each counted once where it stands (loops are not unrolled by reading).

    opcodes: full opcode with its modifiers -> count. mma: operand type ("tf32", "bf16", "f16", ...) -> tensor-core instructions.
    mma_sums: type of the tensor-core sums -> count.
    """

    opcodes: dict[str, int] = field(default_factory=dict)
    mma: dict[str, int] = field(default_factory=dict)
    mma_sums: dict[str, int] = field(default_factory=dict)

    def count(self, *modifiers: str) -> int:
        """Instructions whose opcode has all of these dotted parts, in any order: count("cvt", "rna", "tf32")."""
        return sum(n for opcode, n in self.opcodes.items() if set(modifiers) <= set(opcode.split(".")))

    @property
    def tf32_roundings(self) -> int:
        """cvt.rna.tf32.f32: operands rounded to tf32 rather than cut."""
        return self.count("cvt", "rna", "tf32")

    @property
    def ftz(self) -> int:
        """Instructions that flush subnormal numbers to zero."""
        return self.count("ftz")

    @property
    def fma(self) -> int:
        return sum(n for opcode, n in self.opcodes.items() if opcode.startswith("fma."))

    @property
    def atomics(self) -> int:
        return sum(n for opcode, n in self.opcodes.items() if opcode.split(".")[0] in ("atom", "red"))

    @property
    def approximate(self) -> dict[str, int]:
        """Functions that are not correctly rounded: opcode -> count."""
        return {opcode: n for opcode, n in self.opcodes.items() if {"approx", "full"} & set(opcode.split("."))}

    def facts(self) -> dict[str, object]:
        """What a report shows."""
        return {"mma": dict(self.mma), "tf32 roundings": self.tf32_roundings, "ftz": self.ftz, "fma": self.fma, "atomics": self.atomics,
                "approximate": self.approximate}


def _statements(ptx: str) -> list[str]:
    text = re.sub(r"/\*.*?\*/", " ", ptx, flags=re.DOTALL)
    return [part.strip(" \t{}") for line in text.splitlines() for part in line.split("//", 1)[0].split(";")]


def read(ptx: str) -> Instructions:
    """The instructions of a PTX text, those of inline assembly included."""
    opcodes: Counter[str] = Counter()
    operands: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    for statement in _statements(ptx):
        found = _OPCODE.match(statement)
        if found is None:
            continue
        opcode = found.group(1).replace("::", ".")
        opcodes[opcode] += 1
        if opcode.startswith(_MATRIX):
            types = [part for part in opcode.split(".") if part in _TYPES]
            sums[types[0]] += 1
            operands[types[1]] += 1
    return Instructions(dict(opcodes), dict(operands), dict(sums))
