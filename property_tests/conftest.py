"""What all tests share: the profiles of Hypothesis, no threads left behind, and the plugin where it is not installed."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from hypothesis import settings

from replaycheck import plugin

# a failure that a second run does not show helps nobody: only "explore" draws other examples every time
settings.register_profile("repeat", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", settings.get_profile("repeat"), derandomize=False, max_examples=1000)
settings.load_profile("repeat")


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.is_registered(plugin):
        config.pluginmanager.register(plugin, "replaycheck")


@pytest.fixture(autouse=True)
def no_thread_outlives_its_test() -> Iterator[None]:
    """A run that was interrupted abandons its threads; one that is still inside torch when the interpreter ends aborts the process."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
        assert not thread.is_alive(), f"{thread.name} outlives its test"
