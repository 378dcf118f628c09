"""What connections may cost: how many, how fast, how large, how long idle. Kafka's keys and defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.config.listeners import parse_connection_overrides
from moldau.model.limits import REQUEST_BYTES_MAX, REQUEST_BYTES_MAX_UNAUTHENTICATED

NO_LIMIT: Final = 2**31 - 1
IN_FLIGHT_BYTES_DEFAULT: Final = 192 * 1024 * 1024
"""The budget while `queued.max.request.bytes` is -1. Beyond it reading waits; without it a handful of half-sent 100 MiB
requests could take all memory."""

CREATION_DELAY_MS_MAX: Final = 1000
"""A connection over the creation rate waits this long at most; one that would have to wait longer is closed."""


SEND_BUFFER_BYTES_UNSET: Final = 256 * 1024
"""The kernel's buffer per connection while `socket.send.buffer.bytes` is not set. Measured, 8 consumers from the page
cache: 4.5 GB/s with Kafka's 100 KiB, 5.7 with this, 2.7 when left to the system, which lets it outgrow the CPU's cache.
A host may allow a little less (`net.core.wmem_max`)."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Resolved limits of one node."""

    connections_max: int = NO_LIMIT
    connections_per_ip_max: int = NO_LIMIT
    connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    connection_rate_max: int = NO_LIMIT
    idle_ms_max: int = 600_000
    request_bytes_max: int = REQUEST_BYTES_MAX
    unauthenticated_request_bytes_max: int = REQUEST_BYTES_MAX_UNAUTHENTICATED
    in_flight_bytes_max: int = IN_FLIGHT_BYTES_DEFAULT
    send_buffer_bytes: int = SEND_BUFFER_BYTES_UNSET

    @classmethod
    def from_settings(cls, settings: Any) -> ServerLimits:
        queued = int(settings.int("queued.max.request.bytes"))
        return cls(
            connections_max=int(settings.int("max.connections")),
            connections_per_ip_max=int(settings.int("max.connections.per.ip")),
            connections_per_ip_overrides=parse_connection_overrides(settings.str("max.connections.per.ip.overrides")),
            connection_rate_max=int(settings.int("max.connection.creation.rate")),
            idle_ms_max=int(settings.int("connections.max.idle.ms")),
            request_bytes_max=min(int(settings.int("socket.request.max.bytes")), REQUEST_BYTES_MAX),
            in_flight_bytes_max=queued if queued > 0 else IN_FLIGHT_BYTES_DEFAULT,
            send_buffer_bytes=_send_buffer_bytes(settings),
        )


def _send_buffer_bytes(settings: Any) -> int:
    """-1 leaves it to the system."""
    if not settings.is_set("socket.send.buffer.bytes"):
        return SEND_BUFFER_BYTES_UNSET
    return int(settings.int("socket.send.buffer.bytes"))


class Census:
    """Counts living connections and decides who may come in."""

    def __init__(self, limits: ServerLimits, room: int = NO_LIMIT) -> None:
        self.limits = limits
        self.room = room
        """What the process's limit of open files leaves for connections, after storage has its share."""
        self.total = 0
        self.by_ip: dict[str, int] = {}
        self.refused_total = 0
        self.on_empty: Callable[[], None] | None = None
        self._next_slot_ms = 0.0

    def admit(self, host: str) -> str | None:
        """Count a connection in, or say why not."""
        limits = self.limits
        if self.total >= self.room:
            self.refused_total += 1
            return f"{self.total} connections are open, and the files need what is left of the limit (ulimit -n)"
        if self.total >= limits.connections_max:
            self.refused_total += 1
            return f"max.connections={limits.connections_max} is reached"
        here = self.by_ip.get(host, 0)
        allowed = limits.connections_per_ip_overrides.get(host, limits.connections_per_ip_max)
        if here >= allowed:
            self.refused_total += 1
            return f"{host} already has {here} connections, and max.connections.per.ip allows {allowed}"
        self.total += 1
        self.by_ip[host] = here + 1
        return None

    def leave(self, host: str) -> None:
        self.total -= 1
        left = self.by_ip.get(host, 0) - 1
        if left > 0:
            self.by_ip[host] = left
        else:
            self.by_ip.pop(host, None)
        if self.total == 0 and self.on_empty is not None:
            self.on_empty()

    def delay_ms(self, now_ms: float) -> float:
        """How long a new connection waits before it is read, to keep `max.connection.creation.rate`."""
        rate = self.limits.connection_rate_max
        if rate >= NO_LIMIT or rate <= 0:
            return 0.0
        # One second of arrivals may come at once, as in Kafka's quota window.
        earliest = max(self._next_slot_ms, now_ms - 1000.0)
        self._next_slot_ms = earliest + 1000.0 / rate
        return max(0.0, earliest - now_ms)
