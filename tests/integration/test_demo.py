"""What `moldau demo` says where Spark cannot run, and that it leaves nothing behind."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau.cli.demo import needs
from moldau.cli.main import root
from moldau.spark.java import INSTALL


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the demo puts its data, so that leftovers are seen."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def without_spark(name: str) -> ModuleSpec | None:
    return None


def with_spark(name: str) -> ModuleSpec | None:
    return ModuleSpec(name, None)


def test_without_the_extra_the_pipeline_is_skipped_with_the_command(
    monkeypatch: pytest.MonkeyPatch, scratch: Path
) -> None:
    monkeypatch.setattr(needs.importlib.util, "find_spec", without_spark)
    result = CliRunner().invoke(root, ["demo", "-n", "1000"])
    assert result.exit_code == 0, result.output
    assert 'pip install "moldau[spark]"' in result.output
    assert "1,000 of 1,000 orders still there" in result.output
    assert list(scratch.iterdir()) == []


def test_without_java_there_is_one_message_and_nothing_starts(
    monkeypatch: pytest.MonkeyPatch, scratch: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", with_spark)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    result = CliRunner().invoke(root, ["demo"])
    assert result.exit_code == 1
    assert result.output.count("Spark needs Java 17 or newer") == 1
    assert INSTALL[0] in result.output
    assert "started a broker" not in result.output
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_no_process_and_no_data(how: signal.Signals, tmp_path: Path) -> None:
    # In a group of its own, so that whoever survives can be seen.
    process = subprocess.Popen(
        [sys.executable, "-m", "moldau", "demo", "--no-spark", "-n", "5000000"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "created orders" in line:
            break
    os.kill(process.pid, how)
    assert process.wait(timeout=30) != 0
    deadline = time.monotonic() + 10
    while group_lives(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not group_lives(process.pid)
    assert list(tmp_path.iterdir()) == []


def group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
