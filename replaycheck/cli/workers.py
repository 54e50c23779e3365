"""The worker processes of a command, opened side by side."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from replaycheck.play.worker import Worker

__all__ = ["opened"]

#: Seconds for one play. Those of the suites take a few on two cores.
_TIME_LIMIT = 60.0


def opened(stack: ExitStack, kernel: str, device: str, *, count: int) -> list[Worker]:
    """`count` workers of one kernel, closed by `stack`. On a CUDA device there is one: its plays are short and memory is not shared.

    Raises UsageError where the kernel path does not resolve and KernelError where the kernel does not open.
    """
    workers = [Worker(kernel, device=device, time_limit=_TIME_LIMIT) for _ in range(count if device == "cpu" else 1)]
    for worker in workers:
        stack.callback(worker.close)
    with ThreadPoolExecutor(len(workers)) as pool:
        try:
            list(pool.map(lambda worker: worker.claims, workers))
        except BaseException:       # the pool waits for its threads, and they for kernels that may take their time to load
            for worker in workers:
                worker.close()
            raise
    return workers
