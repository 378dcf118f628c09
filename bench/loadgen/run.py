"""Run the C programs and read what they report."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench import measure
from bench.loadgen.build import build
from bench.peers.base import Peer

GRACE_SECONDS = 90


class LoadFailed(RuntimeError):
    """The broker answered with errors, or not at all."""


def threads_for(connections: int) -> int:
    """One client thread per four cores: on a small machine the client must leave room for the broker."""
    return max(1, min(connections, 4, (os.cpu_count() or 1) // 4))


@contextmanager
def request_file(frames: Sequence[bytes]) -> Iterator[str]:
    with tempfile.NamedTemporaryFile(prefix="moldau-bench-", suffix=".requests") as file:
        file.write(b"".join(frames))
        file.flush()
        yield file.name


def load(
    peer: Peer,
    mode: str,
    frames: Sequence[bytes],
    *,
    connections: int,
    in_flight: int = 1,
    seconds: float,
    warmup_seconds: float = 1.0,
    bytes_max: int = 0,
    offset_at: int = -1,
) -> dict[str, Any]:
    with request_file(frames) as path:
        command = [
            *(str(build("loadgen")), mode, "--port", str(peer.port), "--requests", path),
            *("--connections", str(connections), "--in-flight", str(in_flight)),
            *("--seconds", str(seconds), "--warmup", str(warmup_seconds), "--bytes-max", str(bytes_max)),
            *("--threads", str(threads_for(connections)), "--pid", str(peer.pid)),
        ]
        if offset_at >= 0:
            command += ["--offset-at", str(offset_at)]
        return _report(peer, command, timeout=seconds + warmup_seconds + GRACE_SECONDS)


@contextmanager
def idle_connections(peer: Peer, frame: bytes, count: int) -> Iterator[None]:
    """Hold `count` connections open that each had one request answered."""
    with request_file([frame]) as path:
        command = [str(build("loadgen")), "idle", "--port", str(peer.port), "--requests", path]
        command += ["--connections", str(count)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            if json.loads(process.stdout.readline() or "{}").get("open") != count:
                raise LoadFailed(f"{peer.name} did not keep {count} connections open")
            yield


def rdclient(peer: Peer, action: str, topic: str, *, partitions: int, count: int, value_bytes: int) -> dict[str, Any]:
    program = build("rdclient", "-ldl")
    command = [str(program), str(librdkafka()), action, peer.bootstrap, topic]
    command += [str(partitions), str(count), str(value_bytes)]
    before = measure.cpu_seconds(peer.pid)
    report = _report(peer, command, timeout=180 + GRACE_SECONDS)
    report["broker_cpu_s"] = measure.cpu_seconds(peer.pid) - before
    return report


def librdkafka() -> Path:
    """The library inside the confluent-kafka wheel."""
    folder = Path(sysconfig.get_paths()["platlib"]) / "confluent_kafka.libs"
    found = sorted(folder.glob("librdkafka*.so*"))
    if not found:
        raise LoadFailed("the librdkafka rows need the confluent-kafka wheel: pip install confluent-kafka")
    return found[0]


def _report(peer: Peer, command: Sequence[str], timeout: float) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if done.returncode not in (0, 4) or not done.stdout:
        raise LoadFailed(f"{peer.name}: {done.stderr.strip() or 'the load generator ended early'}")
    report: dict[str, Any] = json.loads(done.stdout)
    if done.returncode:
        raise LoadFailed(
            f"{peer.name}: {report['failures']} answers failed: {report['problem']} "
            f"(error code {report.get('first_error', 'see above')})"
        )
    return report
