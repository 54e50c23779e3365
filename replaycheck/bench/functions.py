"""Measure a backend's function table: every fp32 argument of every binade that matters, against float64.

    python -m replaycheck.bench.functions --backend numpy --out reference/replaycheck_reference/gauge/tables/numpy.json
    python -m replaycheck.bench.functions --backend cuda --out reference/replaycheck_reference/gauge/tables/h200.json

"numpy" is what Triton's interpreter computes with on this CPU; "cuda" is what Triton compiles `tl.exp`, `tl.exp2`, `tl.log` and
`tl.sigmoid` to. float64 exp and log are within one unit of 2^-53, 2^-29 of what is measured.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from replaycheck_reference.gauge.functions import FP32_UNIT, HIGHEST, LOWEST

__all__ = ["SCALES", "main", "measure", "numpy_function", "true_function"]

#: Below this binade one argument in 64 is taken: results there differ from those of their neighbours by less than a rounding.
_EVERY = -26
_MANTISSAS = 1 << 23
_NORMAL = 2.0**-126


def true_function(function: str, x: Tensor) -> Tensor:
    """The function's value in float64."""
    x = x.to(torch.float64)
    if function in ("exp", "exp2"):
        return torch.exp(x)
    if function == "softplus_naive":
        return torch.clamp(x, min=0) + torch.log1p(torch.exp(-x.abs()))
    return x * torch.sigmoid(x)


#: Function -> how its error is scaled. exp2 is e^x by way of exp2(x * log2 e); softplus_naive is log(1 + e^x).
SCALES = {"exp": "relative", "exp2": "relative", "softplus_naive": "one_plus", "silu": "relative"}
_LIMITS = {"exp": 88.0, "exp2": 88.0, "softplus_naive": 88.0, "silu": 87.0}


def measure(evaluate: Callable[[str, Tensor], Tensor], device: str) -> dict[str, list[list[float]]]:
    """The errors of every function of SCALES, as FunctionTable.errors wants them."""
    errors = {f: [[0.0] * (HIGHEST - LOWEST + 1) for _ in range(2)] for f in SCALES}
    for binade in range(LOWEST, HIGHEST + 1):
        stride = 1 if binade >= _EVERY else 64
        bits = torch.arange(0, _MANTISSAS, stride, dtype=torch.int32, device=device) + ((binade + 127) << 23)
        size = bits.view(torch.float32)
        for sign in (0, 1):
            x = size if sign else -size
            for function in SCALES:
                errors[function][sign][binade - LOWEST] = _worst(function, x, evaluate)
    return errors


def _worst(function: str, x: Tensor, evaluate: Callable[[str, Tensor], Tensor]) -> float:
    x = x[x.abs() <= _LIMITS[function]]
    true = true_function(function, x)
    seen = evaluate(function, x).to(torch.float64)
    scale = true.abs() if SCALES[function] == "relative" else 1 + true
    kept = true.abs() >= _NORMAL
    error = ((seen - true).abs() / scale)[kept] / FP32_UNIT
    return float(error.max()) if error.numel() else 0.0


def numpy_function(function: str, x: Tensor) -> Tensor:
    """The function of fp32 arguments as the interpreter computes it."""
    value = x.numpy()
    with np.errstate(all="ignore"):
        if function == "exp":
            result = np.exp(value)
        elif function == "exp2":
            result = np.exp2(value * np.float32(1.4426950408889634))
        elif function == "softplus_naive":
            result = np.log(np.float32(1) + np.exp(value))
        else:
            result = value * (np.float32(1) / (np.float32(1) + np.exp(-value)))
    return torch.from_numpy(result)


def _cuda() -> Callable[[str, Tensor], Tensor]:
    from .function_kernels import evaluate

    return evaluate


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--backend", choices=("numpy", "cuda"), required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    source: dict[str, Any] = {
        "command": f"python -m replaycheck.bench.functions --backend {options.backend}",
        "arguments": f"every fp32 of 2^{_EVERY}..2^{HIGHEST} (one in 64 from 2^{LOWEST}), both signs, "
        "where the result is normal and finite",
        "python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__,
    }
    if options.backend == "cuda":
        import triton

        source |= {"triton": triton.__version__, "device": torch.cuda.get_device_name(), "driver": _driver()}
        errors = measure(_cuda(), "cuda")
    else:
        errors = measure(numpy_function, "cpu")
    rounded = {f: [[float(f"{v:.4g}") for v in row] for row in rows] for f, rows in errors.items()}
    table = {"backend": options.out.stem, "source": source, "scales": SCALES, "errors": rounded}
    options.out.write_text(json.dumps(table, indent=1) + "\n")
    for function, rows in errors.items():
        print(f"{function}: largest error {max(map(max, rows)):.2f} units of 2^-24 ({SCALES[function]})")
    return 0


def _driver() -> str:
    import subprocess

    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
