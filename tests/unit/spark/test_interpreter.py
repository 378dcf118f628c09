"""Which Python Spark looks for the format with, when moldau is imported before the session starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ASK = "import os, moldau; print(os.environ.get('PYSPARK_DRIVER_PYTHON'), os.environ.get('PYSPARK_PYTHON'))"
BIN = str(Path(sys.executable).parent)


def said(tmp_path: Path, path: list[str], **environment: str) -> str:
    """Of a process with that PATH; `elsewhere` stands for a system's own python3."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "python3").touch(mode=0o755)
    searched = os.pathsep.join(str(tmp_path / folder) if folder == "elsewhere" else folder for folder in path)
    known = {name: text for name, text in os.environ.items() if not name.startswith("PYSPARK_")}
    done = subprocess.run(
        [sys.executable, "-c", ASK], env={**known, "PATH": searched, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("path", [["elsewhere"], ["elsewhere", BIN], []])
def test_a_job_whose_environment_is_not_activated(tmp_path: Path, path: list[str]) -> None:
    assert said(tmp_path, path) == f"{sys.executable} None"


def test_an_activated_environment_is_left_alone(tmp_path: Path) -> None:
    assert said(tmp_path, [BIN, "elsewhere"]) == "None None"


@pytest.mark.parametrize("name", ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"])
def test_whoever_chose_a_python_keeps_it(tmp_path: Path, name: str) -> None:
    chosen = said(tmp_path, ["elsewhere"], **{name: "/opt/python"})
    assert sys.executable not in chosen
    assert "/opt/python" in chosen
