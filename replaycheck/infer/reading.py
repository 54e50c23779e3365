"""What is read directly, off bits, windows and instructions, rather than off budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from replaycheck.compile import compile_launches
from replaycheck.compile.ptx import Instructions, read
from replaycheck.judge.windows.batches import Batch, Residual
from replaycheck_reference.formats.arrays import ulp
from replaycheck_reference.policy import Policy
from replaycheck_reference.recurrences.batched.mamba2 import Mamba2Terms

from .lattice import PRODUCTS, put
from .probes import Probe
from .search import Finding

__all__ = ["folds", "identity_from", "instructions_of", "rounding_mode", "with_instructions"]

#: Where a softplus may begin to be the identity: at 20, above it, or where every format has it so.
_THRESHOLDS = (20.0, 20 + 2.0**-19, 24.0, 32.0)
#: Tensor-core operand -> products that declare it, and the least of them.
_OPERANDS = {"bf16": ("bf16", "bf16x3"), "tf32": ("tf32", "tf32_rna", "tf32x3"), "f16": ("fp16",)}
_PRODUCT_FIELDS = ("token", "readout", "score", "value")
#: Launches compiled, and the seconds they may take together.
_LAUNCHES, _SECONDS = 6, 180.0


def folds(probe: Probe) -> str:
    """Whether a published state held the token of its own step: "through", or only those "before" it."""
    published = [window for window in probe.play.windows if window.end is not None and window.paths]
    return "before" if any(window.paths[-1] == "output" for window in published) else "through"


def identity_from(probe: Probe) -> float | None:
    """The least threshold from which every dt in the state was raw dt itself, bit for bit; None where there is none, or no fp32 state."""
    if probe.play.case.formats.state != "fp32":
        return None
    pairs = [pair for batch in probe.judged for pair in _dt_seen(batch)]
    if not pairs:
        return None
    raw, seen = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    for threshold in _THRESHOLDS:
        beyond = raw >= threshold
        if bool(beyond.any()) and torch.equal(seen[beyond], raw[beyond]):
            return threshold
    return None


def _dt_seen(batch: Batch) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Raw dt as fp32 and the dt in the state, [heads], of every published token that has a column of its own."""
    found = []
    assert isinstance(batch.terms, Mamba2Terms)
    for index, window in enumerate(batch.windows):
        tokens, columns = len(window.paths), batch.layer.state_dim
        if window.end is None or window.position + tokens > columns:
            continue
        for token in range(tokens):
            found.append((batch.terms.raw[index, token].float(), window.end[:, 0, window.position + token].float()))
    return found


def rounding_mode(probe: Probe, policy: Policy, which: str) -> str:
    """Of a store that does not round to nearest: "truncate" where no sharp element lies beyond its exact value, else "stochastic"."""
    residuals = [residual for batch in probe.judged for residual in _residuals(batch, which)]
    beyond = sum(_beyond(residual, getattr(probe.built(policy), which).format) for residual in residuals)
    return "stochastic" if beyond else "truncate"


def _residuals(batch: Batch, which: str) -> list[Residual]:
    if which == "output":
        return [batch.outputs]
    return [] if batch.end is None else [batch.end]


def _beyond(residual: Residual, fmt: str) -> int:
    """Elements larger than exact by more than a sixteenth of an ulp."""
    return int((residual.seen.abs() > residual.exact.abs() + ulp(residual.exact, fmt) / 16).sum())


def instructions_of(probes: Sequence[Probe]) -> tuple[list[Instructions], list[str]]:
    """The instructions of the launches that the plays recorded, compiled, and what could not be compiled, one line each."""
    distinct = {repr(launch): launch for probe in probes for launch in probe.play.launches}
    if not distinct:
        return [], []
    compiled = compile_launches(list(distinct.values())[:_LAUNCHES], timeout=_SECONDS)
    return ([read(one.ptx) for one in compiled if one.error is None],
            [f"{one.launch.qualname} was not read: {one.error}" for one in compiled if one.error is not None])


def with_instructions(policy: Policy, instructions: Sequence[Instructions]) -> tuple[Policy, list[Finding]]:
    """The policy loosened by what only instructions show: products on tensor cores, their sums, and flushing. With a finding for each."""
    found: list[Finding] = []
    for operand, declared in _OPERANDS.items():
        count = sum(one.mma.get(operand, 0) for one in instructions)
        rounded = any(one.tf32_roundings for one in instructions)
        least = {"bf16": "bf16x3", "tf32": "tf32x3", "f16": "fp16"}[operand]
        held = {getattr(path, product) for path in policy.paths.values() for product in _PRODUCT_FIELDS}
        if operand == "tf32" and count and not rounded:
            policy = _cut(policy, found)
        elif count and not held & set(declared):
            policy = _raised(policy, least, f"{count} {operand} tensor-core products; which they are the instructions do not say", found)
    sums = sum(n for one in instructions for operand, n in one.mma.items() if operand in _OPERANDS)
    for name, path in policy.paths.items():
        if sums and path.accumulator == "fp32":
            policy = put(policy, f"paths.{name}.accumulator", "tensor")
            found.append(_read(f"paths.{name}.accumulator", "tensor", f"{sums} sums on tensor cores"))
    flushing = sum(one.ftz for one in instructions)
    if flushing and not policy.ftz:
        policy = replace(policy, ftz=True)
        found.append(_read("ftz", True, f"{flushing} .ftz instructions"))
    return policy, found


def _cut(policy: Policy, found: list[Finding]) -> Policy:
    """Products that residuals have in tf32 are of cut operands, as nothing rounds them; where residuals have none, any may be one."""
    seen = [f"paths.{name}.{product}" for name, path in policy.paths.items() for product in _PRODUCT_FIELDS
            if getattr(path, product) in ("tf32", "tf32_rna", "tf32x3")]
    why = "tf32 tensor-core products of operands that no instruction rounds"
    for name in seen:
        policy = put(policy, name, "tf32")
        found.append(_read(name, "tf32", why))
    return policy if seen else _raised(policy, "tf32", why, found)


def _raised(policy: Policy, least: str, why: str, found: list[Finding]) -> Policy:
    """Every product that is stricter than `least` made so."""
    for name, path in policy.paths.items():
        for product in _PRODUCT_FIELDS:
            if PRODUCTS.index(getattr(path, product)) < PRODUCTS.index(least):
                policy = put(policy, f"paths.{name}.{product}", least)
                found.append(_read(f"paths.{name}.{product}", least, why))
    return policy


def _read(field: str, value: object, note: str) -> Finding:
    return Finding(field=field, value=value, status="read", note=note)
