"""Public kernels to time beside ours, from a folder with the files of their published wheel.

The folder holds an unpacked vLLM wheel, or of it only what is read: `unzip vllm-*.whl 'vllm/model_executor/layers/mamba/ops/*'
'*.dist-info/METADATA'`. Files are loaded as they are; the framework around them is stood in for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from replaycheck.adapters.foreign.alone import load_alone

from .mamba2_sets import Sets

__all__ = ["Peer", "load_peers", "peers_version"]

_OPS = "vllm.model_executor.layers.mamba.ops"
_NULL = 0


@dataclass(frozen=True, kw_only=True)
class Peer:
    """name; kind "step" or "replay"; call(sets, set index, cursor [slots]) launches one step."""

    name: str
    kind: str
    call: Callable[[Sets, int, Tensor], Tensor]


class _Logger(logging.Logger):
    def info_once(self, *_: Any, **__: Any) -> None:
        """What a framework's logger would say once."""

    warning_once = info_once


def _stubs() -> dict[str, dict[str, Any]]:
    platform = SimpleNamespace(
        is_xpu=lambda: False, is_cpu=lambda: False, is_rocm=lambda: False, is_device_capability_family=lambda _: False
    )
    return {
        "vllm": {"_custom_ops": None},
        "vllm.envs": {"VLLM_TUNED_CONFIG_FOLDER": None},
        "vllm.logger": {"init_logger": _Logger},
        "vllm.platforms": {"current_platform": platform},
        "vllm.triton_utils": {"HAS_TRITON": True, "tl": tl, "triton": triton},
        "vllm.utils.platform_utils": {"get_device_name_as_file_name": lambda: torch.cuda.get_device_name().replace(" ", "_")},
        "vllm.v1.attention.backends.utils": {"NULL_BLOCK_ID": _NULL},
    }


def load_peers(folder: Path | None) -> list[Peer]:
    """The peers found in `folder`; none where it is None. Raises FileNotFoundError naming a missing file."""
    if folder is None:
        return []
    ops = folder.joinpath(*_OPS.split("."))
    stubs = _stubs()
    loaded: dict[str, ModuleType] = {}
    for name in ("triton_helpers", "mamba_ssm", "replayssm_config", "selective_state_update_replayssm_output_only"):
        path = ops / f"{name}.py"
        if not path.is_file():
            raise FileNotFoundError(f"peers folder {folder} holds no {path.relative_to(folder)}")
        loaded[name] = load_alone(path, f"peer_{name}", stubs)
        stubs[f"{_OPS}.{name}"] = vars(loaded[name])
    update = loaded["mamba_ssm"].selective_state_update
    replay = loaded["selective_state_update_replayssm_output_only"].selective_state_update_replayssm_output_only
    overrides = loaded["replayssm_config"]._overrides
    return [
        Peer(name="vllm step", kind="step", call=lambda sets, index, cursor: _step(update, sets, index, cursor)),
        Peer(name="vllm replay", kind="replay", call=_Replay(replay, overrides, None)),
        Peer(name="vllm replay, retuned", kind="replay", call=_Replay(replay, overrides, _retuned)),
    ]


def peers_version(folder: Path | None) -> str:
    """Name and version of the wheel that `folder` holds, as its metadata folder says."""
    if folder is None:
        return "none"
    return ", ".join(sorted(found.name.removesuffix(".dist-info") for found in folder.glob("*.dist-info"))) or "unknown version"


def _retuned(state: torch.dtype) -> tuple[int, int, int, int, int]:
    """The best launch configuration found for H200 at batch 256 (rows, warps, two state tiles, stages)."""
    return (64, 4, 128, 64, 2) if state == torch.float32 else (64, 1, 64, 64, 2)


def _arguments(sets: Sets, index: int, cursor: Tensor) -> dict[str, Any]:
    pool, inputs = sets.at(index, cursor)
    g = sets.geometry
    head = (g.heads, g.head_dim)
    return {
        "state": pool.state, "x": inputs.x, "dt": inputs.dt[:, :, None].expand(-1, *head),
        "A": sets.A[:, None, None].expand(*head, g.state_dim),
        "B": inputs.B, "C": inputs.C, "D": sets.D[:, None].expand(head), "dt_bias": sets.dt_bias[:, None].expand(head),
        "dt_softplus": True, "state_batch_indices": sets.slots, "null_block_id": _NULL, "out": inputs.out,
    }


def _step(update: Callable[..., Tensor], sets: Sets, index: int, cursor: Tensor) -> Tensor:
    arguments = _arguments(sets, index, cursor)
    update(**arguments)
    return sets.inputs[index % len(sets.inputs)].out


class _Replay:
    """The replay kernel with what it keeps by row: write position, flush flag, scratch."""

    def __init__(self, launch: Callable[..., Tensor], overrides: dict[str, Any], config: Callable[[torch.dtype], Any] | None) -> None:
        self._launch, self._overrides, self._config = launch, overrides, config
        self._kept: dict[int, tuple[Tensor, Tensor, Tensor]] = {}
        self._owner: Sets | None = None

    def __call__(self, sets: Sets, index: int, cursor: Tensor) -> Tensor:
        if self._owner is not sets:
            self._owner, self._kept = sets, {}
        key = cursor.data_ptr()
        if key not in self._kept:
            position = cursor[1:].contiguous()
            flush = (position == sets.capacity - 1).to(torch.int8)
            scratch = torch.empty(sets.rows, sets.geometry.groups, sets.capacity, device=sets.device)
            self._kept[key] = (position, flush, scratch)
        position, flush, scratch = self._kept[key]
        pool, inputs = sets.at(index, cursor)
        assert pool.ring is not None
        self._overrides.clear()
        if self._config is not None:
            self._overrides["mamba2_output_only"] = self._config(pool.state.dtype)
        self._launch(
            **_arguments(sets, index, cursor), x_cache=pool.ring.x, dt_cache=pool.ring.dt, B_cache=pool.ring.B, bc_pre=scratch,
            write_pos=position, is_flush=flush, max_cache_len=sets.capacity,
        )
        return inputs.out
