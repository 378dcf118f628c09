"""What `setup.py` does and says while moldau is built."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """As much of the project as its name and version need."""
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    package = tmp_path / "src" / "moldau"
    package.mkdir(parents=True)
    shutil.copy(ROOT / "src" / "moldau" / "__init__.py", package)
    return tmp_path


def said(project: Path, compile_wish: str) -> str:
    environment = os.environ | {"MOLDAU_COMPILE": compile_wish}
    command = [sys.executable, "setup.py", "egg_info"]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_asking_for_name_and_version_translates_nothing(project: Path) -> None:
    """pip asks first. With a compiler at hand, everything was translated twice."""
    assert "translating" not in said(project, "1")


def test_modules_that_stay_slow_are_told(project: Path) -> None:
    assert "pure Python, about five times slower" in said(project, "0")


def test_every_hot_module_is_there_once() -> None:
    listed = re.search(r"HOT_MODULES: list\[str\] = \[(.*?)\]", (ROOT / "setup.py").read_text(), re.DOTALL)
    assert listed is not None
    names = re.findall(r'"([^"]+)"', listed[1])
    assert len(names) == len(set(names)) > 0
    assert [name for name in names if not (ROOT / "src" / "moldau" / name).exists()] == []
