"""Accepting connections, a few at a time.

The loops' own servers take whatever the backlog holds at one go, before anyone can say that there are too many; when
that runs the process out of descriptors, uvloop closes the listener for good. Here the next ones are taken only after
the last were shown to their protocol, and where no descriptor is left, one that was kept for this turns them away.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from typing import Any, Final

from moldau.runtime.file_limit import HUNGER

AT_ONCE: Final = 16
PAUSE_SECONDS: Final = 0.1
"""How long nobody is accepted after the system had no descriptor: it would say the same at once."""

LET_IN_SECONDS: Final = 5.0

log = logging.getLogger("moldau.server")


class Acceptor:
    """One listening socket. `factory` makes the protocol of a connection, as for `loop.create_server`."""

    def __init__(self, listening: socket.socket, factory: Callable[[], Any]) -> None:
        self._listening = listening
        self._factory = factory
        self._loop = asyncio.get_running_loop()
        self._under_way: set[asyncio.Task[None]] = set()
        self._reading = False
        self._closed = False
        self._told = False
        self._spare = _spare_descriptor()
        self._resume()

    def close(self) -> None:
        self._closed = True
        self._pause()
        self._listening.close()
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1

    def _resume(self) -> None:
        if not self._reading and not self._closed:
            self._reading = True
            self._loop.add_reader(self._listening.fileno(), self._accept_some)

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._listening.fileno())

    def _accept_some(self) -> None:
        while len(self._under_way) < AT_ONCE:
            try:
                accepted, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(error)
                return
            self._begin(accepted)
        self._pause()  # until one of them is through

    def _begin(self, accepted: socket.socket) -> None:
        task = self._loop.create_task(self._open(accepted), name="accept")
        self._under_way.add(task)
        task.add_done_callback(self._began)

    async def _open(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:  # it has left already
            accepted.close()
            return
        try:
            async with asyncio.timeout(LET_IN_SECONDS):  # uvloop tells nobody when the protocol fails
                transport, _ = await self._loop.connect_accepted_socket(self._factory, accepted)
        except (OSError, TimeoutError):
            is_closed = True
        else:
            is_closed = transport.is_closing()
        if is_closed and not isinstance(self._loop, asyncio.SelectorEventLoop):
            # uvloop's transport closes the descriptor by itself; its number may be another's by now.
            accepted.detach()

    def _began(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        self._resume()
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("a connection could not be let in", exc_info=problem)

    def _rest(self, error: OSError) -> None:
        if error.errno in HUNGER:
            self._turn_one_away()
        if not self._told:
            self._told = True
            log.warning("connections are refused for now: %s; may this process open more files?", error.strerror)
        self._pause()
        self._loop.call_later(PAUSE_SECONDS, self._resume)

    def _turn_one_away(self) -> None:
        """Somebody who is told no can go elsewhere; who waits in the backlog can not."""
        if self._spare < 0:
            self._spare = _spare_descriptor()
            return
        os.close(self._spare)
        self._spare = -1
        try:
            self._listening.accept()[0].close()
        except OSError:
            return
        finally:
            self._spare = _spare_descriptor()


def _spare_descriptor() -> int:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1
