"""The same cases on the interpreter and on a device: verdicts side by side, case by case, and how far the results lie apart.

    python -m replaycheck.bench.backends mamba2-step mamba2-replay --suite merge --out reports/backends-h200

Each backend is judged with its own function table. Results differ in bits where a function, a fused multiply-add or the order of a sum
differs; both lie within their budgets of the exact values where both verdicts are pass.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from time import monotonic
from typing import Any

import torch

from replaycheck.cases.files import write_whole
from replaycheck.play.result import Play
from replaycheck.play.worker import Worker
from replaycheck.report.document import plain
from replaycheck.verdict.environment import environment
from replaycheck.verdict.measure import measure
from replaycheck.verdict.measurement import Measurement
from replaycheck.verdict.plan import Job, Plan
from replaycheck.verdict.suites import SUITES
from replaycheck.verdict.tables import table_of

__all__ = ["compared", "main", "markdown"]

_SHOWN = ("outputs", "state", "gates")


def compared(job: Job, here: Worker, there: Worker) -> dict[str, Any]:
    """One job measured on both workers. Raises nothing that a kernel does: its error is a measurement."""
    sides = {}
    for name, worker in (("interpreter", here), ("device", there)):
        done = measure(worker, job, table_of(worker.device))
        failed = sorted({m.guarantee for m in done.measurements if not m.passed})
        sides[name] = (done, {"failed": failed, "ratios": {g: _ratio(done.measurements, g) for g in _SHOWN}})
    apart = None
    if all(done.plays for done, _ in sides.values()):
        apart = _apart(sides["interpreter"][0].plays[0], sides["device"][0].plays[0])
    case = job.case
    build = f"{case.formats.state} state, {case.formats.activation} activations, {case.formats.output} outputs"
    return {
        "case": case.id, "name": case.name, "regime": case.regime, "build": build, "capacity": case.capacity, "checks": list(job.checks),
        "same verdict": sides["interpreter"][1]["failed"] == sides["device"][1]["failed"],
        "outputs that differ in bits": apart, **{name: plain(side) for name, (_, side) in sides.items()},
    }


def _ratio(measurements: list[Measurement], guarantee: str) -> float | None:
    return max((m.ratio for m in measurements if m.guarantee == guarantee), default=None)


def _apart(here: Play, there: Play) -> float:
    """Share of outputs whose values differ."""
    differing = total = 0
    for key, outputs in here.outputs.items():
        differing += int((outputs.float() != there.outputs[key].float()).sum())
        total += outputs.numel()
    return differing / total if total else 0.0


def _jobs(plan: Plan, share: int, shares: int, seconds: float) -> Iterator[tuple[int, Job]]:
    """Every job whose number leaves `share`, with its number, until the time is over."""
    until = monotonic() + seconds
    for number, job in islice(enumerate(plan.jobs()), share, None, shares):
        if monotonic() > until:
            return
        yield number, job


def _share(kernel: str, suite: str, device: str, share: int, shares: int, seconds: float) -> list[tuple[int, dict[str, Any]]]:
    """One process's part of the jobs of a kernel, with a worker of its own on either backend."""
    torch.set_num_threads(1)
    with ExitStack() as stack:
        here, there = (stack.enter_context(Worker(kernel, device=name)) for name in ("cpu", device))
        plan = Plan(suite=SUITES[suite], claims=here.claims)
        return [(number, compared(job, here, there)) for number, job in _jobs(plan, share, shares, seconds)]


def _cases(kernel: str, suite: str, device: str, processes: int, seconds: float) -> list[dict[str, Any]]:
    """The cases of a kernel in the order of its plan."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        parts = [pool.submit(_share, kernel, suite, device, share, processes, seconds) for share in range(processes)]
        found = [numbered for part in parts for numbered in part.result()]
    return [case for _, case in sorted(found, key=lambda numbered: numbered[0])]


def markdown(report: dict[str, Any]) -> str:
    """A table a kernel, one line a case."""
    lines = [f"# Interpreter and {report['environment']['device']}, case by case", ""]
    for kernel, cases in report["kernels"].items():
        same = sum(case["same verdict"] for case in cases)
        lines += [f"## {kernel}", "", f"{len(cases)} cases, the same verdict in {same}. Ratios to budget: interpreter / device.", "",
                  "| case | regime | build | capacity | outputs | state | gates | outputs that differ in bits | failed |", "|" + "---|" * 9]
        for case in cases:
            ratios = [f"{_short(case['interpreter']['ratios'][g])} / {_short(case['device']['ratios'][g])}" for g in _SHOWN]
            failed = " / ".join(", ".join(case[side]["failed"]) or "none" for side in ("interpreter", "device"))
            bits = case["outputs that differ in bits"]
            cells = (case["case"], case["regime"], case["build"], case["capacity"], *ratios, "" if bits is None else f"{bits:.1%}", failed)
            lines.append("| " + " | ".join(map(str, cells)) + " |")
        lines.append("")
    return "\n".join([*lines, "## Environment", "", *(f"* {name}: {value}" for name, value in report["environment"].items()), ""])


def _short(ratio: float | str | None) -> str:
    return "-" if ratio is None else ratio if isinstance(ratio, str) else f"{ratio:.2g}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("kernels", nargs="+", help="kernel paths")
    parser.add_argument("--suite", choices=sorted(name for name, suite in SUITES.items() if not suite.endless), default="quick")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=300.0, help="no new case of a kernel is started after that many")
    parser.add_argument("--processes", type=int, default=1, help="that share the cases, each with a worker on either backend")
    parser.add_argument("--out", type=Path, required=True, help="path without suffix; .json and .md are written")
    options = parser.parse_args(arguments)
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        parser.error(f"--device {options.device}: torch sees no CUDA device")
    if options.processes < 1:
        parser.error(f"--processes must be at least 1, got {options.processes}")
    kernels: dict[str, list[dict[str, Any]]] = {}
    for kernel in options.kernels:
        kernels[kernel] = _cases(kernel, options.suite, options.device, options.processes, options.seconds)
        print(f"{kernel}: {len(kernels[kernel])} cases, the same verdict in {sum(case['same verdict'] for case in kernels[kernel])}")
    made = environment(kernel=options.kernels[0], device=options.device, seed=0, table=table_of(options.device).backend)
    made["command"] = " ".join(["python -m replaycheck.bench.backends", *(arguments if arguments is not None else sys.argv[1:])])
    report = {"environment": made, "kernels": kernels}
    for suffix, text in ((".json", json.dumps(report, indent=1) + "\n"), (".md", markdown(report))):
        write_whole(options.out.with_suffix(suffix), text.encode(), what="comparison")
    return 0 if all(case["same verdict"] for cases in kernels.values() for case in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
