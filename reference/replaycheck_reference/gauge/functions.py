"""Errors of a backend's elementary functions, measured over fp32 and shipped as data.

A table holds, for each function and for each sign and binade of its argument, the largest error seen, in units of 2^-24:
relative to the true value ("relative"), or to 1 + the true value ("one_plus"). `replaycheck.bench.functions` measures a table.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import torch
from torch import Tensor

__all__ = ["FP32_UNIT", "FunctionTable", "available_tables", "envelope", "load_table"]

FP32_UNIT = 2.0**-24
#: Binades of the argument that a table has a column for: 2^LOWEST and everything below it, up to 2^HIGHEST.
LOWEST, HIGHEST = -40, 7
#: Tables are written to four digits.
_ROUNDED_UP = 1 + 2.0**-10
_HERE = "replaycheck_reference.gauge.tables"


@dataclass(frozen=True, kw_only=True)
class FunctionTable:
    """Error bounds of one backend.

    backend: its name. source: what was measured and how, for reports. errors: function -> [2 signs (negative, positive), binades] float64,
    in units of 2^-24.
    """

    backend: str
    source: dict[str, Any]
    errors: dict[str, Tensor]

    def error(self, function: str, argument: Tensor) -> Tensor:
        """Largest error of `function` at arguments of the size of `argument`, as a plain fraction (not in units).

        Never smaller than at any argument of the same sign nearer zero, so that an argument known only nearly is covered.
        Raises KeyError naming the function where the table lacks it.
        """
        if function not in self.errors:
            raise KeyError(f"function table {self.backend} has no row {function!r}; it has {', '.join(sorted(self.errors))}")
        rows = torch.cummax(self.errors[function], -1).values.to(argument.device)
        size = argument.abs() * (1 + 2.0**-12)
        binade = torch.frexp(size).exponent - 1
        column = torch.clamp(torch.where(size == 0, LOWEST, binade), LOWEST, HIGHEST) - LOWEST
        return _ROUNDED_UP * FP32_UNIT * rows[(argument > 0).long(), column.long()]


@cache
def load_table(name: str) -> FunctionTable:
    """The shipped table `name`. Raises ValueError naming the known ones."""
    if name not in available_tables():
        raise ValueError(f"no function table {name!r}; shipped are {', '.join(available_tables())}")
    data = json.loads(resources.files(_HERE).joinpath(f"{name}.json").read_text())
    errors = {f: torch.tensor(rows, dtype=torch.float64) for f, rows in data["errors"].items()}
    return FunctionTable(backend=data["backend"], source=data["source"], errors=errors)


@cache
def available_tables() -> tuple[str, ...]:
    """Names of the shipped tables."""
    return tuple(sorted(p.name.removesuffix(".json") for p in resources.files(_HERE).iterdir() if p.name.endswith(".json")))


@cache
def envelope() -> FunctionTable:
    """The largest error of every shipped table: for traces whose backend nobody named."""
    tables = [load_table(name) for name in available_tables()]
    common = set.intersection(*(set(t.errors) for t in tables))
    errors = {f: torch.stack([t.errors[f] for t in tables]).amax(0) for f in sorted(common)}
    return FunctionTable(backend="envelope", source={"tables": list(available_tables())}, errors=errors)
