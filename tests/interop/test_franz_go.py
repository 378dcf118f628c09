"""franz-go, which speaks the newest versions and checks strictly."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent / "go"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go = shutil.which("go")
    if go is None:
        pytest.skip("Go is not installed")
    built = tmp_path_factory.mktemp("go") / "everyday"
    command = [go, "build", "-o", str(built), "."]
    done = subprocess.run(
        command, cwd=SOURCES, capture_output=True, text=True, env={**os.environ, "GOFLAGS": "-mod=mod"}
    )
    if done.returncode and "dial tcp" in done.stderr:
        pytest.skip("franz-go could not be downloaded: " + done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stderr
    return built


@pytest.mark.timeout(300)
def test_everyday_work(program: Path, bootstrap: str, unique: Callable[[], str]) -> None:
    done = subprocess.run([str(program), bootstrap, unique()], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("done\n")
