"""Time on the device: captured graphs over rotating inputs, and the bandwidth that floors are computed from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["Timing", "copy_bandwidth", "graph_time", "sets_beyond_cache"]

_cuda: Any = torch.cuda


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Microseconds a call: median, fastest and slowest of the replays of one graph."""

    median: float
    low: float
    high: float


def graph_time(calls: Sequence[Callable[[], object]], *, budget_ms: float = 30.0) -> Timing:
    """Capture `calls` in one graph and time its replays, divided by the number of calls.

    Every call must have run once before (compilation is not captured). At least 7 replays, at most 60, about `budget_ms` in all.
    """
    stream = _cuda.Stream()
    stream.wait_stream(_cuda.current_stream())
    graph = _cuda.CUDAGraph()
    with _cuda.stream(stream):
        with _cuda.graph(graph, stream=stream):
            for call in calls:
                call()
        _replay(graph)
        once = _replay(graph)
        times = sorted(_replay(graph) * 1e3 / len(calls) for _ in range(max(7, min(60, int(budget_ms / max(once, 1e-3))))))
    return Timing(median=times[len(times) // 2], low=times[0], high=times[-1])


def _replay(graph: Any) -> float:
    """Milliseconds of one replay."""
    start, end = _cuda.Event(enable_timing=True), _cuda.Event(enable_timing=True)
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end))


def sets_beyond_cache(bytes_a_set: int, *, multiple: int, times: float = 5.0) -> int:
    """How many input sets together exceed the second-level cache `times` over: a multiple of `multiple` where more than half of that."""
    cache: int = _cuda.get_device_properties(_cuda.current_device()).L2_cache_size
    sets = max(1, math.ceil(times * cache / bytes_a_set))
    return math.ceil(sets / multiple) * multiple if sets > multiple // 2 else sets


def copy_bandwidth() -> float:
    """Bytes a microsecond, read plus written, of an elementwise kernel over 4 GiB (a captured memcpy is slower than a kernel)."""
    source = torch.empty(1 << 30, dtype=torch.float32, device="cuda").normal_()
    target = torch.empty_like(source)
    torch.mul(source, 1.0, out=target)
    moved = 2 * source.numel() * source.element_size()
    return moved / graph_time([lambda: torch.mul(source, 1.0, out=target)] * 3, budget_ms=60).median
