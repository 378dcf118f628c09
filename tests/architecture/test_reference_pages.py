"""The reference pages say what the tables say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "generate_reference.py"


@pytest.mark.skipif(not TOOL.exists(), reason="not a source checkout")
def test_generated_reference_pages_are_up_to_date() -> None:
    outcome = subprocess.run([sys.executable, str(TOOL), "--check"], capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
