"""What was compiled, held against the policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from replaycheck.contract.claims import Claims
from replaycheck.verdict.measurement import Measurement
from replaycheck_reference.policy import Policy

from .compiler import Compiled
from .ptx import Instructions, read

__all__ = ["compile_measurements"]

#: Tensor-core operand types, and the products of a policy that are made of them.
_DECLARED_BY = {"tf32": ("tf32", "tf32_rna", "tf32x3"), "bf16": ("bf16", "bf16x3"), "f16": ("fp16",), "f64": ("fp64",)}
#: Products whose operands are rounded to tf32 before the tensor core cuts them.
_ROUNDED = ("tf32_rna", "tf32x3")
#: Approximate instructions whose error the backend's function table holds.
_TABLED = ("ex2", "lg2", "rcp", "rsqrt", "sqrt", "div")
_INTEGER = ("s8", "u8", "s4", "u4", "b1")


def compile_measurements(compiled: Sequence[Compiled], claims: Claims) -> list[Measurement]:
    """Measurements of guarantee "compile": one a launch that is in order, one a rule broken otherwise.

    Fails a launch that does not compile; tensor-core products that no path of the policy declares, plain tf32 where only rounded tf32 is
    declared, and half-precision tensor-core sums that no path declares; .ftz instructions where the policy does not flush; approximate
    functions that no table of function errors holds. Suspicious: a launch that was not tried, and tensor-core sums where every declared
    accumulator is fp32.
    """
    return [measurement for one in compiled for measurement in _measure(one, claims.policy)]


def _measure(compiled: Compiled, policy: Policy) -> list[Measurement]:
    kernel = compiled.launch.qualname
    facts: dict[str, Any] = {"kernel": kernel, "signature": compiled.launch.signature, "constexprs": compiled.launch.constexprs,
                             "seconds": round(compiled.seconds, 3)}
    if not compiled.tried:
        return [Measurement(guarantee="compile", value=0, budget=0, unit="launches", place={"kernel": kernel}, facts=facts, suspicious=True,
                            derivation="every launch compiles", diagnosis=f"{kernel} was not compiled: {compiled.error}")]
    if compiled.error is not None:
        return [_broken(kernel, 1, "launches", f"{kernel} does not compile: {compiled.error}", "every launch compiles", facts)]
    instructions = read(compiled.ptx)
    facts.update(instructions.facts())
    broken = [_broken(kernel, count, "instructions", f"{kernel} has {text}", rule, facts)
              for count, text, rule in _breaches(instructions, policy)]
    hidden = _hides_tensor_sums(instructions, policy)
    return broken or [Measurement(
        guarantee="compile", value=0, budget=0, unit="instructions", place={"kernel": kernel}, facts=facts, suspicious=hidden,
        derivation="instructions that the policy does not declare",
        diagnosis=f"{kernel} sums on tensor cores, where every declared accumulator is fp32" if hidden else "")]


def _broken(kernel: str, count: int, unit: str, diagnosis: str, rule: str, facts: dict[str, Any]) -> Measurement:
    return Measurement(guarantee="compile", value=count, budget=0, unit=unit, place={"kernel": kernel}, diagnosis=diagnosis,
                       derivation=rule, facts=facts)


def _products(policy: Policy) -> set[str]:
    return {product for path in policy.paths.values() for product in (path.token, path.readout, path.score, path.value)}


def _breaches(instructions: Instructions, policy: Policy) -> list[tuple[int, str, str]]:
    """(count, what, rule) of each rule that the instructions break."""
    declared = _products(policy)
    named = ", ".join(sorted(declared))
    out = []
    for operand, count in instructions.mma.items():
        if operand not in _INTEGER and not declared & set(_DECLARED_BY.get(operand, ())):
            out.append((count, f"{count} {operand} tensor-core products, where the policy declares {named}",
                        "products declared by the policy"))
    cut = instructions.mma.get("tf32", 0)
    if cut and "tf32" not in declared and declared & set(_ROUNDED) and not instructions.tf32_roundings:
        out.append((cut, f"{cut} tf32 products of operands that are never rounded to tf32, where the policy declares {named}",
                    "tf32 operands rounded as declared"))
    half = instructions.mma_sums.get("f16", 0)
    if half and not any(path.accumulator == "fp16" for path in policy.paths.values()):
        out.append((half, f"{half} tensor-core sums in fp16, which no path declares", "accumulators declared by the policy"))
    if not policy.ftz and instructions.ftz:
        out.append((instructions.ftz, f"{instructions.ftz} .ftz instructions, where the policy does not flush", "policy.ftz"))
    unknown = {opcode: n for opcode, n in instructions.approximate.items() if opcode.split(".")[0] not in _TABLED}
    if unknown:
        out.append((sum(unknown.values()), f"approximate functions whose error no table holds: {', '.join(sorted(unknown))}",
                    "function errors come from the backend's table"))
    return out


def _hides_tensor_sums(instructions: Instructions, policy: Policy) -> bool:
    floating = sum(n for operand, n in instructions.mma.items() if operand not in (*_INTEGER, "f64"))
    return bool(floating) and not any(path.accumulator in ("tensor", "fp16", "bf16") for path in policy.paths.values())
