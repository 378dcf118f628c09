"""Settings are needed at every start and by `--help`: what they import stays small."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("asyncio", "difflib", "json", "logging", "msgspec", "tomllib", "inspect", "dataclasses", "moldau.wire")


def test_importing_the_settings_loads_nothing_heavy() -> None:
    program = "import sys, moldau.config.settings; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    bare = subprocess.run(
        [sys.executable, "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "moldau.config.catalog" in loaded
    assert [name for name in HEAVY if name in loaded and name not in bare] == []
