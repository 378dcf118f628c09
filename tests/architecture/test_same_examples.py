"""Whether a run is green must not depend on luck; chance has a verb of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent.parent


def test_every_run_tries_the_same_examples(pytestconfig: pytest.Config) -> None:
    assert settings.default.derandomize is not bool(pytestconfig.getoption("--hypothesis-seed"))


def test_a_seed_that_is_named_is_believed(tmp_path: Path) -> None:
    """The examples of two seeds differ, those of one seed do not: else nobody could repeat what chance found."""
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_draws.py").write_text(
        "from hypothesis import given, settings, strategies as st\n"
        "@settings(max_examples=20)\n"
        "@given(st.integers())\n"
        "def test_draws(number):\n"
        "    print('drawn', number)\n"
    )

    def drawn(*options: str) -> list[str]:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-s", str(tmp_path), *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        return [line for line in done.stdout.splitlines() if "drawn" in line]

    assert drawn("--hypothesis-seed=1") == drawn("--hypothesis-seed=1")
    assert drawn("--hypothesis-seed=1") != drawn("--hypothesis-seed=2")
    assert drawn() == drawn()
