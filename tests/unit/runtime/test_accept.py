"""Accepting when there are few descriptors, on both loops."""

from __future__ import annotations

import asyncio
import errno
import gc
import itertools
import os
import socket
import warnings
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from moldau.runtime import accept
from moldau.runtime.net import RealNetwork

uvloop = pytest.importorskip("uvloop")
LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, uvloop.new_event_loop]


class Greeter(asyncio.Protocol):
    """Says hello, and counts how many were shown to it at once."""

    def __init__(self, seen: list[Greeter]) -> None:
        seen.append(self)

    def connection_made(self, transport: Any) -> None:
        transport.write(b"hello")
        transport.close()


def run(loop_of: Callable[[], asyncio.AbstractEventLoop], work: Coroutine[Any, Any, None]) -> None:
    loop = loop_of()
    try:
        loop.run_until_complete(work)
    finally:
        loop.close()


@pytest.mark.parametrize("loop_of", LOOPS, ids=["asyncio", "uvloop"])
def test_a_full_backlog_is_let_in_a_few_at_a_time(loop_of: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def act() -> None:
        seen: list[Greeter] = []
        listener = await RealNetwork().listen("127.0.0.1", 0, lambda: Greeter(seen))
        clients = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(100)]
        assert not seen, "the loop had no turn yet"
        await asyncio.sleep(0)
        assert len(seen) <= accept.AT_ONCE
        for client in clients:
            client.setblocking(False)
            assert await asyncio.get_running_loop().sock_recv(client, 10) == b"hello"
            client.close()
        await listener.close()

    run(loop_of, act())


class Refuser(asyncio.Protocol):
    def __init__(self, refused: asyncio.Queue[None]) -> None:
        self.refused = refused

    def connection_made(self, transport: Any) -> None:
        transport.abort()

    def connection_lost(self, problem: Exception | None) -> None:
        self.refused.put_nowait(None)


@pytest.mark.parametrize("loop_of", LOOPS, ids=["asyncio", "uvloop"])
def test_the_descriptor_of_who_is_turned_away_is_closed_once(
    loop_of: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    async def act() -> None:
        refused: asyncio.Queue[None] = asyncio.Queue()
        listener = await RealNetwork().listen("127.0.0.1", 0, lambda: Refuser(refused))
        others = []
        for number in range(20):
            with socket.create_connection(("127.0.0.1", listener.port)):
                await refused.get()
                others.append(os.open(tmp_path / str(number), os.O_CREAT | os.O_RDWR))  # the number is free again
                for _ in range(5):
                    await asyncio.sleep(0)
                    others.append(os.dup(others[-1]))
                gc.collect()
        for fd in others:
            os.fstat(fd)
            os.close(fd)
        await listener.close()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        run(loop_of, act())


class Broken(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        raise KeyError("a bug")


@pytest.mark.parametrize("loop_of", LOOPS, ids=["asyncio", "uvloop"])
def test_protocols_that_fail_do_not_stop_the_listener(
    loop_of: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accept, "LET_IN_SECONDS", 0.01)

    async def act() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, problem: None)
        greeters: list[Greeter] = []
        made = itertools.count()
        some = 2 * accept.AT_ONCE
        listener = await RealNetwork().listen(
            "127.0.0.1", 0, lambda: Broken() if next(made) < some else Greeter(greeters)
        )
        clients = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(some + 1)]
        clients[-1].setblocking(False)
        assert await asyncio.get_running_loop().sock_recv(clients[-1], 10) == b"hello"
        for client in clients:
            client.close()
        await listener.close()

    run(loop_of, act())


class Poor(accept.Acceptor):
    """Finds no descriptor the first few times."""

    left = 3
    turned_away = 0
    rests = 0

    def __init__(self, listening: socket.socket, factory: Callable[[], Any]) -> None:
        real = listening
        super().__init__(listening, factory)

        class Listening:
            fileno = staticmethod(real.fileno)
            close = staticmethod(real.close)

            def accept(_) -> tuple[socket.socket, Any]:
                if self.left > 0 and self._spare >= 0:
                    self.left -= 1
                    raise OSError(errno.EMFILE, "Too many open files")
                if self._spare < 0:
                    self.turned_away += 1
                return real.accept()

        self._listening = Listening()  # type: ignore[assignment]

    def _rest(self, error: OSError) -> None:
        self.rests += 1
        super()._rest(error)


@pytest.mark.parametrize("loop_of", LOOPS, ids=["asyncio", "uvloop"])
def test_without_a_descriptor_peers_are_turned_away_and_the_listener_lives(
    loop_of: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accept, "PAUSE_SECONDS", 0.001)

    async def act() -> None:
        seen: list[Greeter] = []
        listening = socket.create_server(("127.0.0.1", 0), backlog=16)
        listening.setblocking(False)
        acceptor = Poor(listening, lambda: Greeter(seen))
        answers = []
        for _ in range(5):
            client = socket.create_connection(listening.getsockname())
            client.setblocking(False)
            answers.append(await asyncio.get_running_loop().sock_recv(client, 10))
            client.close()
        assert answers == [b"", b"", b"", b"hello", b"hello"]
        assert (acceptor.turned_away, acceptor.rests) == (3, 3), "one try each: no busy loop"
        acceptor.close()

    run(loop_of, act())
