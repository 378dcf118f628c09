"""Shared by all tests."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # The installed package brings the plugin by its entry point; from bare source it must be named.
    if not config.pluginmanager.hasplugin("moldau"):
        config.pluginmanager.import_plugin("moldau.testing.plugin")
