"""`moldau up -d`, and what goes with it: status, logs, down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.cli import run_file
from moldau.cli.logs import following
from tests.brokers import running_broker
from tests.integration.test_who_serves import moldau


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Path]:
    """A directory to work in; no broker outlives the test."""
    yield tmp_path
    moldau("down", cwd=tmp_path)


def up(here: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return moldau("up", "-d", "--data-dir", "moldau-data", *more, cwd=here)


def test_a_broker_in_the_background_from_its_start_to_its_end(here: Path) -> None:
    assert moldau("status", cwd=here).returncode == 1
    started = up(here, "--listen", "127.0.0.1:0")
    assert started.returncode == 0, started.stderr
    running = run_file.read(here / "moldau-data")
    assert running is not None
    assert running.bootstrap in started.stdout

    told = moldau("status", "--json", cwd=here)
    facts = json.loads(told.stdout)
    assert told.returncode == 0
    assert (facts["state"], facts["bootstrap"], facts["pid"]) == ("running", running.bootstrap, running.pid)
    assert facts["log_file"] == str(here / "moldau-data" / "moldau.log")
    assert moldau("topic", "create", "t", cwd=here).returncode == 0
    assert f"listens on {running.bootstrap}" in moldau("logs", cwd=here).stdout

    followed = subprocess.Popen(
        [sys.executable, "-m", "moldau", "logs", "-f", "-n", "0"],
        cwd=here,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    stopped = moldau("down", cwd=here)
    assert stopped.returncode == 0, stopped.stderr
    followed.communicate(timeout=60)
    assert followed.returncode == 0, "it ends with the broker"
    assert "stopped" in moldau("logs", "-n", "1", cwd=here).stdout
    assert moldau("status", cwd=here).stdout.split()[:2] == ["state", "stopped"]


def test_asked_twice_it_is_there_already_but_options_are_not_dropped(here: Path) -> None:
    assert up(here, "--set", "listeners=PLAINTEXT://127.0.0.1:0").returncode == 0
    again = up(here)
    assert again.returncode == 0
    assert "already serves" in again.stdout
    changed = up(here, "--set", "num.partitions=7")
    assert changed.returncode == 1
    assert "MD-1003" in changed.stderr


def test_a_start_that_fails_says_why_and_leaves_nothing_running(here: Path) -> None:
    with running_broker(here / "other") as other:
        failed = up(here, "--listen", other.bootstrap)
    assert failed.returncode == 1
    assert "MD-1002" in failed.stderr
    assert run_file.read(here / "moldau-data") is None
    mistaken = up(here, "--set", "num.partitions=many")
    assert mistaken.returncode == 1
    assert "MD-2001" in mistaken.stderr


def test_a_broker_in_the_foreground_keeps_no_log(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data"):
        asked = moldau("logs", "--data-dir", tmp_path / "data")
    assert asked.returncode == 1
    assert "MD-3010" in asked.stderr


def test_following_goes_on_in_the_next_file(tmp_path: Path) -> None:
    path = tmp_path / "moldau.log"
    path.write_text("before\n")
    writing = threading.Event()
    lines = following(path, 0, lambda: not writing.is_set())
    assert next(lines) == "before\n"
    with path.open("a") as file:
        file.write("last of the old\n")
    path.rename(tmp_path / "moldau.log.1")
    path.write_text("first of the new\n")
    assert next(lines) == "last of the old\n"
    assert next(lines) == "first of the new\n"
    writing.set()
    assert list(lines) == []


def test_a_full_log_is_put_aside_and_standard_error_follows_it(tmp_path: Path) -> None:
    program = (
        "import sys, os, logging; from moldau.runtime.log_file import BoundedLog;"
        "log = logging.getLogger(); log.addHandler(BoundedLog(sys.argv[1], size_bytes_max=2000, kept=2));"
        "[log.warning('line %d %s', number, 'x' * 90) for number in range(100)];"
        "os.write(2, b'the last words')"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "log")], check=True, env=environment)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log", "log.1", "log.2"]
    assert all(file.stat().st_size <= 2100 for file in tmp_path.iterdir())
    assert "line 99" in (tmp_path / "log").read_text()
    assert (tmp_path / "log").read_text().endswith("the last words")
