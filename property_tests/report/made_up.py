"""A made-up run, so that reports can be tested without a kernel."""

from __future__ import annotations

import math

from replaycheck.cases.case import Case
from replaycheck.cases.schedule import plain
from replaycheck.contract.claims import Claims
from replaycheck.verdict.coverage import Cell, Coverage, owed_cells
from replaycheck.verdict.measurement import Measurement
from replaycheck.verdict.results import Failure, ImpliedBits, Run
from replaycheck.verdict.tally import Tally
from replaycheck.verdict.verdict import decide
from replaycheck_reference.policy import Path, Policy

REGIMES = ("trained-like", "slow", "fast", "decay-one", "positive")


def claims() -> Claims:
    paths = {"output": Path(output="scores", weights="difference"), "flush": Path(weights="difference")}
    return Claims(name="made-up", kind="replay", capacities=(1, 8), policy=Policy(paths=paths), guarantees=("batch_invariant",))


def case(regime: str = "trained-like") -> Case:
    return Case(name="made up", heads=2, head_dim=16, state_dim=16, capacity=4, slots=1, regime=regime, schedule=plain(1, 8))


def measurement(guarantee: str, value: float, budget: float, regime: str, **more: object) -> Measurement:
    place: dict[str, int | str] = {"request": 0, "slot": 0, "layer": 0, "step": 5, "token": 4, "path": "output", "head": 1, "row": 3}
    return Measurement(guarantee=guarantee, value=value, budget=budget, regime=regime, case=case(regime).id, place=place, got=1.25,
                       exact=1.0, derivation="running error analysis of the claimed policy", **more)  # type: ignore[arg-type]


def run(*, broken: bool = False, thin: bool = False, kernel: str = "somewhere/kernel.py:replay") -> Run:
    """A whole run of a replay kernel. broken: one output is 8e7 times its budget and one bitwise check fails. thin: cells are missing."""
    tally = Tally()
    for i, regime in enumerate(REGIMES):
        tally.add([measurement("outputs", (0.1 + 0.05 * i) * 1e-6, 1e-6, regime), measurement("state", 0.3e-7 / (i + 1), 1e-7, regime),
                   measurement("gates", 0.02 * i * 1e-8, 1e-8, regime), measurement("continuity", 0.0, 0.0, regime)])
    failures = []
    if broken:
        bad = measurement("outputs", 80.0, 1e-6, "slow", diagnosis="acts as if the token of age 3 had weight 0")
        worse = measurement("isolation", math.inf, 0.0, "trained-like", diagnosis="12 elements differ")
        tally.add([bad, worse])
        failures = [Failure(measurement=bad, case=case("slow"), original="0123456789ab", more=7), Failure(measurement=worse, case=case())]
    owed = owed_cells(claims())
    seen = frozenset(cell for cell in owed if not (thin and cell.capacity == 3 and cell.age == 2))
    coverage = Coverage(owed=owed, seen=seen | {Cell(capacity=8, position=p, age=a, path="output") for p in range(7) for a in range(p + 1)})
    names = [f.measurement.guarantee + ": " + f.measurement.diagnosis for f in failures]
    return Run(
        kernel=kernel, claims=claims(), what="suite quick", tally=tally, failures=tuple(failures), coverage=coverage, cases=18,
        verdict=decide(subject="replay kernel", errors=(), failures=names, gaps=coverage.gaps, warnings=()),
        bits=(ImpliedBits(quantity="outputs, bf16", claimed=8, implied=8.1, regime="trained-like", case="0123456789ab"),
              ImpliedBits(quantity="gates: decay", claimed=24, implied=21.7, regime="trained-like", case="0123456789ab")),
        not_covered=("capacities: 5..7 of 1..8",), confirmation="outputs: 1.0000000000000000000000001 confirmed to 50 digits by arb",
        worst_case=case(), seconds=21.4, environment={"python": "3.12", "command": f"replaycheck validate {kernel}", "seed": "0"},
    )
