"""A cluster seen from outside: bootstrap, brokers, leaders, and requests sent to whoever must answer them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from moldau.client.connection import BrokerConnection, connect
from moldau.client.failures import AnswerTimedOut, BrokerRefused, NoBrokerAnswers, UnknownPartition
from moldau.model.errors import RETRIABLE, ErrorCode
from moldau.model.failures import PeerGone
from moldau.model.ids import NO_TOPIC_ID, TopicPartition
from moldau.ports import Network
from moldau.wire.apis import ApiKey
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    node_id: int
    host: str
    port: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionView:
    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicView:
    name: str
    topic_id: bytes
    internal: bool
    partitions: tuple[PartitionView, ...]

    @property
    def is_reserved(self) -> bool:
        """Somebody's own bookkeeping: what the broker calls internal, and names that begin with two underscores."""
        return self.internal or self.name.startswith("__")


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """`a:9092,b,[::1]:9093` -> hosts and ports; the port defaults to 9092. ValueError says what is wrong."""
    addresses = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        host, separator, port = part.rpartition(":")
        if part.startswith("[") and part.endswith("]"):
            host, separator, port = part, "", ""
        if not separator:
            host, port = host or part, "9092"
        if not port.isdigit() or not 0 < int(port) < 65536:
            why = ": ports end at 65535" if port.isdigit() and int(port) else ""
            raise ValueError(f"'{part}' is not HOST:PORT{why}")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise ValueError("no address given")
    return addresses


class Cluster:
    """Use as `async with Cluster(...) as cluster`."""

    def __init__(
        self, network: Network, bootstrap: str, *, client_id: str = "moldau-cli", timeout_s: float = 10.0
    ) -> None:
        self.bootstrap = bootstrap
        self.brokers: dict[int, BrokerAddress] = {}
        self.topics: dict[str, TopicView] = {}
        self.controller_id = -1
        self.cluster_id: str | None = None
        self.timeout_s = timeout_s
        self._network = network
        self._client_id = client_id
        self._addresses = parse_bootstrap(bootstrap)
        self._connections: dict[int, BrokerConnection] = {}
        self._connecting: dict[int, asyncio.Lock] = {}
        """Callers that need the same broker at the same time share one connection."""
        self._seed: BrokerConnection | None = None

    async def __aenter__(self) -> Cluster:
        self._seed = await self._bootstrap()
        return self

    async def __aexit__(self, *_: object) -> None:
        connections = [*self._connections.values(), *([self._seed] if self._seed else [])]
        for connection in connections:
            connection.close()
        for connection in connections:
            await connection.closed

    # -- who answers -------------------------------------------------------------------------------------------

    async def any_broker(self) -> BrokerConnection:
        if self._seed is None or not self._seed.is_open:
            self._seed = await self._bootstrap()
        return self._seed

    async def broker(self, node_id: int) -> BrokerConnection:
        connection = self._connections.get(node_id)
        if connection is not None and connection.is_open:
            return connection
        if node_id not in self.brokers:
            await self.refresh([])
        address = self.brokers.get(node_id)
        if address is None:
            raise BrokerRefused(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id} is not in the cluster's metadata")
        async with self._connecting.setdefault(node_id, asyncio.Lock()):
            connection = self._connections.get(node_id)
            if connection is None or not connection.is_open:
                connection = await connect(
                    self._network, address.host, address.port, client_id=self._client_id, timeout_s=self.timeout_s
                )
                self._connections[node_id] = connection
        return connection

    async def controller(self) -> BrokerConnection:
        if self.controller_id < 0:
            await self.refresh([])
        return await self.broker(self.controller_id)

    async def leader(self, partition: TopicPartition) -> BrokerConnection:
        view = await self.partition(partition)
        if view.leader < 0:
            raise BrokerRefused(ErrorCode.LEADER_NOT_AVAILABLE, subject=str(partition))
        return await self.broker(view.leader)

    # -- what is known -----------------------------------------------------------------------------------------

    async def refresh(self, topics: Sequence[str] | None, *, auto_create: bool = False) -> None:
        """Ask for these topics (None: all of them, an empty list: only the brokers)."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=auto_create)
        connection = await self.any_broker()
        response: MetadataResponse = await connection.request(ApiKey.METADATA, request, timeout_s=self.timeout_s)
        self.brokers = {
            row.node_id: BrokerAddress(row.node_id, row.host, row.port, row.rack) for row in response.brokers
        }
        self.controller_id = response.controller_id
        self.cluster_id = response.cluster_id
        for row in response.topics:
            if row.name is None:
                continue
            self.topics.pop(row.name, None)
            if row.error_code == 0:
                self.topics[row.name] = _topic_view(row)
            elif topics is not None and row.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                code = ErrorCode(row.error_code)
                if code not in RETRIABLE:
                    raise BrokerRefused(code, subject=row.name)

    async def topic(self, name: str, *, auto_create: bool = False) -> TopicView:
        """The topic's view, asking the cluster if it is not known yet. UNKNOWN_TOPIC_OR_PARTITION if it has none."""
        for pause_s in (0.0, 0.05, 0.2, 0.5, 1.0):
            if name in self.topics and all(p.leader >= 0 for p in self.topics[name].partitions):
                return self.topics[name]
            await asyncio.sleep(pause_s)
            await self.refresh([name], auto_create=auto_create)
            if name not in self.topics and not auto_create:
                break
        if name in self.topics:
            return self.topics[name]
        raise BrokerRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, subject=name)

    async def partition(self, partition: TopicPartition) -> PartitionView:
        topic = await self.topic(partition.topic)
        if not 0 <= partition.partition < len(topic.partitions):
            raise UnknownPartition(partition, len(topic.partitions))
        return topic.partitions[partition.partition]

    async def partitions(self, topic: str, only: Collection[int] = ()) -> list[TopicPartition]:
        """All partitions of a topic, or these alone. UNKNOWN_TOPIC_OR_PARTITION if one of them is not there."""
        wanted = sorted(set(only)) or range(len((await self.topic(topic)).partitions))
        return [TopicPartition(topic, (await self.partition(TopicPartition(topic, index))).index) for index in wanted]

    async def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Group partitions by the broker that leads them."""
        groups: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            view = await self.partition(partition)
            groups.setdefault(view.leader, []).append(partition)
        return groups

    async def retrying(self, topics: Sequence[str], attempt: Callable[[], Awaitable[T]], *, tries: int = 8) -> T:
        """Run `attempt`; on an error that goes away by itself refresh the metadata and run it again."""
        pause_s = 0.05
        for left in range(tries - 1, -1, -1):
            try:
                return await attempt()
            except (BrokerRefused, PeerGone, NoBrokerAnswers) as failure:
                final = isinstance(failure, BrokerRefused) and failure.code not in RETRIABLE
                unknown = isinstance(failure, BrokerRefused) and failure.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if final or left == 0 or (unknown and left < tries - 3):
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(1.0, pause_s * 2)
            for name in topics:
                self.topics.pop(name, None)
            await self.refresh(topics)
        raise AssertionError("unreachable")

    # -- inside ------------------------------------------------------------------------------------------------

    async def _bootstrap(self) -> BrokerConnection:
        reasons = []
        for host, port in self._addresses:
            try:
                return await connect(self._network, host, port, client_id=self._client_id, timeout_s=self.timeout_s)
            except (NoBrokerAnswers, AnswerTimedOut) as failure:
                reasons.append(str(failure))
        raise NoBrokerAnswers(self.bootstrap, "; ".join(reasons))


def _topic_view(row: Any) -> TopicView:
    partitions = sorted(
        (
            PartitionView(
                index=p.partition_index,
                leader=p.leader_id,
                leader_epoch=p.leader_epoch,
                replicas=tuple(p.replica_nodes),
                isr=tuple(p.isr_nodes),
                offline=tuple(p.offline_replicas),
            )
            for p in row.partitions
        ),
        key=lambda view: view.index,
    )
    return TopicView(row.name, row.topic_id or NO_TOPIC_ID, row.is_internal, tuple(partitions))


def group_by_topic(partitions: Mapping[TopicPartition, T]) -> dict[str, dict[int, T]]:
    """{(t, p): x} -> {t: {p: x}}, the nesting that most requests want."""
    grouped: dict[str, dict[int, T]] = {}
    for partition, value in partitions.items():
        grouped.setdefault(partition.topic, {})[partition.partition] = value
    return grouped
