"""The precision card: what a kernel claims and what it showed, in one small JSON document made from the report document alone."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

__all__ = ["CARD_VERSION", "card", "card_schema"]

CARD_VERSION = 1


def card_schema() -> dict[str, Any]:
    """The published JSON schema of the card."""
    loaded: dict[str, Any] = json.loads((resources.files(__package__) / "card.schema.json").read_text())
    return loaded


def card(report: dict[str, Any]) -> dict[str, Any]:
    """The card of one report. Numbers are written as in the report: infinities and NaN are strings."""
    claims, verdict, run, coverage = report["kernel"]["claims"], report["verdict"], report["run"], report["coverage"]
    environment = report["environment"]
    return {
        "schema": CARD_VERSION,
        "kernel": {"name": claims["name"] if claims else report["kernel"]["path"], "path": report["kernel"]["path"]},
        "verdict": {name: verdict[name] for name in ("status", "subject", "suspicious")},
        "run": {**{name: run[name] for name in ("what", "cases", "measurements", "interrupted")},
                "device": environment.get("device", ""), "replaycheck": environment.get("replaycheck", "")},
        "worst": report["worst"] and {name: report["worst"]["measurement"][name] for name in ("guarantee", "regime", "ratio")},
        "bits": [{name: row[name] for name in ("quantity", "claimed", "implied", "regime")} for row in report["bits"]],
        "guarantees": [_guarantee(entry, report["table"]) for entry in report["guarantees"]],
        "coverage": None if coverage is None else {"owed": coverage["owed"], "seen": coverage["owed"] - coverage["missing"]},
        "not_covered": report["not_covered"],
    }


def _guarantee(entry: dict[str, Any], table: list[dict[str, Any]]) -> dict[str, Any]:
    """budgeted: whether the guarantee allows any error at all; its worst ratio is 0 or infinite where it does not."""
    budgets = [float(row["worst"]["budget"]) for row in table if row["guarantee"] == entry["guarantee"]]
    return {"guarantee": entry["guarantee"], "measurements": entry["count"], "failed": entry["failed"],
            "budgeted": max(budgets, default=0.0) > 0, "worst_ratio": entry["worst_ratio"], "worst_regime": entry["worst_regime"]}
