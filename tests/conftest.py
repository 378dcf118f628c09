"""Shared by all tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# The simulator is not part of the installed package. At the end of the path, so that the installed `moldau` still comes
# first where there is one.
sys.path.append(str(Path(__file__).parent.parent / "src"))


def pytest_configure(config: pytest.Config) -> None:
    # The installed package brings the plugin by its entry point; from bare source it must be named.
    if not config.pluginmanager.hasplugin("moldau"):
        config.pluginmanager.import_plugin("moldau.testing.plugin")
