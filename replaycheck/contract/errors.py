"""Errors a user can cause. Each message is one line that names the thing and the value."""

from __future__ import annotations

__all__ = ["KernelError", "KernelHang", "ReplaycheckError", "UsageError"]


class ReplaycheckError(Exception):
    """Something a user can put right. exit_code: what the command line returns for it. traceback: the full trace, shown only when asked."""

    exit_code: int = 4
    traceback: str = ""


class UsageError(ReplaycheckError):
    """A kernel path, case, trace or option that cannot be read or written: exit 2."""

    exit_code = 2


class KernelError(ReplaycheckError):
    """The kernel raised, crashed, hung, ran out of memory, or returned a wrong shape, dtype or device: exit 4.

    output: what the kernel printed, where it ran in a worker.
    """

    exit_code = 4
    output: str = ""


class KernelHang(KernelError):
    """The kernel gave no answer within its time limit."""
