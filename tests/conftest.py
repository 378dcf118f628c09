"""Shared by all tests."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# The simulator is not part of the installed package. At the end of the path, so that the installed `moldau` still comes
# first where there is one.
sys.path.append(str(Path(__file__).parent.parent / "src"))

# Seconds on the wall say how busy the machine is, not whether an example holds.
UNHURRIED: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# Everybody's run tries the same examples: whether it is green must not depend on luck. Chance has a verb of its own,
# `make explore`, and a seed that is named (`--hypothesis-seed`) is believed.
settings.register_profile("same", settings.default, derandomize=True, **UNHURRIED)
settings.register_profile("explore", settings.default, derandomize=False, database=None, print_blob=True, **UNHURRIED)
settings.load_profile("same")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--hypothesis-seed"):
        settings.load_profile("explore")
    # The installed package brings the plugin by its entry point; from bare source it must be named.
    if not config.pluginmanager.hasplugin("moldau"):
        config.pluginmanager.import_plugin("moldau.testing.plugin")
