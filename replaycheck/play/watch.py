"""Every call into a kernel goes through here: its errors get one line, and what it wrote is compared with what it may write."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from torch import Tensor

from replaycheck.contract.bits import as_bits, count_differing
from replaycheck.contract.errors import KernelError, ReplaycheckError
from replaycheck.contract.memory import Change, Memory

from .findings import Findings

__all__ = ["OutOfBoundsStop", "Watch", "one_line"]

T = TypeVar("T")


class OutOfBoundsStop(Exception):
    """A kernel accessed memory outside its tensors; the play cannot go on."""


@dataclass
class _Input:
    name: str
    tensor: Tensor
    before: Tensor


class Watch:
    """Calls kernel operations and holds each to its write-set.

    slots: of the pool; entries beyond them are sinks. inputs: tensors that no operation may change.
    """

    def __init__(self, memory: Memory, findings: Findings, *, slots: int) -> None:
        self.memory, self.findings, self.slots = memory, findings, slots
        self.snapshot = memory.snapshot()
        self._inputs: list[_Input] = []

    def protect(self, name: str, tensor: Tensor) -> None:
        """From now on no operation may change this tensor."""
        self._inputs.append(_Input(name, tensor, tensor.clone()))

    def refresh(self) -> None:
        """Whatever the checker itself wrote is accepted."""
        self.memory.changed(self.snapshot)

    def call(self, operation: str, step: int, may_write: Iterable[int], call: Callable[[], T], *, reads_only: bool = False) -> T:
        """The result of one operation, which may write the slots of `may_write` (reads_only: nothing, not even shared cursors).

        Raises KernelError in one line where the kernel raised, OutOfBoundsStop where it left its tensors.
        """
        result = self.translated(operation, step, call)
        self.hold(operation, step, may_write, reads_only=reads_only)
        return result

    def translated(self, operation: str, step: int, call: Callable[[], T]) -> T:
        """The result of `call`, its errors translated; nothing is compared."""
        try:
            return call()
        except (Exception, SystemExit) as error:
            access = _out_of_bounds(error)
            if access is not None:
                self._report_access(access, operation, step)
                raise OutOfBoundsStop(str(access)) from error
            raise _kernel_error(error, operation, step) from error

    def hold(self, operation: str, step: int, may_write: Iterable[int], *, reads_only: bool = False) -> None:
        """Compare what was written since the last comparison with what `operation` may write."""
        allowed = set(may_write)
        self.findings.compared("write-set", self.memory.elements())
        for change in self.memory.changed(self.snapshot):
            if self._breaks(change, allowed, reads_only):
                self._report_change(change, operation, step)
        for given in self._inputs:
            self.findings.compared("write-set", given.tensor.numel())
            changed = count_differing(given.tensor, given.before)
            if changed:
                self.findings.violated("write-set", changed, f"{operation} changed {changed} element(s) of its input {given.name}",
                                       buffer=given.name, step=step, operation=operation)
                as_bits(given.before).copy_(as_bits(given.tensor))

    def _breaks(self, change: Change, allowed: set[int], reads_only: bool) -> bool:
        if change.guard:
            return True
        if change.slot is None:
            return reads_only
        return 0 <= change.slot < self.slots and change.slot not in allowed

    def _report_change(self, change: Change, operation: str, step: int) -> None:
        place: dict[str, int | str] = {"buffer": change.buffer, "step": step, "operation": operation}
        if change.guard:
            place["offset"] = change.first[0]
            said = f"outside buffer {change.buffer!r}, first at offset {change.first[0]}"
        elif change.slot is None:
            said = f"of {change.role} buffer {change.buffer!r}; it must not write"
        else:
            place.update(slot=change.slot, first=str(list(change.first)))
            said = f"of {change.role} buffer {change.buffer!r} in slot {change.slot}, which it does not name"
        self.findings.violated("write-set", change.elements, f"{operation} wrote {change.elements} element(s) {said}", **place)

    def _report_access(self, access: BaseException, operation: str, step: int) -> None:
        kind = str(getattr(access, "access", "write"))
        elements = int(getattr(access, "count", 1))
        self.findings.compared("write-set" if kind == "write" else "bounds", elements)
        self.findings.violated("write-set" if kind == "write" else "bounds", elements, one_line(access), step=step, operation=operation)


def one_line(error: BaseException) -> str:
    """The first non-empty line of an error's message, or its type where it has none."""
    for line in str(error).splitlines():
        if line.strip():
            return line.strip()
    return type(error).__name__


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what caused it, outermost first."""
    found: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in found:
        found.append(current)
        current = current.__cause__ or current.__context__
    return found


def _out_of_bounds(error: BaseException) -> BaseException | None:
    """The interpreter's OutOfBounds, however deep it lies. Known by name: the interpreter is not imported where it is not used."""
    return next((e for e in _chain(error) if type(e).__name__ == "OutOfBounds"), None)


def _kernel_error(error: BaseException, operation: str, step: int) -> KernelError:
    where = "" if step < 0 else f" (schedule step {step})"
    if isinstance(error, ReplaycheckError):
        made = KernelError(f"{operation}: {one_line(error)}{where}")
    elif isinstance(error, SystemExit):
        made = KernelError(f"{operation} exited with code {error.code}{where}")
    else:
        inner = error
        if type(error).__name__ == "InterpreterError" and error.__cause__ is not None:
            inner = error.__cause__
        made = KernelError(f"{operation} raised {type(inner).__name__}: {one_line(inner)}{where}")
    made.traceback = "".join(traceback.format_exception(error))
    return made
