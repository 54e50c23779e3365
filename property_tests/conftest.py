"""The plugin, where the package is not installed and its entry point is unknown."""

from __future__ import annotations

import pytest

from replaycheck import plugin


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.is_registered(plugin):
        config.pluginmanager.register(plugin, "replaycheck")
