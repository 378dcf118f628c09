"""A reply's place in the order of one connection. Compiled."""

from __future__ import annotations

from typing import Any

from mypy_extensions import i64

from moldau.server.context import RequestContext
from moldau.server.parking import Parked
from moldau.server.router import Route


class PendingReply:
    """Until its answer is there."""

    def __init__(self, connection: Any, route: Route, context: RequestContext) -> None:
        self.connection: Any = connection
        self.route = route
        self.context = context
        self.ready: bool = False
        self.result: Any = None
        self.parked: Parked | None = None
        self.request: Any = None
        """Kept only for a coroutine that may fail: the refusal is made from it."""
        self.reserved_bytes: i64 = 0
        self.buffer: memoryview | None = None
        """Where the request lies that a coroutine works on."""
        self.holds: bool = False
        """A coroutine: what follows waits for it."""

    def deliver(self, result: Any) -> None:
        if not self.ready:
            self.ready = True
            self.result = result
            self.parked = None
            self.connection.reply_ready(self)
