"""A simulated network: in-memory stream connections with latency, segmentation, resets and partitions.

One `Fabric` joins all hosts; `SimulatedNetwork` is one process's port on it. Bytes travel in two one-way pipes per
connection. A pipe keeps order, splits writes where chance says, holds back while the receiver has paused reading,
and tells the sender to pause when too much is under way - so protocols meet every boundary they would meet on TCP.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .process import Process
from .trace import Trace

ANY_HOST = ("", "0.0.0.0", "::")


@dataclass(slots=True)
class Weather:
    """What the network is like. Times in seconds."""

    latency_min: float = 0.0001
    latency_max: float = 0.002
    split_probability: float = 0.1
    split_parts_max: int = 5
    stall_probability: float = 0.0
    stall_seconds_max: float = 0.0


class Fabric:
    """The wires between hosts, and the listening sockets."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, chance: random.Random, trace: Trace, weather: Weather | None = None
    ) -> None:
        self.loop = loop
        self.chance = chance
        self.trace = trace
        self.weather = weather or Weather()
        self.effects: Counter[str] = Counter()
        self.listeners: dict[tuple[str, int], SimulatedListener] = {}
        self.links: list[Link] = []
        self._cut: set[tuple[str, str]] = set()
        self._port = 30_000
        self._writes_left: dict[Process, tuple[int, Callable[[], None]]] = {}

    def free_port(self) -> int:
        self._port += 1
        return self._port

    def after_writes(self, process: Process, count: int, callback: Callable[[], None]) -> None:
        """Call `callback` the moment that `process` has put this many more writes on the wire."""
        self._writes_left[process] = (count, callback)

    def wrote(self, process: Process) -> None:
        if process in self._writes_left:
            count, callback = self._writes_left.pop(process)
            if count > 1:
                self._writes_left[process] = (count - 1, callback)
            else:
                callback()
                process.check_alive()

    def partition(self, one: str, other: str, *, both_ways: bool = True) -> None:
        """Bytes from `one` no longer reach `other`. They are held, as TCP holds them, until `heal`."""
        self._cut.add((one, other))
        if both_ways:
            self._cut.add((other, one))
        self.effects["partition"] += 1
        self.trace.add(f"network cut {one} {other} both={both_ways}")

    def heal(self) -> None:
        self._cut.clear()
        self.trace.add("network healed")
        for link in list(self.links):
            link.pump_both()

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cut

    def reset_some(self, probability: float) -> int:
        """Break live connections, as a middlebox does; both ends learn of it."""
        broken = [link for link in self.links if self.chance.random() < probability]
        for link in broken:
            link.reset()
        if broken:
            self.effects["connection reset"] += len(broken)
        return len(broken)

    def hold_back(self, transport: SimulatedTransport, seconds: float) -> None:
        """What is written on one end of a connection from now on arrives late, though everything else is on time: a
        client that gives up waiting and goes on elsewhere is followed by its own past."""
        transport.hold_back(seconds)
        self.effects["delayed frame"] += 1
        self.trace.add(f"network holds {transport.local} back for {seconds:.3f} s")

    def latency(self) -> float:
        weather = self.weather
        seconds = self.chance.uniform(weather.latency_min, weather.latency_max)
        if weather.stall_probability and self.chance.random() < weather.stall_probability:
            self.effects["stall"] += 1
            seconds += self.chance.uniform(0, weather.stall_seconds_max)
        return seconds


class SimulatedListener:
    """A bound, listening socket of one process."""

    def __init__(self, fabric: Fabric, process: Process, host: str, port: int, factory: Callable[[], Any]) -> None:
        self.host = host
        self.port = port
        self.process = process
        self.factory = factory
        self._fabric = fabric

    async def close(self) -> None:
        self._fabric.listeners.pop((self.host, self.port), None)


class SimulatedNetwork:
    """The `Network` port of one process on one host."""

    def __init__(self, fabric: Fabric, process: Process, host: str) -> None:
        self._fabric = fabric
        self._process = process
        self._host = host

    def room(self) -> int:
        return 2**31 - 1

    async def listen(self, host: str, port: int, factory: Callable[[], Any]) -> SimulatedListener:
        self._process.check_alive()
        fabric = self._fabric
        bound_host = self._host if host in ANY_HOST else host
        bound_port = port or fabric.free_port()
        if (bound_host, bound_port) in fabric.listeners:
            raise OSError(98, f"address {bound_host}:{bound_port} already in use (simulated)")
        listener = SimulatedListener(fabric, self._process, bound_host, bound_port, factory)
        fabric.listeners[bound_host, bound_port] = listener
        self._process.at_death(lambda: _forget(fabric, listener))
        return listener

    async def connect(self, host: str, port: int, factory: Callable[[], Any]) -> tuple[asyncio.Transport, Any]:
        self._process.check_alive()
        fabric = self._fabric
        await asyncio.sleep(fabric.latency())
        while fabric.is_cut(self._host, host) or fabric.is_cut(host, self._host):  # noqa: ASYNC110
            await asyncio.sleep(1.0)  # retransmissions of the handshake, until the caller gives up
        listener = fabric.listeners.get((host, port))
        if listener is None or not listener.process.alive:
            raise ConnectionRefusedError(f"{host}:{port} refused the connection (simulated)")
        link = Link(fabric, self._process, self._host, listener)
        protocol = factory()
        accepted = listener.process.run(listener.factory)
        link.open(protocol, accepted)
        await asyncio.sleep(fabric.latency())
        return link.client, protocol


def _forget(fabric: Fabric, listener: SimulatedListener) -> None:
    if fabric.listeners.get((listener.host, listener.port)) is listener:
        del fabric.listeners[listener.host, listener.port]


class Link:
    """One connection: two transports and the pipes between them."""

    def __init__(self, fabric: Fabric, dialler: Process, dialler_host: str, listener: SimulatedListener) -> None:
        self.fabric = fabric
        dialled = (listener.host, listener.port)
        local = (dialler_host, fabric.free_port())
        self.client = SimulatedTransport(self, dialler, local, dialled)
        self.server = SimulatedTransport(self, listener.process, dialled, local)
        self.client.peer, self.server.peer = self.server, self.client
        fabric.links.append(self)

    def open(self, client_protocol: Any, server_protocol: Any) -> None:
        self.client.begin(client_protocol)
        self.server.begin(server_protocol)

    def pump_both(self) -> None:
        """Let what was held go on, each way on the turn of the process it arrives at."""
        self.server.call_soon(self.client.pump)
        self.client.call_soon(self.server.pump)

    def reset(self) -> None:
        self.fabric.trace.add(f"network reset {self.client.local} {self.server.local}")
        for end in (self.client, self.server):
            end.lose(ConnectionResetError("connection reset by peer (simulated)"))

    def ended(self) -> None:
        if self.client.is_lost and self.server.is_lost and self in self.fabric.links:
            self.fabric.links.remove(self)


class SimulatedTransport(asyncio.Transport):
    """One end of a connection. What it writes waits in `outgoing` until the peer has read it."""

    peer: SimulatedTransport

    def __init__(self, link: Link, process: Process, local: tuple[str, int], remote: tuple[str, int]) -> None:
        super().__init__({"peername": remote, "sockname": local, "socket": None})
        self.local = local
        self.remote = remote
        self.process = process
        self.is_lost = False
        self._link = link
        self._loop = link.fabric.loop
        self._protocol: Any = None
        self._buffered = False
        self._reading = True
        self._closing = False
        self._eof_sent = False
        self._incoming: list[bytes] = []
        self._incoming_eof = False
        self._wire: list[tuple[float, bytes | None]] = []
        self._wire_head = 0
        self._arrival_last = 0.0
        self._under_way_bytes = 0
        self._high, self._low = 64 * 1024, 16 * 1024
        self._writing_paused = False
        process.at_death(self._process_died)

    # -- beginning and end ---------------------------------------------------------------------------------------

    def begin(self, protocol: Any) -> None:
        self.set_protocol(protocol)
        self.call_soon(self._connection_made)

    def _connection_made(self) -> None:
        if not self.is_lost:
            self._protocol.connection_made(self)

    def call_soon(self, callback: Callable[..., None], *arguments: Any) -> None:
        self._loop.call_soon(callback, *arguments, context=self.process.context.copy())

    def _call_at(self, when: float, callback: Callable[..., None], *arguments: Any) -> None:
        self._loop.call_at(when, callback, *arguments, context=self.process.context.copy())

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol
        has_both = hasattr(protocol, "get_buffer") and hasattr(protocol, "data_received")
        # A protocol that can do both is tried both ways, a connection at a time.
        self._buffered = self._link.fabric.chance.random() < 0.5 if has_both else hasattr(protocol, "get_buffer")

    def get_protocol(self) -> Any:
        return self._protocol

    def is_closing(self) -> bool:
        return self._closing or self.is_lost

    def close(self) -> None:
        """Send what is written, then the end."""
        if self._closing or self.is_lost:
            return
        self._closing = True
        self._send_eof()
        self.call_soon(self.lose, None)

    def abort(self) -> None:
        self._closing = True
        self._discard_unsent()
        self.peer.lose_later(ConnectionResetError("connection reset by peer (simulated)"))
        self.call_soon(self.lose, None)

    def lose(self, error: Exception | None) -> None:
        """This end is gone; tell its protocol, once, on its own turn."""
        if self.is_lost:
            return
        self.is_lost = True
        self._incoming.clear()
        self._link.ended()
        if self._protocol is not None:
            self.call_soon(self._protocol.connection_lost, error)

    def lose_later(self, error: Exception | None) -> None:
        if not self.is_lost:
            self._call_at(self._loop.time() + self._link.fabric.latency(), self.lose, error)

    def _process_died(self) -> None:
        """The kernel closes a dead process's sockets: what it wrote still arrives, then the end (or a reset when it
        had not read everything)."""
        if self.is_lost:
            return
        self.is_lost = True
        self._link.ended()
        if self._incoming:
            self.peer.lose_later(ConnectionResetError("connection reset by peer (simulated)"))
        else:
            self._send_eof()

    # -- writing -------------------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_lost or self._eof_sent or not data:
            return
        self.process.check_alive()
        self._under_way_bytes += len(data)
        for part in self._split(bytes(data)):
            self._put(part)
        if self._under_way_bytes > self._high and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()
        self._link.fabric.wrote(self.process)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        self._send_eof()

    def can_write_eof(self) -> bool:
        return True

    def _split(self, data: bytes) -> list[bytes]:
        chance, weather = self._link.fabric.chance, self._link.fabric.weather
        if len(data) < 2 or chance.random() >= weather.split_probability:
            return [data]
        cuts = sorted(chance.randrange(1, len(data)) for _ in range(chance.randrange(1, weather.split_parts_max)))
        edges = [0, *cuts, len(data)]
        return [data[start:end] for start, end in itertools.pairwise(edges) if start < end]

    def _send_eof(self) -> None:
        if not self._eof_sent:
            self._eof_sent = True
            self._put(None)

    def _put(self, part: bytes | None) -> None:
        """Onto the wire: arrives after a latency, never before what was sent earlier."""
        self._arrival_last = max(self._arrival_last, self._loop.time() + self._link.fabric.latency())
        self._wire.append((self._arrival_last, part))
        # The arrival happens at the peer, whatever becomes of the sender's process.
        self.peer._call_at(self._arrival_last, self.pump)

    def hold_back(self, seconds: float) -> None:
        self._arrival_last = max(self._arrival_last, self._loop.time() + seconds)

    def _discard_unsent(self) -> None:
        self._wire.clear()
        self._wire_head = 0

    def pump(self) -> None:
        """Move what has arrived from the wire to the peer."""
        if self._link.fabric.is_cut(self.local[0], self.remote[0]):
            return
        now = self._loop.time()
        while self._wire_head < len(self._wire) and self._wire[self._wire_head][0] <= now:
            part = self._wire[self._wire_head][1]
            self._wire_head += 1
            if part is None:
                self.peer.receive_eof()
            else:
                self.peer.receive(part)
        if self._wire_head == len(self._wire):
            self._discard_unsent()

    def taken(self, size_bytes: int) -> None:
        """The peer read this much; perhaps the writer may go on."""
        self._under_way_bytes -= size_bytes
        if self._writing_paused and self._under_way_bytes <= self._low and not self.is_lost:
            self._writing_paused = False
            self.call_soon(self._protocol.resume_writing)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        return self._under_way_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    # -- reading -------------------------------------------------------------------------------------------------

    def receive(self, part: bytes) -> None:
        if self.is_lost or not self.process.alive:
            # Data for a socket that is gone: the kernel answers with a reset.
            self.peer.lose_later(ConnectionResetError("connection reset by peer (simulated)"))
            return
        self._incoming.append(part)
        self._deliver()

    def receive_eof(self) -> None:
        self._incoming_eof = True
        self._deliver()

    def _deliver(self) -> None:
        while self._reading and self._incoming and not self.is_lost and not self._closing:
            part = self._incoming.pop(0)
            self.peer.taken(len(part))
            if self._buffered:
                self._fill_buffer(part)
            else:
                self._protocol.data_received(part)
        if self._reading and self._incoming_eof and not self._incoming and not self.is_lost:
            self._incoming_eof = False
            keep_open = self._protocol.eof_received()
            if not keep_open:
                self.close()

    def _fill_buffer(self, part: bytes) -> None:
        """Hand over a part through `get_buffer`; a pause in the middle keeps the rest."""
        position = 0
        while position < len(part):
            if not self._reading or self.is_lost:
                self._incoming.insert(0, part[position:])
                return
            buffer = memoryview(self._protocol.get_buffer(len(part) - position)).cast("B")
            size_bytes = min(len(buffer), len(part) - position)
            buffer[:size_bytes] = part[position : position + size_bytes]
            position += size_bytes
            self._protocol.buffer_updated(size_bytes)

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            self.call_soon(self._deliver)

    def is_reading(self) -> bool:
        return self._reading
