"""A bare install stays light: few distributions, little on disk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
DISTRIBUTIONS_MAX = 20
DISK_MB_MAX = 25.0


def disk_mb(folder: Path) -> float:
    """What the packages bring along; bytecode that Python writes later is not counted."""
    files = (file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return sum(file.stat().st_size for file in files) / 1e6


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_bare_install_is_light(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin" / "python"), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-compile", str(REPOSITORY)], check=True)
    listed = json.loads(subprocess.run([*pip, "list", "--format", "json"], check=True, capture_output=True).stdout)
    (packages,) = venv.glob("lib/python*/site-packages")
    size_mb = disk_mb(packages)
    print(f"{len(listed)} distributions, {size_mb:.1f} MB")
    assert len(listed) <= DISTRIBUTIONS_MAX
    assert size_mb <= DISK_MB_MAX
    subprocess.run([str(venv / "bin" / "moldau"), "--help"], check=True, capture_output=True)
