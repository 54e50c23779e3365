"""The cast probe in the interpreter as triton ships it, which is wrong: run_unpatched.py ANSWER.json"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from cast_probe import downcasts
from patterns import FORMATS

if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps({name: downcasts(FORMATS[name]) for name in ("bf16", "e4m3", "e5m2")}))
