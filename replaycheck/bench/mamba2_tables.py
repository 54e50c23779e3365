"""The results of a Mamba-2 bench as a page of Markdown."""

from __future__ import annotations

from typing import Any

__all__ = ["markdown"]


def markdown(report: dict[str, Any]) -> str:
    """Tables of times, residuals and environment. report: what the bench wrote as JSON."""
    environment = report["environment"]
    lines = [
        f"# Mamba-2 decode kernels on {environment['device']}", "",
        f"Capacity {report['capacity']}, bf16 activations and outputs. Microseconds a step: medians of graph replays over rotating inputs"
        " (fastest to slowest in brackets). In step: average over a whole period with all rows at one cursor; staggered: rows at all"
        f" cursors. Floor: fewest bytes over the measured {report['bandwidth_GBps']:.0f} GB/s. Advancing the cursors, once a forward"
        f" for all layers, takes another {report['advance']['median']:.1f} us.", "",
    ]  # fmt: skip
    for shape in dict.fromkeys(t["shape"] for t in report["times"]):
        lines += [f"## {shape}", "", *_times([t for t in report["times"] if t["shape"] == shape]), ""]
    lines += ["## Distance from the recurrence in float64", "", *_residuals(report["residuals"]), ""]
    invariant = ", ".join(f"{name}: {'yes' if same else 'NO'}" for name, same in report["batch_invariant"].items())
    lines += [f"Same bits for a request in batches of 1 to 256, in any order: {invariant}.", ""]
    lines += ["## Environment", "", *(f"* {name}: {value}" for name, value in environment.items()), ""]
    return "\n".join(lines)


def _cell(timing: dict[str, float] | None) -> str:
    return "" if timing is None else f"{timing['median']:.1f} ({timing['low']:.1f}–{timing['high']:.1f})"


def _times(times: list[dict[str, Any]]) -> list[str]:
    lines = ["| state | batch | kernel | in step | staggered | floor | in step / floor |", "|---|---|---|---|---|---|---|"]
    for t in times:
        ratio = t["in_step"]["median"] / t["floor"]
        cells = (t["state"], t["rows"], t["kernel"], _cell(t["in_step"]), _cell(t.get("staggered")), f"{t['floor']:.1f}", f"{ratio:.2f}")
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def _residuals(residuals: list[dict[str, Any]]) -> list[str]:
    lines = [
        "Relative error norms, worst head of two rows. Restarted: float64 restarted from the kernel's own stored state at every"
        " publication; with a 16-bit state it holds the rounding of the store. Trajectory: against the exact one, at the end. Unlike"
        " nearest: share of stored numbers that are not the exact state correctly rounded.", "",
        "| state | decays | kernel | state, restarted | state, trajectory | output, restarted | unlike nearest |",
        "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for r in residuals:
        errors = (r["state_local"], r["state_global"], r["output"], r["unlike_nearest"])
        lines.append(f"| {r['state']} | {r['regime']} | {r['kernel']} | " + " | ".join(f"{error:.1e}" for error in errors) + " |")
    return lines
