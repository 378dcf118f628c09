"""What `moldau demo` says where Spark cannot run, and that it leaves nothing behind."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
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


STARTING = "moldau demo"
SENDING = "created orders"
READING = "sent 20,000 orders"
RECOVERING = "orders back"
PATIENCE_S = 120.0


@pytest.mark.parametrize("ignored", [signal.SIG_DFL, signal.SIG_IGN], ids=["foreground", "background"])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_demo_interrupted_while_it_sends_leaves_nothing(
    how: signal.Signals, ignored: signal.Handlers, tmp_path: Path
) -> None:
    with demo_process(tmp_path, 5_000_000, sigint=ignored) as process:
        wait_for_line(process, SENDING)
        os.kill(process.pid, how)
        assert_ends_with_nothing_left(process, tmp_path)


@pytest.mark.parametrize("line", [STARTING, READING, RECOVERING])
def test_a_demo_interrupted_elsewhere_leaves_nothing(line: str, tmp_path: Path) -> None:
    with demo_process(tmp_path, 20_000) as process:
        wait_for_line(process, line)
        os.kill(process.pid, signal.SIGTERM)
        assert_ends_with_nothing_left(process, tmp_path)


def test_impatient_ctrl_c_on_a_terminal_leaves_nothing(tmp_path: Path) -> None:
    """A terminal sends it to the broker too."""
    with demo_process(tmp_path, 5_000_000) as process:
        wait_for_line(process, SENDING)
        deadline = time.monotonic() + PATIENCE_S
        while process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.01)
        assert_ends_with_nothing_left(process, tmp_path)


@contextlib.contextmanager
def demo_process(
    scratch: Path, records: int, *, sigint: signal.Handlers = signal.SIG_DFL
) -> Iterator[subprocess.Popen[str]]:
    """In a group of its own, so that whoever survives can be seen; nobody survives the test."""
    before = signal.signal(signal.SIGINT, sigint)  # inherited: a shell starts background programs with it ignored
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "moldau", "demo", "--no-spark", "-n", str(records)],
            env={**os.environ, "TMPDIR": str(scratch)},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        yield process
    finally:
        if group_lives(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for_line(process: subprocess.Popen[str], part: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if part in line:
            return
    pytest.fail(f"the demo ended with status {process.wait()} before it said {part!r}")


def assert_ends_with_nothing_left(process: subprocess.Popen[str], scratch: Path) -> None:
    assert process.wait(timeout=PATIENCE_S) != 0
    deadline = time.monotonic() + PATIENCE_S
    while group_lives(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not group_lives(process.pid)
    assert list(scratch.iterdir()) == []


def group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
