"""Load one source file without the framework it belongs to."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["load_alone"]


def load_alone(path: Path, name: str, stubs: Mapping[str, Mapping[str, Any]]) -> ModuleType:
    """The module at `path`, imported under `name` while `stubs` (module name -> its attributes) stand in for its framework.

    The stubs are importable only during the load. Raises ImportError where the file needs a module that is neither stubbed nor there.
    """
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python source file")
    module = importlib.util.module_from_spec(spec)
    with _standing_in(stubs):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _standing_in(stubs: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
    names = {".".join(parts[:end]) for parts in (name.split(".") for name in stubs) for end in range(1, len(parts) + 1)}
    before = {name: sys.modules.get(name) for name in names}
    for name in names:
        stand_in = ModuleType(name)
        stand_in.__path__ = []  # a package, so that its submodules can be imported
        vars(stand_in).update(stubs.get(name, {}))
        sys.modules[name] = stand_in
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
