"""What this machine needs at the very least for the work that budgets are about: bare sockets and files, no broker.

Budgets are multiples of it, measured in the same run, so that a slower or busier machine moves both. Each figure is the
CPU of one thread that does nothing but system calls, the best of a few rounds.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROUNDS: Final = 5
REQUESTS: Final = 20_000
REQUEST_BYTES: Final = 200
ANSWER_BYTES: Final = 60
TRANSFER_BYTES: Final = 256 * 2**20
BLOCK_BYTES: Final = 256 * 1024


@dataclass(frozen=True)
class Floor:
    """In the units of the rows."""

    request_us: float
    """Receive a small request, send a small answer."""
    store_s_per_gb: float
    """Receive from a socket, write to a file in the page cache."""
    serve_s_per_gb: float
    """Send a file from the page cache to a socket."""


def measure(work_dir: Path) -> Floor:
    work_dir.mkdir(parents=True, exist_ok=True)
    scratch = work_dir / "floor"
    try:
        request = _best(lambda: _requests()) / REQUESTS * 1e6
        store = _best(lambda: _store(scratch)) / TRANSFER_BYTES * 1e9
        serve = _best(lambda: _serve(scratch)) / TRANSFER_BYTES * 1e9
    finally:
        scratch.unlink(missing_ok=True)
    return Floor(request, store, serve)


def _best(once: Callable[[], float]) -> float:
    return min(once() for _ in range(ROUNDS))


def _pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()
    for end in (near, far):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return near, far


def _beside(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def _requests() -> float:
    near, far = _pair()

    def client() -> None:
        for _ in range(REQUESTS):
            near.sendall(bytes(REQUEST_BYTES))
            near.recv(4096)

    with near, far:
        other = _beside(client)
        answer = bytes(ANSWER_BYTES)
        begin = time.thread_time()
        for _ in range(REQUESTS):
            far.recv(4096)
            far.send(answer)
        spent = time.thread_time() - begin
        other.join()
    return spent


def _store(scratch: Path) -> float:
    near, far = _pair()

    def client() -> None:
        block = bytes(BLOCK_BYTES)
        for _ in range(TRANSFER_BYTES // BLOCK_BYTES):
            near.sendall(block)
        near.shutdown(socket.SHUT_WR)

    with near, far, scratch.open("wb", buffering=0) as file:
        other = _beside(client)
        buffer = memoryview(bytearray(BLOCK_BYTES))
        begin = time.thread_time()
        while size := far.recv_into(buffer):
            file.write(buffer[:size])
        spent = time.thread_time() - begin
        other.join()
    return spent


def _serve(scratch: Path) -> float:
    near, far = _pair()

    def client() -> None:
        buffer = bytearray(BLOCK_BYTES)
        while near.recv_into(buffer):
            pass

    with near, far, scratch.open("rb") as file:
        other = _beside(client)
        begin = time.thread_time()
        sent = 0
        while sent < TRANSFER_BYTES:
            sent += os.sendfile(far.fileno(), file.fileno(), sent, TRANSFER_BYTES - sent)
        spent = time.thread_time() - begin
        far.shutdown(socket.SHUT_WR)
        other.join()
    return spent
