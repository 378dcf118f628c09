"""A transactional producer without any cleverness: each call is one frame in a chosen version, each answer is told as
it is. What a real client never does (repeat, delay, reorder, lie about its epoch) is a line here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from moldau.client.connection import BrokerConnection, connect
from moldau.model.errors import ErrorCode
from moldau.records.builder import BatchBuilder
from moldau.runtime.net import RealNetwork
from moldau.wire.apis import ApiKey
from moldau.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from moldau.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.wire.messages.describe_transactions import DescribeTransactionsRequest
from moldau.wire.messages.end_txn import EndTxnRequest
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from moldau.wire.messages.init_producer_id import InitProducerIdRequest
from moldau.wire.messages.list_transactions import ListTransactionsRequest
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

T = TypeVar("T")
ANSWER_WITHIN_S = 60.0


class WireClient:
    """Synchronous, for tests that read as a list of calls. One connection; `close` it."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.split(",")[0].rsplit(":", 1)
        self._loop = asyncio.new_event_loop()
        self._topic_ids: dict[str, bytes] = {}
        self.connection: BrokerConnection = self.run(
            connect(RealNetwork(), host, int(port), client_id="wire-client", timeout_s=ANSWER_WITHIN_S)
        )

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        self.connection.close()
        self.run(asyncio.sleep(0))
        self._loop.close()

    def ask(self, key: ApiKey, message: Any, version: int) -> Any:
        return self.run(self.connection.request(key, message, timeout_s=ANSWER_WITHIN_S, newest=version))

    def until(self, true: Callable[[], bool]) -> None:
        deadline = self._loop.time() + ANSWER_WITHIN_S
        while not true():
            assert self._loop.time() < deadline, "waited in vain"
            self.run(asyncio.sleep(0.01))

    # -- around transactions -----------------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int = 1) -> None:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        response = self.ask(ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        assert response.topics[0].error_code == 0, response
        for partition in range(partitions):  # a created topic need not have leaders yet
            self.until(lambda index=partition: self.fetch(name, index, committed=False).error_code == 0)  # type: ignore[misc]

    def set_verification(self, *, on: bool) -> None:
        """`transaction.partition.verification.enable` of all brokers."""
        value = AlterableConfig(
            name="transaction.partition.verification.enable", config_operation=0, value="true" if on else "false"
        )
        resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[value])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        response = self.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, 1)
        assert response.responses[0].error_code == 0, response

    def find_coordinator(self, transactional_id: str) -> None:
        """Until there is one: its topic is made on first need."""
        request = FindCoordinatorRequest(key=transactional_id, key_type=1)
        self.until(lambda: self.ask(ApiKey.FIND_COORDINATOR, request, 3).error_code == 0)

    def find_group_coordinator(self, group: str) -> None:
        request = FindCoordinatorRequest(key=group)
        self.until(lambda: self.ask(ApiKey.FIND_COORDINATOR, request, 3).error_code == 0)

    def committed(self, group: str, topic: str, *, require_stable: bool = False) -> tuple[int, str]:
        """(offset, error) of partition 0, asked again while the coordinator loads."""
        asked = [OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
        request = OffsetFetchRequest(group_id=group, topics=asked, require_stable=require_stable)
        self.until(lambda: self.ask(ApiKey.OFFSET_FETCH, request, 7).error_code == 0)
        row = self.ask(ApiKey.OFFSET_FETCH, request, 7).topics[0].partitions[0]
        return row.committed_offset, name_of(row.error_code)

    def topic_id(self, name: str) -> bytes:
        if name not in self._topic_ids:
            request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
            self._topic_ids[name] = self.ask(ApiKey.METADATA, request, 12).topics[0].topic_id
        return self._topic_ids[name]

    def fetch(self, topic: str, partition: int, *, committed: bool) -> Any:
        """The partition's whole answer, from offset 0."""
        asked = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            isolation_level=int(committed),
            topics=[FetchTopic(topic=topic, partitions=[asked])],
        )
        return self.ask(ApiKey.FETCH, request, 11).responses[0].partitions[0]

    # -- the calls of a transactional producer -----------------------------------------------------------------------

    def init(
        self,
        transactional_id: str | None,
        *,
        timeout_ms: int = 60_000,
        producer_id: int = -1,
        epoch: int = -1,
        version: int = 5,
    ) -> tuple[str, int, int]:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        response = self.ask(ApiKey.INIT_PRODUCER_ID, request, version)
        return name_of(response.error_code), response.producer_id, response.producer_epoch

    def keep(self, transactional_id: str, *, two_phase: bool = True) -> tuple[str, tuple[int, int], tuple[int, int]]:
        """(error, who may end the open transaction, who wrote it), as whoever comes to end it (KIP-939)."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=60_000,
            enable2_pc=two_phase,
            keep_prepared_txn=True,
        )
        row = self.ask(ApiKey.INIT_PRODUCER_ID, request, 6)
        return (
            name_of(row.error_code),
            (row.producer_id, row.producer_epoch),
            (row.ongoing_txn_producer_id, row.ongoing_txn_producer_epoch),
        )

    def begin(self, transactional_id: str, *, version: int = 5, timeout_ms: int = 60_000) -> tuple[int, int]:
        """Init until it is let in, as a client does."""
        self.find_coordinator(transactional_id)
        while True:
            error, producer_id, epoch = self.init(transactional_id, version=version, timeout_ms=timeout_ms)
            if error == "NONE":
                return producer_id, epoch
            assert error in ("CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"), error
            self.run(asyncio.sleep(0.02))  # as a client backs off

    def add(
        self, transactional_id: str, producer_id: int, epoch: int, *keys: tuple[str, int], version: int = 3
    ) -> list[str]:
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=[partition]) for topic, partition in keys]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics,
        )
        response = self.ask(ApiKey.ADD_PARTITIONS_TO_TXN, request, version)
        return _partition_errors(response.results_by_topic_v3_and_below, keys)

    def verify(
        self, transactional_id: str, producer_id: int, epoch: int, *keys: tuple[str, int], version: int = 4
    ) -> list[str]:
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=[partition]) for topic, partition in keys]
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            verify_only=True,
            topics=topics,
        )
        response = self.ask(
            ApiKey.ADD_PARTITIONS_TO_TXN, AddPartitionsToTxnRequest(transactions=[transaction]), version
        )
        return _partition_errors(response.results_by_transaction[0].topic_results, keys)

    def add_offsets(self, transactional_id: str, producer_id: int, epoch: int, group: str, *, version: int = 3) -> str:
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, group_id=group
        )
        return name_of(self.ask(ApiKey.ADD_OFFSETS_TO_TXN, request, version).error_code)

    def end(
        self, transactional_id: str, producer_id: int, epoch: int, *, commit: bool, version: int = 4
    ) -> tuple[str, int, int]:
        request = EndTxnRequest(
            transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=commit
        )
        response = self.ask(ApiKey.END_TXN, request, version)
        return name_of(response.error_code), response.producer_id, response.producer_epoch

    def produce(
        self,
        transactional_id: str | None,
        producer_id: int,
        epoch: int,
        sequence: int,
        *keys: tuple[str, int],
        version: int = 11,
        values: Sequence[str] = ("x",),
    ) -> list[str]:
        """One batch of `values` to each partition."""
        by_topic: dict[str, TopicProduceData] = {}
        for topic, partition in keys:
            topic_id = self.topic_id(topic) if version >= 13 else bytes(16)
            data = by_topic.setdefault(topic, TopicProduceData(name=topic, topic_id=topic_id))
            records = batch(producer_id, epoch, sequence, values)
            data.partition_data.append(PartitionProduceData(index=partition, records=records))
        request = ProduceRequest(
            transactional_id=transactional_id, acks=-1, timeout_ms=5_000, topic_data=list(by_topic.values())
        )
        response = self.ask(ApiKey.PRODUCE, request, version)
        names = {topic.topic_id: name for name, topic in by_topic.items()}
        found = {
            (topic.name or names[topic.topic_id], row.index): name_of(row.error_code)
            for topic in response.responses
            for row in topic.partition_responses
        }
        return [found[key] for key in keys]

    def produce_until_let_in(self, *arguments: Any, version: int = 12) -> list[str]:
        """As a client does: the transaction before may still be being completed."""
        while (answer := self.produce(*arguments, version=version)) == ["CONCURRENT_TRANSACTIONS"] * len(answer):
            self.run(asyncio.sleep(0.02))
        return answer

    def commit_offset(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        group: str,
        topic: str,
        offset: int,
        *,
        generation: int = -1,
        member_id: str = "",
        version: int = 4,
    ) -> str:
        row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="m")
        request = TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=group,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=generation,
            member_id=member_id,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[row])],
        )
        response = self.ask(ApiKey.TXN_OFFSET_COMMIT, request, version)
        return name_of(response.topics[0].partitions[0].error_code)

    def write_marker(
        self,
        producer_id: int,
        epoch: int,
        key: tuple[str, int],
        *,
        commit: bool = False,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
        version: int = 2,
    ) -> str:
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch,
            transaction_result=commit,
            coordinator_epoch=coordinator_epoch,
            transaction_version=transaction_version,
            topics=[WritableTxnMarkerTopic(name=key[0], partition_indexes=[key[1]])],
        )
        response = self.ask(ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest(markers=[marker]), version)
        return name_of(response.markers[0].topics[0].partitions[0].error_code)

    # -- looking -----------------------------------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> Any:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        return self.ask(ApiKey.DESCRIBE_TRANSACTIONS, request, 0).transaction_states[0]

    def state(self, transactional_id: str) -> str:
        return str(self.describe(transactional_id).transaction_state)

    def wait_until(self, transactional_id: str, state: str) -> None:
        self.until(lambda: self.state(transactional_id) == state)

    def list(self, *, version: int = 2, **filters: Any) -> Any:
        return self.ask(ApiKey.LIST_TRANSACTIONS, ListTransactionsRequest(**filters), version)


def batch(producer_id: int, epoch: int, sequence: int, values: Sequence[str]) -> bytes:
    builder = BatchBuilder(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True)
    for value in values:
        builder.append(None, value.encode(), (), 1_000)
    return builder.build()


def name_of(code: int) -> str:
    return ErrorCode(int(code)).name


def _partition_errors(results: Any, keys: Sequence[tuple[str, int]]) -> list[str]:
    found = {
        (topic.name, row.partition_index): name_of(row.partition_error_code)
        for topic in results
        for row in topic.results_by_partition
    }
    return [found[key] for key in keys]
