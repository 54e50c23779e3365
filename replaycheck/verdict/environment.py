"""Where a run happened: all that may explain a difference between two reports."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path

__all__ = ["environment", "versions"]

_DISTRIBUTIONS = ("torch", "triton", "numpy", "mpmath", "python-flint")
#: Switches that change what a kernel computes.
_SWITCHES = ("TRITON_F32_DEFAULT", "TRITON_INTERPRET", "TRITON_DEFAULT_FP_FUSION", "NVIDIA_TF32_OVERRIDE",
             "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE")


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on, by distribution."""
    return {name: _version(name) for name in _DISTRIBUTIONS}


def _device(device: str) -> dict[str, str]:
    if not device.startswith("cuda"):
        return {"device": f"{device}, Triton interpreter", "processor": platform.processor() or platform.machine()}
    import torch

    found = {"device": torch.cuda.get_device_name(device) if torch.cuda.is_available() else f"{device}, absent"}
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        answer = "unknown"
    return {**found, "driver": answer or "unknown", "cuda": str(torch.version.cuda)}


def _kernel_digest(kernel: str) -> dict[str, str]:
    file = Path(kernel.rsplit(":", 1)[0])
    if file.suffix != ".py" or not os.path.isfile(file):
        return {}
    return {"kernel file sha256": hashlib.sha256(file.read_bytes()).hexdigest()[:16]}


def environment(*, kernel: str, device: str, seed: int, table: str) -> dict[str, str]:
    """Names and values, all strings: versions, device, switches, command and seed. table: name of the backend function table in use."""
    from replaycheck import __version__

    found = {"replaycheck": __version__, "python": platform.python_version(), "platform": platform.platform()}
    found |= versions()
    if importlib.util.find_spec("flint") is None:
        found["python-flint"] = "not installed: no proven radii"
    found |= {"device option": device, **_device(device)}
    found |= {"function table": table}
    found |= {name: os.environ[name] for name in _SWITCHES if name in os.environ}
    found |= _kernel_digest(kernel)
    found |= {"command": " ".join(["replaycheck", *map(shlex.quote, sys.argv[1:])]), "seed": str(seed)}
    return found
