"""A kernel path resolves, or says in one line why not."""

import sys
from pathlib import Path

import pytest

from replaycheck.contract.errors import UsageError
from replaycheck.contract.resolve import OWN, known_kernels, resolve

KERNELS = Path(__file__).parent / "kernels_for_workers.py"


def test_a_file_and_a_module_resolve_to_their_objects() -> None:
    assert resolve(f"{KERNELS}:right").claims.name == "host-step"
    assert resolve(f"{KERNELS}:dying").claims.name == "dying"
    assert resolve("replaycheck.faults.base:REPLAY").claims.kind == "replay"


def test_own_kernels_are_known_without_an_installation() -> None:
    assert OWN.items() <= known_kernels().items()


@pytest.mark.parametrize(("path", "said"), [
    ("nobody", f"is neither path/to/file.py:object, module:object nor one of {', '.join(sorted(OWN))}"),
    ("absent/file.py:kernel", "there is no file absent/file.py"),
    (f"{KERNELS}:", "must be path/to/file.py:object or module:object"),
    (f"{KERNELS}:missing", "has no object 'missing'; its kernels are STEP, dying, right"),
    (f"{KERNELS}:not_a_kernel", "is a int without claims of type Claims"),
    ("no.such.module:kernel", "there is no module no.such.module"),
    ("math:pi", "is a float without claims"),
    ("math:tau.x", "math has no object 'tau.x'; it holds no kernel"),
])
def test_a_wrong_path_is_one_line_that_names_it(path: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(path)
    assert said in str(caught.value) and repr(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(("source", "said"), [
    ("import nothing_of_this_name", "raised ModuleNotFoundError: No module named 'nothing_of_this_name'"),
    ("kernel = 1 +", "raised SyntaxError"), ("raise SystemExit(4)", "raised SystemExit: 4"),
    ("raise ValueError('first\\nsecond')", "ValueError: first"),
])
def test_a_file_that_does_not_import_is_one_line_and_keeps_its_traceback(tmp_path: Path, source: str, said: str) -> None:
    file = tmp_path / "broken.py"
    file.write_text(source)
    with pytest.raises(UsageError) as caught:
        resolve(f"{file}:kernel")
    assert said in str(caught.value) and "\n" not in str(caught.value) and caught.value.traceback
    sys.path.remove(str(tmp_path))


def test_a_kernel_file_may_import_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "beside_me.py").write_text("from replaycheck.faults.base import STEP as neighbour\n")
    (tmp_path / "kernel.py").write_text("from beside_me import neighbour\n")
    assert resolve(f"{tmp_path}/kernel.py:neighbour").claims.name == "host-step"
    sys.path.remove(str(tmp_path))
