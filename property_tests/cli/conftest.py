"""A command line whose workers are in this process: the same objects and errors, without four seconds of start a kernel."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest

from replaycheck.cli import main
from replaycheck.contract.claims import Claims
from replaycheck.contract.resolve import resolve
from replaycheck.play.source import InProcess

HERE = Path(__file__).parent
Command = Callable[..., int]


class LocalWorker(InProcess):
    """A Worker without a process. Objects of kernels_for_the_command_line are taken as they are, others are resolved."""

    def __init__(self, path: str, *, device: str = "cpu", time_limit: float = 60.0) -> None:
        module, _, name = path.rpartition(":")
        if module.endswith("kernels_for_the_command_line.py"):
            kernel = getattr(importlib.import_module("kernels_for_the_command_line"), name)
        else:
            kernel = resolve(path)
        super().__init__(kernel, device=device)

    @property
    def claims(self) -> Claims:
        return self._kernel.claims

    def close(self) -> None:
        """Nothing to end."""


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """`main` with local workers, in an empty directory."""
    monkeypatch.setattr("replaycheck.cli.workers.Worker", LocalWorker)
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str) -> int:
        return main(list(arguments))

    return command


@pytest.fixture
def kernel() -> Callable[[str], str]:
    """The path of a kernel of kernels_for_the_command_line."""
    return lambda name: f"{HERE / 'kernels_for_the_command_line.py'}:{name}"
