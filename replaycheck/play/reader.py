"""Reads what a kernel produced, outputs and stored states, and notes whatever is not as it must be."""

from __future__ import annotations

import operator
from collections.abc import Mapping

import torch
from torch import Tensor

from replaycheck.cases.events import PAD
from replaycheck.contract.bits import count_differing, first_differing, same_bits
from replaycheck.contract.errors import KernelError
from replaycheck.contract.session import Session, Stored

from .findings import Findings
from .ledger import Life
from .packed import PackedOutput
from .watch import Watch

__all__ = ["OutputReader", "StateReader", "check_finite"]


def check_finite(findings: Findings, what: str, values: Tensor, **place: int | str) -> None:
    """Note values that are not finite. NaN is never right; infinity may be where fp16 overflows, and is left to the judge there."""
    bad = values.isnan() if values.dtype == torch.float16 else ~values.isfinite()
    findings.compared("finite", values.numel())
    if bool(bad.any()):
        count = int(bad.sum())
        findings.violated("finite", count, f"{count} {what} element(s) are not finite", first=str(bad.nonzero()[0].tolist()), **place)


class OutputReader:
    """Reads the output of a forward. pad_output: what pad rows must hold, as claimed."""

    def __init__(self, findings: Findings, *, pad_output: str) -> None:
        self.findings, self.pad_output = findings, pad_output

    def read(self, rows: list[tuple[int, int]], out: PackedOutput, judged: Mapping[int, int] | None = None,
             **place: int | str) -> dict[int, Tensor]:
        """By slot, the outputs [length, heads, head_dim] on the CPU. judged: by slot, how many of them must be finite, None for all."""
        first, outputs = 0, {}
        for row, (slot, length) in enumerate(rows):
            packed = slice(first, first + length)
            first += length
            if slot == PAD:
                self._check_pad(out, packed, row=row, **place)
            elif length:
                outputs[slot] = out.view[packed].detach().cpu().clone()
                count = length if judged is None else judged[slot]
                self._check_live(out, slice(packed.start, packed.start + count), outputs[slot][:count], slot=slot, **place)
        self._check_around(out, **place)
        return outputs

    def _check_pad(self, out: PackedOutput, packed: slice, **place: int | str) -> None:
        zero = self.pad_output == "zero"
        wrong = out.view[packed] != 0 if zero else ~out.untouched(packed)
        self.findings.compared("pads", wrong.numel())
        if bool(wrong.any()):
            count, claim = int(wrong.sum()), "zero" if zero else "untouched"
            self.findings.violated("pads", count, f"{count} output element(s) of a pad row are not {claim}, as claimed", **place)

    def _check_live(self, out: PackedOutput, packed: slice, outputs: Tensor, **place: int | str) -> None:
        unwritten = int(out.untouched(packed).sum())
        if unwritten:
            self.findings.compared("finite", outputs.numel())
            self.findings.violated("finite", unwritten, f"{unwritten} output element(s) were never written", **place)
        else:
            check_finite(self.findings, "output", outputs, **place)

    def _check_around(self, out: PackedOutput, **place: int | str) -> None:
        self.findings.compared("write-set", out.elements_around())
        around = out.written_around()
        if around:
            said = f"run wrote {around} element(s) beside the output it was given"
            self.findings.violated("write-set", around, said, buffer="out", operation="run", **place)


class StateReader:
    """Reads published states and compares them with the bits the checker carries.

    shape, dtype, device: what `stored` must return.
    """

    def __init__(self, session: Session, watch: Watch, *, shape: tuple[int, int, int], dtype: torch.dtype, device: torch.device) -> None:
        self.session, self.watch, self.findings = session, watch, watch.findings
        self.shape, self.dtype, self.device = shape, dtype, device

    def stored(self, slot: int, layer: int, step: int) -> Stored:
        """What the slot has published. Raises KernelError naming a wrong type, shape, dtype or device."""
        stored = self.watch.translated("stored", step, lambda: self.session.stored(slot, layer))
        named, where = f"stored(slot {slot}, layer {layer})", f"(schedule step {step})"
        bits = getattr(stored, "bits", None)
        if not isinstance(bits, Tensor):
            raise KernelError(f"{named} must return Stored with a tensor of bits, got {type(stored).__name__} {where}")
        for name, wanted, got in (("shape", self.shape, tuple(bits.shape)), ("dtype", self.dtype, bits.dtype),
                                  ("device", self.device.type, bits.device.type)):
            if wanted != got:
                raise KernelError(f"{named}.bits has {name} {got}, expected {wanted} {where}")
        try:
            return Stored(bits=bits.detach(), folded=operator.index(stored.folded))
        except TypeError:
            raise KernelError(f"{named}.folded must be an integer, got {stored.folded!r} {where}") from None

    def compare(self, life: Life, layer: int, stored: Stored, when: str, step: int) -> None:
        """Hold what is stored to the bits and the count that the life's track carries. One difference is noted per publication."""
        track = life.tracks[layer]
        self.findings.compared("continuity", track.bits.numel())
        if track.suspended:
            return
        place: dict[str, int | str] = {"request": life.request, "slot": life.slot, "step": step, "layer": layer, "when": when}
        if life.base + stored.folded != track.position:
            track.suspended = True
            said = f"slot {life.slot} says that {stored.folded} token(s) are folded ({when})"
            self.findings.violated("continuity", 1, f"{said}; it had published "
                                   f"{track.position - life.base} of {life.committed - life.base}", **place)
        elif not same_bits(stored.bits, track.bits):
            track.suspended = True
            self._report_bits(stored.bits, track.bits, life.slot, when, place)

    def _report_bits(self, got: Tensor, carried: Tensor, slot: int, when: str, place: dict[str, int | str]) -> None:
        count, first = count_differing(got, carried), first_differing(got, carried)
        source = "given" if when == "admit" else "last published"
        said = f"{count} element(s) of the state in slot {slot} are not the bits {source} ({when})"
        element = f"first [{', '.join(map(str, first))}]: {float(got[first]):.9g} instead of {float(carried[first]):.9g}"
        self.findings.violated("continuity", count, f"{said}; {element}", head=first[0], row=first[1], column=first[2], **place)
