"""The pytest plugin: `kernel_suite` makes one test per guarantee and regime of a suite.

    from replaycheck.plugin import kernel_suite

    TestMyKernel = kernel_suite("path/to/file.py:object")
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from replaycheck import __version__
from replaycheck.contract.errors import ReplaycheckError
from replaycheck.report.text import case_file, failure_block, replay_line
from replaycheck.report.write import check_writable
from replaycheck.verdict.environment import versions
from replaycheck.verdict.results import Failure
from replaycheck.verdict.session import Session, Sessions
from replaycheck.verdict.suites import SUITES, Suite, pairs_of

__all__ = ["kernel_suite"]

_SESSIONS = pytest.StashKey[Sessions]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("replaycheck", "numerical correctness of recurrent-state decode kernels")
    group.addoption("--replaycheck-out", default="replaycheck-report", help="directory in which failing cases are saved (%(default)s)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "replaycheck: a guarantee of a decode kernel, measured by replaycheck")
    config.addinivalue_line("markers", "xdist_group(name): tests that pytest-xdist keeps in one process under --dist loadgroup")


def pytest_report_header(config: pytest.Config) -> str:
    found = versions()
    balls = "proven radii" if find_spec("flint") is not None else "no proven radii: python-flint is not installed"
    return f"replaycheck {__version__}: torch {found['torch']}, triton {found['triton']}, numpy {found['numpy']}; {balls}"


def _session(config: pytest.Config, kernel: str, suite: Suite, device: str, seed: int) -> Session:
    """The session of a kernel in this process. A path that does not resolve, or a kernel that does not open, fails the test in one line."""
    if _SESSIONS not in config.stash:
        config.stash[_SESSIONS] = Sessions()
        config.add_cleanup(config.stash[_SESSIONS].close)
    found = config.stash[_SESSIONS].of(kernel, suite, device, seed)
    if isinstance(found, ReplaycheckError):
        pytest.fail(str(found), pytrace=False)
    return found


def _block(config: pytest.Config, failure: Failure, kernel: str, device: str) -> str:
    """The four lines of a failure, its case saved for the last of them."""
    out = Path(config.getoption("--replaycheck-out", "replaycheck-report"))
    check_writable(out)
    if failure.case is not None:
        failure.case.save(case_file(out, failure.case.id))
    return failure_block(failure, replay_line(kernel, failure.case, out, {"device option": device}))


def kernel_suite(kernel: str, suite: str = "quick", *, device: str = "cpu", seed: int = 0) -> type:
    """A test class for the kernel of this path: one test per guarantee and regime of the suite, and one on what the suite proves.

    Assign it to a module-level name that begins with Test. Plays are shared by all tests of one process; every test records the worst
    ratio and its budget as properties. Raises ValueError where the suite is not known or has no end.
    """
    if suite not in SUITES or SUITES[suite].endless:
        raise ValueError(f"suite must be one of {', '.join(name for name, s in SUITES.items() if not s.endless)}, got {suite!r}")
    chosen = SUITES[suite]

    @pytest.mark.replaycheck
    @pytest.mark.xdist_group(kernel)
    class KernelSuite:
        @pytest.mark.parametrize(("regime", "guarantee"), [pytest.param(r, g, id=f"{g}-{r}") for r, g in pairs_of(chosen)])
        def test_guarantee(self, request: pytest.FixtureRequest, regime: str, guarantee: str) -> None:
            answer = _session(request.config, kernel, chosen, device, seed).guarantee(guarantee, regime)
            if answer.worst is not None:
                worst = answer.worst
                request.node.user_properties += [("ratio", worst.ratio), ("budget", worst.budget), ("case", worst.case)]
            if answer.failure is not None:
                pytest.fail(_block(request.config, answer.failure, kernel, device), pytrace=False)
            if answer.worst is None:
                pytest.skip("not measured in this regime; test_the_suite_proves_enough sees to what is owed")

        def test_the_suite_proves_enough(self, request: pytest.FixtureRequest) -> None:
            gaps = _session(request.config, kernel, chosen, device, seed).gaps()
            if gaps:
                pytest.fail("not proven: " + "; ".join(gaps), pytrace=False)

    return KernelSuite
