"""The server: its listeners, its connections, its end. Built by `node/compose.py`."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from moldau.ports import Listener, Network
from moldau.runtime.tasks import TaskScope
from moldau.server.connection import Connection
from moldau.server.context import Peer
from moldau.server.door import Door
from moldau.server.hub import Hub
from moldau.server.limits import Census, ServerLimits
from moldau.server.listeners import Endpoint, ListenerProblem, Listeners, ListenerSpec
from moldau.server.router import Router
from moldau.server.services import Services
from moldau.storage.flush_set import FlushSet

SWEEP_MS_MIN: Final = 50
SWEEP_MS_MAX: Final = 10_000
DRAIN_SECONDS: Final = 5.0
LAST_WORDS_SECONDS: Final = 1.0
"""How long connections of a listener that was taken away are left open."""

log = logging.getLogger("moldau.server")


class Server:
    """Accepts connections on every listener and hands their requests to the handlers."""

    def __init__(
        self,
        services: Services,
        *,
        network: Network,
        listeners: Listeners,
        flush_set: FlushSet,
        limits: ServerLimits | None = None,
        router: Router | None = None,
    ) -> None:
        self.services = services
        self.network = network
        self.listeners = listeners
        self.limits = limits or ServerLimits()
        self.router = router or Router()
        loop = asyncio.get_running_loop()
        services.parking.start(loop)
        self.hub = Hub(services, flush_set, self.limits.in_flight_bytes_max, loop)
        self.census = Census(self.limits, network.room())
        self.tasks = TaskScope("requests")
        self.doors: list[Door] = []
        self._sockets: dict[Door, Listener] = {}
        self._moving = asyncio.Lock()
        self._sweeper: Any = None

    async def start(self) -> None:
        """Listen everywhere, or nowhere: a listener that cannot be bound undoes the others."""
        try:
            for spec in self.listeners.specs:
                await self._listen(spec)
        except BaseException:
            await self.stop()
            raise
        self._schedule_sweep()

    async def stop(self) -> None:
        """Stop accepting, end what waits, close every connection after its answered replies are written."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for socket in self._sockets.values():
            await socket.close()
        self._sockets.clear()
        await self.tasks.close()
        self.services.aside.close()
        self.hub.watch.close()
        self.hub.tick()
        for door in self.doors:
            door.close()
        self.services.parking.close()
        await self._all_left()

    def update_limits(self, limits: ServerLimits) -> None:
        """Dynamic settings changed (`max.connections` and its kin). Who is inside stays; the next ones are counted."""
        self.limits = limits
        self.census.limits = limits
        self.hub.request_budget.bytes_max = limits.in_flight_bytes_max
        for door in self.doors:
            door.set_limits(limits)

    async def relisten(self) -> None:
        """The listeners were configured anew: close what is no longer wanted, open what is new. One that cannot be
        opened is told and left out, as the others must go on."""
        async with self._moving:
            wanted = self.listeners.specs
            for door in [door for door in self._sockets if door.spec not in wanted]:
                await self._stop_listening(door)
            open_now = [door.spec for door in self._sockets]
            for spec in wanted:
                if spec in open_now:
                    continue
                try:
                    await self._listen(spec)
                except (OSError, ListenerProblem) as problem:
                    log.error("the listener %s cannot be opened: %s", spec.endpoint, problem)
                else:
                    log.info("listens on %s, too", self.listeners.bound[spec.name])

    async def _stop_listening(self, door: Door) -> None:
        """Who came in by it may still get the answers under way, that to this very change among them."""
        await self._sockets.pop(door).close()
        self.listeners.bound.pop(door.spec.name, None)
        self.doors = [other for other in self.doors if other.open or other in self._sockets]
        self.hub.loop.call_later(LAST_WORDS_SECONDS, door.close)
        log.info("no longer listens on %s", door.spec.endpoint)

    def new_connection(self, door: Door) -> Connection:
        return Connection(self.hub, self.router, Peer(self.services, listener=door.spec.name), door)

    async def _listen(self, spec: ListenerSpec) -> None:
        if spec.security_protocol != "PLAINTEXT":
            # Fail closed: never serve in clear what was asked to be protected.
            raise ListenerProblem(
                f"listeners: {spec.endpoint} asks for {spec.security_protocol}, which this version does not offer yet; "
                "use a PLAINTEXT listener on a trusted network"
            )
        door = Door(self.hub, self.limits, self.census, spec, self.tasks)
        socket = await self.network.listen(spec.endpoint.host, spec.endpoint.port, lambda: self.new_connection(door))
        self._sockets[door] = socket
        self.doors.append(door)
        self.listeners.bound[spec.name] = Endpoint(spec.name, spec.endpoint.host or socket.host, socket.port)

    async def _all_left(self) -> None:
        """Transports close on the loop's next turns, a slow reader's never: wait, but not for ever."""
        if self.census.total == 0:
            return
        empty = asyncio.Event()
        self.census.on_empty = empty.set
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await empty.wait()
        except TimeoutError:
            for door in self.doors:
                door.abort()

    def _schedule_sweep(self) -> None:
        if self.limits.idle_ms_max < 0:
            return
        every_ms = min(max(self.limits.idle_ms_max // 10, SWEEP_MS_MIN), SWEEP_MS_MAX)
        self._sweeper = self.hub.loop.call_later(every_ms / 1000.0, self._sweep)

    def _sweep(self) -> None:
        for door in self.doors:
            door.sweep()
        self.hub.watch.sweep()
        self._schedule_sweep()
