"""The real network: listening and dialling on the running loop (uvloop where it is installed, asyncio otherwise)."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any

from moldau.runtime.accept import Acceptor
from moldau.runtime.file_limit import HUNGER, current_shares

BACKLOG = 1024


class RealListener:
    """Bound, listening sockets. `port` is the real one when 0 was asked for."""

    def __init__(self, acceptors: list[Acceptor], host: str, port: int) -> None:
        self._acceptors = acceptors
        self.host = host
        self.port = port

    async def close(self) -> None:
        """Stop accepting. Connections that exist are their owner's to close."""
        for acceptor in self._acceptors:
            acceptor.close()


class RealNetwork:
    """`Network` on sockets."""

    async def listen(self, host: str, port: int, factory: Callable[[], Any]) -> RealListener:
        """Bind and listen. An empty host means every interface. A name with several addresses binds all of them."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        sockets: list[socket.socket] = []
        try:
            for family, address in dict.fromkeys((one[0], one[4]) for one in found):
                # With port 0 the system chooses one for the first address, and the others get the same.
                chosen = int(sockets[0].getsockname()[1]) if sockets else port
                opened = _listening_socket(family, (address[0], chosen, *address[2:]))
                if opened is not None:
                    sockets.append(opened)
            if not sockets:
                raise OSError(errno.EADDRNOTAVAIL, f"no address of {host or 'this machine'} can be listened on")
        except BaseException:
            for one in sockets:
                one.close()
            raise
        bound = int(sockets[0].getsockname()[1])
        return RealListener([Acceptor(one, factory) for one in sockets], host, bound)

    def room(self) -> int:
        """How many connections may be open at once: the rest of the descriptors is for files."""
        return current_shares().connections

    async def connect(self, host: str, port: int, factory: Callable[[], Any]) -> tuple[asyncio.Transport, Any]:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_connection(factory, host, port)
        raw = transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return transport, protocol


def _listening_socket(family: int, address: tuple[Any, ...]) -> socket.socket | None:
    """None where the machine does not know the address family."""
    try:
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as problem:
        if problem.errno in HUNGER:
            raise
        return None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets inherit it: a client that vanished without a word is noticed in the end, as in Kafka.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.setblocking(False)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as problem:
        listening.close()
        reason = (problem.strerror or str(problem)).lower()
        raise OSError(problem.errno, f"error while attempting to bind on address {address!r}: {reason}") from problem
    return listening


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
