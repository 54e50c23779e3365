"""What all tests share: the profiles of Hypothesis, and the plugin where the package is not installed and its entry point is unknown."""

from __future__ import annotations

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
