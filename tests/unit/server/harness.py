"""A node's server without a network: a loop stepped by hand, transports that remember, a real log on a real disk."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from moldau.broker.partition import Partition
from moldau.broker.partitions import PartitionTable
from moldau.config.settings import Settings
from moldau.core.log.settings import LogSettings
from moldau.records.builder import BatchBuilder
from moldau.runtime.disk import RealDisk
from moldau.runtime.entropy import SystemEntropy
from moldau.runtime.tasks import TaskScope
from moldau.server.connection import Connection
from moldau.server.context import Peer, RequestContext
from moldau.server.door import Door
from moldau.server.hub import Hub
from moldau.server.limits import Census, ServerLimits
from moldau.server.listeners import Endpoint, Listeners, ListenerSpec
from moldau.server.router import Router
from moldau.server.services import Services
from moldau.storage.directory import LogDirectory
from moldau.storage.flush_set import FlushSet
from moldau.storage.partition_log import PartitionLog
from moldau.storage.recovery import load_log
from moldau.wire.apis import ApiKey, decode_response, encode_request
from moldau.wire.headers import RequestHeader, decode_response_header, encode_request_header
from moldau.wire.message import Message
from moldau.wire.primitives import Reader, Writer

NOW_MS = 1_700_000_000_000


class StepLoop:
    """The few loop calls the server uses; time moves only when told."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._soon: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._timers: list[tuple[float, int, Timer]] = []
        self._count = 0

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[..., None], *arguments: Any) -> None:
        self._soon.append((callback, arguments))

    def call_at(self, when: float, callback: Callable[..., None], *arguments: Any) -> Timer:
        timer = Timer(callback, arguments)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, timer))
        return timer

    def call_later(self, delay: float, callback: Callable[..., None], *arguments: Any) -> Timer:
        return self.call_at(self.now + delay, callback, *arguments)

    def run(self) -> None:
        """Until nothing is left to do now."""
        while self._soon:
            turn, self._soon = self._soon, []
            for callback, arguments in turn:
                callback(*arguments)

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        self.run()
        while self._timers and self._timers[0][0] <= end:
            when, _, timer = heapq.heappop(self._timers)
            self.now = max(self.now, when)
            if not timer.cancelled:
                timer.callback(*timer.arguments)
            self.run()
        self.now = end


class Timer:
    def __init__(self, callback: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self.callback = callback
        self.arguments = arguments
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class RecordingTransport:
    """Remembers what was written; `read_paused` and the ends are visible."""

    def __init__(self, peer_host: str = "10.0.0.9", local: tuple[str, int] = ("127.0.0.1", 9092)) -> None:
        self.written = bytearray()
        self.writes = 0
        self.read_paused = False
        self.closed = False
        self.aborted = False
        self._peer = (peer_host, 55555)
        self._local = local

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": self._peer, "sockname": self._local}.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: Any) -> None:
        self.writes += 1
        self.written += data

    def writelines(self, parts: Sequence[Any]) -> None:
        self.writes += 1
        for part in parts:
            self.written += part

    def pause_reading(self) -> None:
        assert not self.read_paused
        self.read_paused = True

    def resume_reading(self) -> None:
        assert self.read_paused
        self.read_paused = False

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


class FixedClock:
    def __init__(self) -> None:
        self.ms = NOW_MS

    def wall_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def era(self) -> str:
        return ""


class Stage:
    """Everything a connection needs, on one disk directory."""

    def __init__(self, directory: Path, *, limits: ServerLimits | None = None, loop: Any = None) -> None:
        self.loop: Any = loop or StepLoop()
        self.clock = FixedClock()
        self.disk = RealDisk()
        self.flush_set = FlushSet()
        self.home = LogDirectory(str(directory))
        self.partitions = PartitionTable()
        self.listeners = Listeners([ListenerSpec(Endpoint("PLAINTEXT", "", 9092), "PLAINTEXT", None)])
        self.services = Services(
            clock=self.clock,
            entropy=SystemEntropy(),
            settings=Settings(),
            node_id=1,
            cluster_id="stage",
            partitions=self.partitions,
            listeners=self.listeners,
            disk=self.disk,
        )
        self.services.parking.start(self.loop)
        self.limits = limits or ServerLimits()
        self.hub = Hub(self.services, self.flush_set, self.limits.in_flight_bytes_max, self.loop)
        self.census = Census(self.limits)
        self.router = Router()
        self.door = Door(self.hub, self.limits, self.census, self.listeners.specs[0], TaskScope("test"))

    def topic(self, name: str, partitions: int = 1, settings: LogSettings | None = None) -> list[Partition]:
        """A topic led by this node; its id is its name, padded."""
        made = []
        for index in range(partitions):
            path = f"{self.home.path}/{name}-{index}"
            self.disk.make_dirs(path)
            log = PartitionLog(
                self.disk,
                self.home,
                path,
                name,
                index,
                topic_id(name),
                settings or LogSettings(),
                self.services.entropy.stream("log"),
                self.flush_set,
            )
            load_log(log, 0, 0, False, NOW_MS)
            partition = Partition(name, topic_id(name), index, log, 1, self.partitions.advances)
            partition.become_leader(0, (1,), (1,))
            self.partitions.add(partition)
            made.append(partition)
        return made

    def connect(self, transport: RecordingTransport | None = None) -> Client:
        return Client(self, transport or RecordingTransport())

    def context(self, key: ApiKey, version: int, client_id: str | None = "test") -> RequestContext:
        peer = Peer(self.services, dialled_host="127.0.0.1", dialled_port=9092)
        return RequestContext(peer, int(key), version, 1, client_id, NOW_MS)


class Client:
    """The other end of one connection."""

    def __init__(self, stage: Stage, transport: RecordingTransport) -> None:
        self.stage = stage
        self.transport = transport
        self.connection = Connection(stage.hub, stage.router, Peer(stage.services), stage.door)
        self.connection.connection_made(transport)
        self.asked: list[tuple[int, ApiKey, int]] = []

    def frame(self, key: ApiKey, version: int, message: Message, *, expect_reply: bool = True) -> bytes:
        correlation_id = len(self.asked) + 1
        if expect_reply:
            self.asked.append((correlation_id, key, version))
        return request_frame(key, version, message, correlation_id)

    def send(self, data: bytes) -> None:
        self.connection.data_received(data)

    def ask(self, key: ApiKey, version: int, message: Message) -> None:
        self.send(self.frame(key, version, message))
        self.stage.loop.run()

    def replies(self) -> list[Any]:
        """Decode every whole reply so far, in order, checking that they answer what was asked."""
        found = []
        data = bytes(self.transport.written)
        position = 0
        while position < len(data):
            size = int.from_bytes(data[position : position + 4], "big")
            assert position + 4 + size <= len(data), "half a reply was written"
            reader = Reader(data[position + 4 : position + 4 + size])
            expected, key, version = self.asked[len(found)]
            assert decode_response_header(reader, int(key), version) == expected
            found.append(decode_response(int(key), version, reader))
            assert reader.remaining == 0
            position += 4 + size
        return found

    def call(self, key: ApiKey, version: int, message: Message) -> Any:
        """Ask and return the one new reply."""
        before = len(self.replies())
        self.ask(key, version, message)
        replies = self.replies()
        assert len(replies) == before + 1, "no reply"
        return replies[-1]


def request_frame(
    key: ApiKey, version: int, message: Message, correlation_id: int, client_id: str | None = "test"
) -> bytes:
    writer = Writer()
    mark = writer.begin_frame()
    header = RequestHeader(api_key=int(key), api_version=version, correlation_id=correlation_id, client_id=client_id)
    encode_request_header(header, writer)
    encode_request(int(key), version, message, writer)
    writer.end_frame(mark)
    return writer.take_bytes()


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\x01")[:16]


def batch(
    values: Sequence[bytes] = (b"v",), *, key: bytes | None = None, timestamp: int = NOW_MS, **options: Any
) -> bytes:
    builder = BatchBuilder(**options)
    for value in values:
        builder.append(key, value, (), timestamp)
    return builder.build()
