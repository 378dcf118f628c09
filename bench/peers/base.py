"""A broker process under measurement."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.loadgen import requests

START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0


class PeerUnavailable(RuntimeError):
    """This peer cannot run here; the message says why and what would help."""


@dataclass
class Peer:
    """One broker: how to start it, and the process once it runs."""

    work_dir: Path
    name: str = ""
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    start_seconds: float = 0.0
    environment: Mapping[str, str] = field(default_factory=dict)
    before_stop: list[Callable[[], None]] = field(default_factory=list)
    """What ends this run's clients of the broker. They go first: a client without a broker fills the terminal."""

    def prepare(self) -> None:
        """Everything that is not the start itself (formatting a directory)."""

    def command(self) -> Sequence[str]:
        raise NotImplementedError

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        if self.process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self.process.pid

    @property
    def log_path(self) -> Path:
        return self.work_dir / "broker.out"

    def start(self) -> None:
        """Start on a free port with an empty directory; return once a Metadata request was answered."""
        shutil.rmtree(self.work_dir, ignore_errors=True)
        self.work_dir.mkdir(parents=True)
        self.port = free_port()
        self.prepare()
        with self.log_path.open("wb") as output:
            begin = time.perf_counter()
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.work_dir,
                env={**os.environ, **self.environment},
            )
            self._wait_until_answering(begin)
            self.start_seconds = time.perf_counter() - begin

    def _wait_until_answering(self, begin: float) -> None:
        assert self.process is not None
        while time.perf_counter() - begin < START_SECONDS_MAX:
            if self.process.poll() is not None:
                raise PeerUnavailable(f"{self.name} ended at once:\n{self.last_output()}")
            if answers_metadata(self.port):
                return
            time.sleep(0.01)
        self.stop()
        raise PeerUnavailable(f"{self.name} did not answer within {START_SECONDS_MAX:.0f} s:\n{self.last_output()}")

    def last_output(self) -> str:
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-15:])

    def stop(self) -> None:
        if self.process is None:
            return
        while self.before_stop:
            self.before_stop.pop()()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def clean(self) -> None:
        self.stop()
        shutil.rmtree(self.work_dir, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers_metadata(port: int) -> bool:
    """True when a Metadata request gets an answer that lists a broker (Kafka answers without one while it starts)."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(requests.metadata(None))
            answer = read_frame(connection)
    except OSError:
        return False
    # correlation id, tagged fields, throttle time, then the compact array of brokers
    return len(answer) > 9 and answer[9] > 1


def read_frame(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _read_exactly(connection, 4))
    return _read_exactly(connection, size)


def _read_exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionResetError("closed while reading an answer")
        data += piece
    return bytes(data)
