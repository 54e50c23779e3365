"""The compiling process: reads launches, compiles each, writes one JSON line a launch. Run by path; imports nothing of this package.

    python -P child.py REQUEST.json RESPONSE.jsonl

REQUEST: {"path": sys.path, "arch": 90, "launches": [Launch as JSON, ...]}. RESPONSE lines: {"index", "error", "found", "ptx", "seconds"};
found is false where the kernel or its arguments could not be made again here, which says nothing of the kernel.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import sys
import time
from types import ModuleType
from typing import Any

_WARP = 32
#: Bytes of shared memory a block may have, by architecture; more is refused when a kernel is loaded, which needs a device.
_SHARED = {80: 163 << 10, 86: 99 << 10, 89: 99 << 10, 90: 227 << 10, 100: 227 << 10}


class Unavailable(Exception):
    """The kernel or its arguments cannot be made again in this process."""


class TooLarge(Exception):
    """The kernel compiles to more than the device can load."""


def _module(name: str, file: str) -> ModuleType:
    """The module of a kernel: imported by name where that gives the same file, else loaded from the file under that name."""
    if name in sys.modules and name != "__main__":
        return sys.modules[name]
    if not os.path.isfile(file):
        raise Unavailable(f"its source {file} is not a file")
    imported = None if name == "__main__" else _imported(name)
    if imported is not None and os.path.realpath(imported.__file__ or "") == os.path.realpath(file):
        return imported
    folder = os.path.dirname(os.path.abspath(file))
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = "replaycheck_main" if name == "__main__" else name
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise Unavailable(f"{file} is not a Python file")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _imported(name: str) -> ModuleType | None:
    """The module that Python finds under that name; a module may replace itself by another file's while it is imported."""
    try:
        return importlib.import_module(name) if importlib.util.find_spec(name) else None
    except (Exception, SystemExit):
        return None


def _function(module: str, file: str, qualname: str) -> Any:
    """The jitted function, out of whatever decorators it wears."""
    from triton.runtime.jit import JITFunction

    if "<locals>" in qualname:
        raise Unavailable(f"{qualname} is defined inside a function; kernels are compiled from module level")
    try:
        found: Any = _module(module, file)
        for part in qualname.split("."):
            found = getattr(found, part)
    except Unavailable:
        raise
    except (Exception, SystemExit) as error:
        raise Unavailable(f"{qualname} cannot be imported from {file}: {type(error).__name__}: {error}") from error
    while not isinstance(found, JITFunction) and hasattr(found, "fn"):
        found = found.fn
    return found if isinstance(found, JITFunction) else JITFunction(found)


def _value(told: Any) -> Any:
    import triton.language as tl

    if not isinstance(told, dict):
        return told
    (kind, value), = told.items()
    if kind == "dtype":
        return next(t for t in vars(tl).values() if isinstance(t, tl.dtype) and t.name == value)
    if kind == "tuple":
        return tuple(_value(part) for part in value)
    if kind == "function":
        return _function(*value)
    raise Unavailable(f"a constexpr of type {value} cannot be passed to the compiling process")


def _type(told: Any) -> Any:
    return tuple(_type(part) for part in told) if isinstance(told, list) else told


def _path(told: str, order: dict[str, int]) -> tuple[int, ...]:
    name, *inner = told.split(".")
    return (order[name], *map(int, inner))


def _compile(launch: dict[str, Any], arch: int) -> str:
    """PTX of one launch. Raises whatever the compiler raises."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = _function(launch["module"], launch["file"], launch["qualname"])
    order = {name: i for i, name in enumerate(launch["signature"])}
    source = ASTSource(
        fn=function, signature={name: _type(kind) for name, kind in launch["signature"].items()},
        constexprs={_path(path, order): _value(value) for path, value in launch["constexprs"].items()},
        attrs={_path(path, order): [["tt.divisibility", 16]] for path in launch["divisible"]})
    kernel = triton.compile(source, target=GPUTarget("cuda", arch, _WARP), options=launch["options"])
    limit = _SHARED.get(arch)
    if limit is not None and kernel.metadata.shared > limit:
        raise TooLarge(f"it needs {kernel.metadata.shared} bytes of shared memory; sm_{arch} has {limit}")
    return str(kernel.asm["ptx"])


def _one_line(error: BaseException, printed: str) -> str:
    """The compiler's complaint: the innermost cause, where it points in the source, and the first error it printed."""
    where = getattr(getattr(error, "node", None), "lineno", None)
    cause = error
    while cause.__cause__ is not None and not isinstance(cause, Unavailable):
        cause = cause.__cause__
    message = getattr(cause, "error_message", None) or str(cause) or type(cause).__name__
    lines = [line.strip() for line in str(message).splitlines() if line.strip()]
    text = " | ".join(lines[-3:]) if lines else type(cause).__name__
    complaints = re.findall(r"error: .*", printed)
    if complaints:
        text = f"{text} ({complaints[0]})"
    kind = "" if isinstance(error, (Unavailable, TooLarge)) else f"{type(error).__name__}: "
    place = f" (line {where} of the kernel)" if where else ""
    return f"{kind}{text}{place}"[:600]


def _printed_since(start: int) -> str:
    sys.stderr.flush()
    with open("/dev/fd/2", "rb") as stream:
        stream.seek(start)
        return stream.read().decode(errors="replace")


def _stderr_size() -> int:
    sys.stderr.flush()
    return os.fstat(2).st_size


def main(request: str, response: str) -> None:
    """Compile every launch of a request file."""
    with open(request) as stream:
        wanted = json.load(stream)
    sys.path[:] = wanted["path"]
    with open(response, "a") as out:
        for index, launch in enumerate(wanted["launches"]):
            started, size = time.perf_counter(), _stderr_size()
            error, found, ptx = None, True, ""
            try:
                ptx = _compile(launch, wanted["arch"])
            except (Exception, SystemExit) as failure:
                error, found = _one_line(failure, _printed_since(size)), not isinstance(failure, Unavailable)
            answer = {"index": index, "error": error, "found": found, "ptx": ptx, "seconds": time.perf_counter() - started}
            out.write(json.dumps(answer) + "\n")
            out.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
