"""The generators of the examples as people run them."""

from __future__ import annotations

import subprocess
import sys


def test_help_names_the_command_that_was_typed() -> None:
    words = ["-m", "moldau.examples.activity.generate"]
    done = subprocess.run([sys.executable, *words, "--help"], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("Usage: python -m moldau.examples.activity.generate [OPTIONS]\n"), done.stderr
