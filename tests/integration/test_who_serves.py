"""Who serves a data directory: the lock decides, never a process id in a file."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from moldau.cli import run_file
from tests.brokers import running_broker
from tests.unit.runtime.test_file_lock import LOCK_AS_KAFKA, held


def moldau(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "moldau", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=cwd, env=environment)


@contextmanager
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any broker."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.communicate()


def leave_run_file(data_dir: Path, pid: int) -> None:
    """What a killed broker leaves, whose process id belongs to somebody else by now (in a container: process 1)."""
    with running_broker(data_dir) as broker:
        left = json.loads((data_dir / run_file.NAME).read_text())
        broker.kill()
    (data_dir / run_file.NAME).write_text(json.dumps({**left, "pid": pid}))


def test_a_process_id_left_by_a_crash_does_not_stop_the_next_start(tmp_path: Path) -> None:
    leave_run_file(tmp_path / "data", os.getpid())
    with running_broker(tmp_path / "data") as again:
        running = run_file.read(tmp_path / "data")
        assert running is not None
        assert running.pid == again.pid


def test_down_ends_no_process_that_does_not_hold_the_lock(tmp_path: Path) -> None:
    with bystander() as innocent:
        leave_run_file(tmp_path / "data", innocent.pid)
        done = moldau("down", "--data-dir", tmp_path / "data")
        assert innocent.poll() is None
    assert done.returncode == 1
    assert "MD-3002" in done.stderr


def test_a_copy_of_a_served_directory_is_nobodys(tmp_path: Path) -> None:
    original, copy = tmp_path / "data", tmp_path / "copy"
    with running_broker(original) as broker:
        shutil.copytree(original, copy)
        assert moldau("down", "--data-dir", copy).returncode == 1
        assert run_file.read(original) is not None, "the original still serves"
        with running_broker(copy) as other:
            assert other.pid != broker.pid


def test_down_stops_the_broker_of_the_directory_and_waits_for_it(tmp_path: Path) -> None:
    with running_broker(tmp_path / "data") as broker:
        done = moldau("down", "--data-dir", tmp_path / "data")
        assert done.returncode == 0, done.stderr
        assert broker.bootstrap in done.stdout
        assert run_file.read(tmp_path / "data") is None
        assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
        assert not (tmp_path / "data" / run_file.NAME).exists()


def test_without_run_file_and_lock_file_a_second_broker_still_keeps_out(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with running_broker(data_dir):
        (data_dir / run_file.NAME).unlink()
        (data_dir / run_file.LOCK_NAME).unlink()
        second = moldau("up", "--data-dir", data_dir, "--listen", "127.0.0.1:0")
        assert second.returncode == 1
        assert "MD-1003" in second.stderr
        stopping = moldau("down", "--data-dir", data_dir, "--wipe")
        assert stopping.returncode == 1
        assert "MD-1003" in stopping.stderr
        assert (data_dir / "meta.properties").exists(), "nothing is wiped under a broker"


def test_down_leaves_kafka_alone(tmp_path: Path) -> None:
    with held(str(tmp_path / run_file.LOCK_NAME), LOCK_AS_KAFKA) as pid:
        done = moldau("down", "--data-dir", tmp_path)
        assert done.returncode == 1
        assert f"process {pid}" in done.stderr
        os.kill(pid, 0)


@pytest.mark.parametrize("more", [[], ["--set", "num.partitions=7"]])
def test_up_on_a_served_directory_fails_and_names_the_broker(tmp_path: Path, more: list[str]) -> None:
    with running_broker(tmp_path / "data") as broker:
        done = moldau("up", "--data-dir", tmp_path / "data", *more)
        assert done.returncode == 1
        assert broker.bootstrap in done.stderr
        assert str(broker.pid) in done.stderr


def test_one_served_directory_of_two_stops_the_start(tmp_path: Path) -> None:
    """Else the second broker would write the metadata of the first."""
    with running_broker(tmp_path / "a"):
        done = moldau("up", "--listen", "127.0.0.1:0", "--set", f"log.dirs={tmp_path / 'b'},{tmp_path / 'a'}")
        assert done.returncode == 1
        assert "MD-1003" in done.stderr
        assert f"moldau down --data-dir {tmp_path / 'a'}" in done.stderr
        assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "a" / ".kafka_cleanshutdown").exists()


def test_commands_talk_to_the_broker_of_their_directory(tmp_path: Path) -> None:
    """Not to whoever has 9092: the first broker is named by nothing but the directory."""
    with running_broker(tmp_path / "moldau-data") as here, running_broker(tmp_path / "other" / "moldau-data") as there:
        assert moldau("topic", "create", "of-here", cwd=tmp_path).returncode == 0
        for broker, topics in ((here, "of-here"), (there, "")):
            listed = moldau("topic", "list", "-b", broker.bootstrap, "--format", "json", cwd=tmp_path)
            assert [row["topic"] for row in json.loads(listed.stdout)] == topics.split()
        pipeline = tmp_path / "pipeline.yaml"
        pipeline.write_text("pipeline: p\nsources: {s: {topic: nowhere}}\nsinks: [{from: s, console: {}}]\n")
        checked = moldau("pipeline", "validate", "--connect", pipeline, cwd=tmp_path)
        assert "did you mean 'of-here'" in checked.stderr


def test_a_broker_that_is_not_ready_is_not_taken_for_another(tmp_path: Path) -> None:
    (tmp_path / "moldau-data").mkdir()
    with held(str(tmp_path / "moldau-data" / run_file.LOCK_NAME)):
        asked = moldau("topic", "list", cwd=tmp_path)
    assert asked.returncode == 1
    assert "not ready" in asked.stderr


def test_help_tells_where_commands_look_and_where_up_listens() -> None:
    consume, up = (" ".join(moldau(verb, "--help").stdout.split()) for verb in ("consume", "up"))
    assert "the broker of ./moldau-data, else localhost:9092" in consume
    assert "9192 to 9201" in up


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare")
def test_process_one_again_in_a_new_container_starts(tmp_path: Path) -> None:
    """Each `unshare` is a container: its broker is process 1, killed with it and started again."""
    data_dir = tmp_path / "data"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-m", "moldau", "up"]
    command += ["--data-dir", str(data_dir), "--listen", "127.0.0.1:0"]
    for _ in range(2):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as container:
            assert container.stdout is not None
            assert any("ready in" in line for line in container.stdout)
            running = run_file.read(data_dir)
            assert running is not None
            assert running.pid > 1, "seen from outside it has another number"
            assert json.loads((data_dir / run_file.NAME).read_text())["pid"] == 1
            os.kill(running.pid, signal.SIGKILL)  # the container ends with its process 1
    assert run_file.read(data_dir) is None
