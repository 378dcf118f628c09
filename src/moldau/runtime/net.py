"""The real network: listening and dialling on the running loop (uvloop where it is installed, asyncio otherwise)."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any

BACKLOG = 1024


class RealListener:
    """A bound, listening socket. `port` is the real one when 0 was asked for."""

    def __init__(self, server: asyncio.AbstractServer, host: str, port: int) -> None:
        self._server = server
        self.host = host
        self.port = port

    async def close(self) -> None:
        """Stop accepting. Connections that exist are their owner's to close: since Python 3.12 `wait_closed` waits
        for them, so it is not awaited here."""
        self._server.close()


class RealNetwork:
    """`Network` on sockets."""

    async def listen(self, host: str, port: int, factory: Callable[[], Any]) -> RealListener:
        """Bind and listen. An empty host means every interface. A name with several addresses binds all of them."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(factory, host or None, port, backlog=BACKLOG, reuse_address=True)
        bound: Any = server.sockets[0].getsockname()
        if port == 0 and len(server.sockets) > 1:
            # Each address family got a port of its own; one port must serve all, so bind the others to the first.
            server.close()
            server = await loop.create_server(factory, host or None, bound[1], backlog=BACKLOG, reuse_address=True)
        for listening in server.sockets:
            # Accepted sockets inherit it: a client that vanished without a word is noticed in the end, as in Kafka.
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return RealListener(server, host, int(bound[1]))

    async def connect(self, host: str, port: int, factory: Callable[[], Any]) -> tuple[asyncio.Transport, Any]:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_connection(factory, host, port)
        raw = transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return transport, protocol


def new_event_loop() -> asyncio.AbstractEventLoop:
    """The fastest loop there is here."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def port_is_free(host: str, port: int) -> bool:
    """Whether a listener could be bound there now, on every address that the host name stands for."""
    try:
        addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        return False
    for family, kind, protocol, _name, address in addresses:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
        except OSError as failure:
            if failure.errno == errno.EADDRINUSE:
                return False
    return True


def resolves(host: str) -> bool:
    """Whether this machine knows an address for a host name."""
    try:
        return bool(socket.getaddrinfo(host, None))
    except OSError:
        return False
