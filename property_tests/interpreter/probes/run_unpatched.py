"""Two probes in the interpreter as triton ships it, which casts wrongly: run_unpatched.py ANSWER.json"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import promotion_probe
from cast_probe import downcasts
from patterns import FORMATS

if __name__ == "__main__":
    found = {"down": {name: downcasts(FORMATS[name]) for name in ("bf16", "e4m3", "e5m2")}, "promotion": promotion_probe.probe()}
    Path(sys.argv[1]).write_text(json.dumps(found))
