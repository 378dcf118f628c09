"""One client that sends the same request at a steady rate, as long as nobody ends it: `python -m bench.loadgen.paced`.

A neighbour for rows that measure somebody else. Its rate is the same for every broker, so that a quick one is not given
more to do.
"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.loadgen.run import LoadFailed, request_file
from bench.peers.base import Peer, read_frame

ERROR_AT = 4 + 1 + 1
"""Correlation id, tagged fields, count of topics; then the topic's name."""


@contextmanager
def neighbour(peer: Peer, frame: bytes, per_second: float) -> Iterator[None]:
    """Somebody sends `frame` that often while the block runs; LoadFailed when an answer was not what it should be."""
    with request_file([frame]) as path:
        command = [sys.executable, "-m", "bench.loadgen.paced", str(peer.port), path, str(per_second)]
        root = Path(__file__).resolve().parents[2]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)
        try:
            assert process.stdout is not None
            if process.stdout.readline().strip() != "ready":
                raise LoadFailed(f"{peer.name} refuses the neighbour's requests")
            yield
            if process.poll() is not None:
                raise LoadFailed(f"{peer.name} refuses the neighbour's requests")
        finally:
            process.kill()
            process.wait()


def error_of(answer: bytes) -> int:
    """The error code of the only partition in a Produce 12 answer."""
    name_bytes = answer[ERROR_AT] - 1
    at = ERROR_AT + 1 + name_bytes + 1 + 4
    return int(struct.unpack(">h", answer[at : at + 2])[0])


def main() -> int:
    port, path, per_second = int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    frame = path.read_bytes()
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        due = time.perf_counter()
        told = False
        while True:
            connection.sendall(frame)
            if error_of(read_frame(connection)):
                return 1
            if not told:
                told = True
                print("ready", flush=True)
            due = max(due + 1.0 / per_second, time.perf_counter())
            time.sleep(max(0.0, due - time.perf_counter()))


if __name__ == "__main__":
    sys.exit(main())
