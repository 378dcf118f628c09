"""Workload clients: they speak the protocol over the simulated network, and write down what they did and saw.

A client survives its broker: it reconnects and retries with backoff until told to give up. Retrying is what makes a
history interesting - acknowledgements get lost, and idempotence has to hold.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from moldau.client.connection import BrokerConnection, connect
from moldau.client.failures import AnswerTimedOut, NoBrokerAnswers
from moldau.model.errors import ErrorCode
from moldau.model.failures import PeerGone
from moldau.model.ids import NO_TOPIC_ID
from moldau.wire.apis import ApiKey
from moldau.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from moldau.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from moldau.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.wire.messages.init_producer_id import InitProducerIdRequest
from moldau.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

from .history import DeleteRecords, Marks, Partition, TopicChange
from .network import SimulatedTransport
from .world import World

EARLIEST, LATEST = -2, -1
GONE = (PeerGone, NoBrokerAnswers, AnswerTimedOut)


class GaveUp(Exception):
    """A client retried until its deadline and nothing answered as it should."""


def split_tp(tp: str) -> tuple[str, int]:
    topic, _dash, partition = tp.rpartition("-")
    return topic, int(partition)


class Dialler:
    """A connection that is made anew whenever it is needed and gone."""

    def __init__(self, world: World, name: str, address: tuple[str, int]) -> None:
        self.world = world
        self.name = name
        self.address = address
        self.process, self.network = world.client_process(name)
        self.chance = world.chance(f"client/{name}")
        self.timeout_s = 5.0
        self._connection: BrokerConnection | None = None
        self.topic_ids: dict[str, bytes] = {}

    async def connection(self) -> BrokerConnection:
        if self._connection is None or not self._connection.is_open:
            host, port = self.address
            self._connection = await connect(self.network, host, port, client_id=self.name, timeout_s=self.timeout_s)
        return self._connection

    def hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def request(
        self, key: ApiKey, message: Any, *, newest: int | None = None, timeout_s: float | None = None
    ) -> Any:
        """One try. Whatever went wrong, the connection is not used again: an answer may still come on it."""
        connection = await self.connection()
        try:
            return await connection.request(key, message, timeout_s=timeout_s or self.timeout_s, newest=newest)
        except GONE:
            self.hang_up()
            raise

    async def hold_back(self, seconds: float) -> None:
        """Let everything sent on the present connection from now on arrive late."""
        transport = (await self.connection())._transport
        assert isinstance(transport, SimulatedTransport)
        self.world.fabric.hold_back(transport, seconds)

    async def pause(self) -> None:
        await asyncio.sleep(self.chance.uniform(0.02, 0.2))

    async def topic_id(self, topic: str) -> bytes:
        """For versions that name topics by id. Zero when the broker does not know the topic (yet)."""
        found = self.topic_ids.get(topic)
        if found is None:
            wanted = MetadataRequestTopic(name=topic)
            response = await self.request(
                ApiKey.METADATA, MetadataRequest(topics=[wanted], allow_auto_topic_creation=False)
            )
            found = response.topics[0].topic_id
            if found != NO_TOPIC_ID:
                self.topic_ids[topic] = found
        return found


class Admin(Dialler):
    """Creates and deletes topics and records, asks for offsets."""

    async def until_ok(
        self, key: ApiKey, message: Any, error_of: Any, *, fine: Sequence[int] = (), within_s: float = 60
    ) -> Any:
        """Retry until the answer carries no error; also `fine` ones count as done."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        last: Any = None
        while loop.time() < deadline:
            try:
                response = await self.request(key, message)
                last = ErrorCode(error_of(response)).name
                if error_of(response) == 0 or error_of(response) in fine:
                    return response
            except GONE as failure:
                last = failure
            await self.pause()
        raise GaveUp(f"{ApiKey(key).name} not done after {within_s} s, last: {last}")

    async def create_topic(self, name: str, partitions: int, configs: Mapping[str, str], promise: Partition) -> bool:
        """Create with retries; an answer may be lost, so TOPIC_ALREADY_EXISTS on a retry means done."""
        for index in range(partitions):
            tp = f"{name}-{index}"
            self.world.history.partitions[tp] = Partition(
                tp,
                promise.compact,
                promise.retention,
                promise.tombstones_go,
                promise.lossy,
                transactional=promise.transactional,
            )
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        change = self._change(name, "create")
        request = CreateTopicsRequest(topics=[topic], timeout_ms=5000)
        await self.until_ok(
            ApiKey.CREATE_TOPICS,
            request,
            lambda response: response.topics[0].error_code,
            fine=[ErrorCode.TOPIC_ALREADY_EXISTS],
        )
        self._changed(change)
        return True

    async def delete_topic(self, name: str) -> None:
        change = self._change(name, "delete")
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], topic_names=[name], timeout_ms=5000)
        await self.until_ok(
            ApiKey.DELETE_TOPICS,
            request,
            lambda response: response.responses[0].error_code,
            fine=[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        )
        self._changed(change)

    def _change(self, name: str, what: str) -> TopicChange:
        change = TopicChange(name, what, self.world.loop.time())
        self.world.history.topics.append(change)
        return change

    def _changed(self, change: TopicChange) -> None:
        change.outcome, change.t_end = "ok", self.world.loop.time()

    async def delete_records(self, tp: str, offset: int) -> int | None:
        """One try; None when in doubt or refused."""
        topic, index = split_tp(tp)
        history = self.world.history
        event = DeleteRecords(tp, offset, self.world.loop.time())
        history.deletes.append(event)
        part = DeleteRecordsPartition(partition_index=index, offset=offset)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[part])], timeout_ms=5000)
        try:
            response = await self.request(ApiKey.DELETE_RECORDS, request)
        except GONE:
            return None
        row = response.topics[0].partitions[0]
        event.t_end = self.world.loop.time()
        event.incarnation = history.incarnation
        if row.error_code != 0:
            event.outcome = "info"
            return None
        event.outcome, event.low_watermark = "ok", row.low_watermark
        return int(row.low_watermark)

    async def offset(self, tp: str, which: int, *, within_s: float = 60, committed_only: bool = False) -> int:
        """The earliest or latest offset, or the last stable one; noted as a mark."""
        topic, index = split_tp(tp)
        history = self.world.history
        t_begin = self.world.loop.time()
        part = ListOffsetsPartition(partition_index=index, timestamp=which)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(committed_only),
            topics=[ListOffsetsTopic(name=topic, partitions=[part])],
        )
        response = await self.until_ok(
            ApiKey.LIST_OFFSETS,
            request,
            lambda response: response.topics[0].partitions[0].error_code,
            within_s=within_s,
        )
        offset = int(response.topics[0].partitions[0].offset)
        marks = Marks(tp, t_begin, self.world.loop.time(), incarnation=history.incarnation)
        if which == EARLIEST:
            marks.start_offset = offset
        elif committed_only:
            marks.last_stable_offset = offset
        else:
            marks.high_watermark = offset
        history.marks.append(marks)
        return offset

    async def new_producer_id(self) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        response = await self.until_ok(ApiKey.INIT_PRODUCER_ID, request, lambda response: response.error_code)
        return int(response.producer_id), int(response.producer_epoch)
