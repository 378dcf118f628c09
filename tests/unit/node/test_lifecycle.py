"""A node as a process: what systemd and the person at the terminal see."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import moldau
from moldau.runtime.file_limit import OPEN_FILES_MAX
from tests.machine import slowness

SERVE = """
import sys
from moldau.config.settings import Settings
from moldau.node.lifecycle import run

settings = Settings.from_sources(overrides={"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": sys.argv[1]})
run(settings, ready=lambda bootstrap: print(bootstrap, flush=True))
"""
SOURCE = str(Path(moldau.__file__).parents[1])


def serve(data: Path, code: str = SERVE, **environment: str) -> subprocess.Popen[str]:
    path = os.pathsep.join(filter(None, [SOURCE, os.environ.get("PYTHONPATH", "")]))
    return subprocess.Popen(
        [sys.executable, "-c", code, str(data)],
        env={**os.environ, "PYTHONPATH": path, **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_node_asked_to_stop_leaves_the_marker_of_a_clean_stop(tmp_path: Path, sign: signal.Signals) -> None:
    with serve(tmp_path) as process:
        assert process.stdout is not None
        host, _, port = process.stdout.readline().strip().rpartition(":")
        socket.create_connection((host, int(port)), timeout=60).close()
        assert not (tmp_path / ".kafka_cleanshutdown").exists()
        process.send_signal(sign)
        assert process.wait(timeout=120) == 0
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert not list(tmp_path.glob("metadata.db-*")), "the store was closed properly"


def test_systemd_is_told_when_the_node_is_ready_and_when_it_stops(tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address)
        systemd.settimeout(120)
        with serve(tmp_path / "data", NOTIFY_SOCKET=address) as process:
            assert systemd.recv(100) == b"READY=1"
            process.send_signal(signal.SIGTERM)
            assert systemd.recv(100) == b"STOPPING=1"
            assert process.wait(timeout=120) == 0


def test_starting_and_stopping_costs_less_than_a_second_of_processor_time(tmp_path: Path) -> None:
    """Processor time, because the clock on the wall also counts what others do on this machine."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with serve(tmp_path) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1.0 * slowness()


def test_a_node_takes_as_many_open_files_as_it_may_have(tmp_path: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, {hard}))\n"
    tell = SERVE.replace("print(bootstrap", "print(resource.getrlimit(resource.RLIMIT_NOFILE)[0]")
    with serve(tmp_path, code=few + tell) as process:
        assert process.stdout is not None
        allowed = int(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 0
    assert allowed == min(hard, OPEN_FILES_MAX) if hard != resource.RLIM_INFINITY else OPEN_FILES_MAX
