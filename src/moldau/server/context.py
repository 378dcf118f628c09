"""What a handler knows about the request besides its body.

Compiled: one `RequestContext` is made per request. Facts that belong to the connection live once, in `Peer`.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i32, i64

from moldau.server.services import Services
from moldau.storage.flush_set import Flushable

ANONYMOUS: Final = "User:ANONYMOUS"
"""Kafka's principal for a client on a listener without authentication."""


class _Numbers:
    """Of connections, in the order they were opened."""

    def __init__(self) -> None:
        self.newest = 0

    def take(self) -> int:
        self.newest += 1
        return self.newest


_NUMBERS: Final = _Numbers()


def newest_connection() -> int:
    """The number of the connection opened last."""
    return _NUMBERS.newest


class Peer:
    """One client connection as handlers see it. The connection fills it; ApiVersions adds the software name."""

    def __init__(
        self,
        services: Services,
        *,
        listener: str = "PLAINTEXT",
        peer_host: str = "",
        dialled_host: str = "",
        dialled_port: int = 0,
        principal: str = ANONYMOUS,
        inter_broker: bool = False,
    ) -> None:
        self.services = services
        self.number: int = _NUMBERS.take()
        """Of two connections the newer has the larger one."""
        self.listener = listener
        """The listener's name, upper case as Kafka writes it."""
        self.peer_host = peer_host
        self.dialled_host = dialled_host
        """The local address the client reached us at (getsockname)."""
        self.dialled_port = dialled_port
        self.principal = principal
        self.touched: list[Flushable] = []
        """Logs this connection appended to since the last tick: its replies depend on their flush."""
        self.software_name = ""
        self.software_version = ""
        self.inter_broker = inter_broker
        """True only on the authenticated broker listener of a cluster: only there is a replica id believed
        (CVE-2018-1288: a client that may act as a follower can lose other people's data)."""


class RequestContext:
    """One request. `api_version` is for the codec; handlers use it only where Kafka's behaviour depends on it."""

    def __init__(
        self,
        peer: Peer,
        api_key: i64,
        api_version: i64,
        correlation_id: i32,
        client_id: str | None,
        received_ms: i64,
    ) -> None:
        self.peer = peer
        self.services = peer.services
        self.api_key: i64 = api_key
        self.api_version: i64 = api_version
        self.correlation_id: i32 = correlation_id
        self.client_id = client_id
        self.received_ms: i64 = received_ms
        """Wall clock when the request's bytes arrived: `now_ms` for what the handler does at once."""

    @property
    def listener(self) -> str:
        return self.peer.listener

    @property
    def peer_host(self) -> str:
        return self.peer.peer_host

    @property
    def dialled_host(self) -> str:
        return self.peer.dialled_host

    @property
    def dialled_port(self) -> int:
        return self.peer.dialled_port

    @property
    def principal(self) -> str:
        return self.peer.principal

    def advertised(self) -> tuple[str, int]:
        """Host and port at which this client should reach this node: `advertised.listeners` when set for the
        listener, else the address it dialled. For Metadata, DescribeCluster and FindCoordinator."""
        return self.services.listeners.advertised(self.listener, self.dialled_host, self.dialled_port)
