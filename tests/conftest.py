"""Shared by all tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The simulator is not part of the installed package. At the end of the path, so that the installed `moldau` still comes
# first where there is one.
sys.path.append(str(Path(__file__).parent.parent / "src"))

# Seconds on the wall say how busy the machine is, not whether an example holds. The rest is as the environment has it:
# where `CI` is set, Hypothesis tries the same examples every time.
settings.register_profile("moldau", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("moldau")


def pytest_configure(config: pytest.Config) -> None:
    # The installed package brings the plugin by its entry point; from bare source it must be named.
    if not config.pluginmanager.hasplugin("moldau"):
        config.pluginmanager.import_plugin("moldau.testing.plugin")
