"""Where connections come in and leave: limits, sniffing, complaints, and the tasks of their coroutines.

Everything here is off the hot path, so it stays ordinary Python; `Connection` calls it by these few names.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Coroutine
from typing import Any

from moldau.model.checks import InvariantBroken
from moldau.runtime.tasks import TaskScope
from moldau.server import sniff
from moldau.server.faults import own_fault
from moldau.server.hub import Hub
from moldau.server.limits import CREATION_DELAY_MS_MAX, Census, ServerLimits
from moldau.server.listeners import ListenerSpec
from moldau.server.replies import Drop

log = logging.getLogger("moldau.server")


class Door:
    """One per listener. `open` is every living connection of the listener, in arrival order."""

    def __init__(self, hub: Hub, limits: ServerLimits, census: Census, spec: ListenerSpec, tasks: TaskScope) -> None:
        self.hub = hub
        self.census = census
        self.spec = spec
        self.tasks = tasks
        self.open: dict[Any, None] = {}
        self.authenticated = not spec.authenticates
        self.set_limits(limits)

    def set_limits(self, limits: ServerLimits) -> None:
        self.limits = limits
        self.frame_bytes_max = (
            limits.request_bytes_max
            if self.authenticated
            else min(limits.request_bytes_max, limits.unauthenticated_request_bytes_max)
        )

    def opened(self, connection: Any, transport: Any) -> int:
        """Note who came and through which address. Returns ms to wait before reading, or -1 to turn it away."""
        peer = connection.peer
        peername = transport.get_extra_info("peername") or ("", 0)
        sockname = transport.get_extra_info("sockname") or ("", 0)
        peer.peer_host, peer.dialled_host, peer.dialled_port = str(peername[0]), str(sockname[0]), int(sockname[1])
        problem = self.census.admit(peer.peer_host)
        if problem is not None:
            self.hub.complain(peer.peer_host, problem)
            return -1
        self.open[connection] = None
        log.debug("%s:%s connected to %s, %d are", peername[0], peername[1], self.spec.name, len(self.open))
        its_socket = transport.get_extra_info("socket")
        if its_socket is not None and self.limits.send_buffer_bytes > 0:
            its_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.limits.send_buffer_bytes)
        now_ms = self.hub.loop.time() * 1000.0
        connection.idle_since_ms = int(now_ms)
        delay = self.census.delay_ms(now_ms)
        if delay > CREATION_DELAY_MS_MAX:
            self.left(connection)
            self.hub.complain(peer.peer_host, "connections come faster than max.connection.creation.rate")
            return -1
        return int(delay)

    def left(self, connection: Any) -> None:
        if connection in self.open:
            del self.open[connection]
            log.debug("a connection from %s ended, %d are left", connection.peer.peer_host, len(self.open))
            self.census.leave(connection.peer.peer_host)

    def bad_size(self, connection: Any, head: bytes, size: int) -> None:
        """A frame that announces a size nobody would send: not Kafka at all, or broken."""
        peer = connection.peer
        if sniff.is_http(head):
            self.hub.complain(peer.peer_host, "it speaks HTTP; this is the Kafka port, and it was told so")
            host, port = self.hub.services.listeners.advertised(peer.listener, peer.dialled_host, peer.dialled_port)
            connection.write_bytes(sniff.http_page(host, port))
            connection.close()
            return
        if sniff.is_tls(head):
            self.bad_peer(connection, sniff.TLS_WORDS)
            return
        allowed = connection.frame_bytes_max
        self.bad_peer(connection, f"it announces a request of {size} bytes, and {allowed} are allowed")

    def bad_peer(self, connection: Any, text: str) -> None:
        """Bytes that violate the protocol: answer what was asked before, then close."""
        self.hub.complain(connection.peer.peer_host, text)
        connection.close()

    def drop(self, connection: Any, reason: str) -> None:
        """An error where the protocol has no answer (acks=0): closing tells the client, as in Kafka."""
        self.hub.complaints.tell(connection.peer.peer_host, reason, logging.INFO)
        connection.close()

    def run(self, reply: Any, work: Coroutine[Any, Any, Any]) -> None:
        """Run a handler's coroutine; its result takes its place among the replies."""
        self.tasks.start(self._run(reply, work), name=reply.route.name)

    async def _run(self, reply: Any, work: Coroutine[Any, Any, Any]) -> None:
        try:
            result = await work
        except asyncio.CancelledError:
            raise
        except InvariantBroken as error:
            self.broken(reply.connection, error)
            return
        except Exception as error:
            result = own_fault(self.hub, reply.route, reply.request, reply.context, error)
        reply.connection.coroutine_done(reply, result)

    def failed(self, reply: Any, error: Exception) -> Any:
        """What a parked answer that failed is answered with."""
        if isinstance(error, InvariantBroken):
            self.broken(reply.connection, error)
            return Drop("an invariant is broken")
        return own_fault(self.hub, reply.route, None, reply.context, error)

    def broken(self, connection: Any, error: InvariantBroken) -> None:
        """A bug that leaves the node in doubt: stop it rather than go on (`model.checks`)."""
        log.critical("an invariant is broken; this node stops", exc_info=error)
        connection.drop("an invariant is broken")
        if self.hub.on_bug is not None:
            self.hub.on_bug(error)

    def sweep(self) -> None:
        """Close connections that have been silent, or stuck in half a request, for too long."""
        now_ms = int(self.hub.loop.time() * 1000.0)
        limit = self.limits.idle_ms_max
        if limit < 0:
            return
        for connection in list(self.open):
            active = connection.active
            connection.active = False
            if connection.pending:
                connection.idle_since_ms = now_ms
                continue
            moved = connection.requests != connection.requests_swept
            connection.requests_swept = connection.requests
            # A peer that drips bytes of one request is active but gets nowhere; only requests count then.
            if moved or (active and not connection.has_partial_frame()):
                connection.idle_since_ms = now_ms
            if now_ms - connection.idle_since_ms >= limit:
                connection.close()

    def abort(self) -> None:
        """Cut off whoever has not taken its last replies."""
        for connection in list(self.open):
            if connection.transport is not None:
                connection.transport.abort()

    def close(self) -> None:
        for connection in list(self.open):
            connection.close()
