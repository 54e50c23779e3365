"""From what a user names a kernel by, to the kernel. Runs in the process that will play it."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import traceback
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from .claims import Claims
from .errors import ReplaycheckError, UsageError
from .session import Kernel

__all__ = ["GROUP", "OWN", "known_kernels", "resolve"]

#: Entry point group in which packages name their kernels.
GROUP = "replaycheck.kernels"
#: The kernels that ship with replaycheck, or with an adapter here, so that a source tree that was never installed knows them too.
OWN = {
    "mamba2-step": "replaycheck.adapters.mamba2:step",
    "mamba2-replay": "replaycheck.adapters.mamba2:replay",
    "mamba2-verify": "replaycheck.adapters.mamba2_verify:verify",
    "mamba2-saving": "replaycheck.adapters.mamba2_verify:saving",
    "gdn-step": "replaycheck.adapters.delta:gdn_step",
    "gdn-replay": "replaycheck.adapters.delta:gdn_replay",
    "gdn-replay-bf16": "replaycheck.adapters.delta:gdn_replay_bf16",
    "kda-step": "replaycheck.adapters.delta:kda_step",
    "kda-replay": "replaycheck.adapters.delta:kda_replay",
    "kda-replay-bf16": "replaycheck.adapters.delta:kda_replay_bf16",
    "sglang-selective-state-update": "replaycheck.adapters.foreign.selective_state_update:kernel",
}


def known_kernels() -> dict[str, str]:
    """Names that resolve without a path, and the "module:object" each stands for."""
    return {**OWN, **{entry.name: entry.value for entry in entry_points(group=GROUP)}}


def resolve(path: str) -> Kernel:
    """The kernel named "path/to/file.py:object", "module:object" or by an entry point of group `replaycheck.kernels`.

    Raises UsageError in one line that names the path and what is wrong with it; its traceback is that of a module that failed to import.
    """
    if ":" not in path:
        known = known_kernels()
        if path not in known:
            raise UsageError(f"kernel {path!r} is neither path/to/file.py:object, module:object nor one of {', '.join(sorted(known))}")
        return _checked(path, _object(path, known[path]))
    return _checked(path, _object(path, path))


def _object(path: str, target: str) -> object:
    where, _, name = target.rpartition(":")
    if not where or not name:
        raise UsageError(f"kernel {path!r} must be path/to/file.py:object or module:object")
    module = _file_module(path, Path(where)) if where.endswith(".py") else _named_module(path, where)
    found: object = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise UsageError(f"kernel {path!r}: {where} has no object {name!r}; {_offered(module)}")
        found = getattr(found, part)
    return found


def _offered(module: ModuleType) -> str:
    kernels = sorted(name for name, value in vars(module).items() if not name.startswith("_") and _is_kernel(value))
    return f"its kernels are {', '.join(kernels)}" if kernels else "it holds no kernel"


def _file_module(path: str, file: Path) -> ModuleType:
    """The module in a file, its folder importable. One file is imported once."""
    if not os.path.isfile(file):    # Path.is_file raises for a name that no file can have
        raise UsageError(f"kernel {path!r}: there is no file {file}")
    file = file.resolve()
    name = f"{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise UsageError(f"kernel {path!r}: {file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _import_error(path, str(file), error) from error
    return module


def _named_module(path: str, name: str) -> ModuleType:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageError(f"kernel {path!r}: there is no module {name}") from None
        raise _import_error(path, name, error) from error


def _import_error(path: str, where: str, error: BaseException) -> ReplaycheckError:
    if isinstance(error, ReplaycheckError):
        return error
    line = str(error).strip().splitlines()[0] if str(error).strip() else "no message"
    made = UsageError(f"kernel {path!r}: importing {where} raised {type(error).__name__}: {line}")
    made.traceback = "".join(traceback.format_exception(error))
    return made


def _is_kernel(value: object) -> bool:
    return isinstance(getattr(value, "claims", None), Claims) and callable(getattr(value, "open", None))


def _checked(path: str, found: object) -> Kernel:
    if _is_kernel(found):
        return found  # type: ignore[return-value]
    lacks = "open" if isinstance(getattr(found, "claims", None), Claims) else "claims of type Claims"
    raise UsageError(f"kernel {path!r} is a {type(found).__name__} without {lacks}: a kernel has claims and open(...)")
