"""Bytes that clients and tools read: the transaction log, and records in old versions of Fetch. Every case holds for
Kafka 4.3, too."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from moldau.records.builder import BatchBuilder
from moldau.records.compression import ZSTD
from moldau.wire.apis import ApiKey
from moldau.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.messages.transaction_log_record import TransactionLogValue, decode_transaction_log_value
from moldau.wire.primitives import Reader
from tests.integration.protocol.wire import ANSWER_SECONDS_MAX, Wire, until

TRANSACTION_LOG = "__transaction_state"
COMPLETE_COMMIT = 4


def stored(bootstrap: str, transactional_id: str) -> list[TransactionLogValue]:
    """Every value of the transactional id, up to its first completed commit."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    partitions = consumer.list_topics(TRANSACTION_LOG, ANSWER_SECONDS_MAX).topics[TRANSACTION_LOG].partitions
    consumer.assign([TopicPartition(TRANSACTION_LOG, index, 0) for index in partitions])
    found: list[TransactionLogValue] = []
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    while not found or found[-1].transaction_status != COMPLETE_COMMIT:
        assert time.monotonic() < deadline, found
        message = consumer.poll(0.2)
        if message is not None and message.error() is None and transactional_id.encode() in (message.key() or b""):
            reader = Reader(message.value())
            found.append(decode_transaction_log_value(reader, int(reader.i16())))
    consumer.close()
    return found


def test_the_transaction_log_names_the_producer_before_each_change(
    bootstrap: str, topic: str, unique: Callable[[], str]
) -> None:
    transactional_id = unique()
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
    producer.init_transactions(ANSWER_SECONDS_MAX)
    producer.begin_transaction()
    producer.produce(topic, b"value")
    producer.commit_transaction(ANSWER_SECONDS_MAX)
    values = stored(bootstrap, transactional_id)
    assert len(values) == 4
    assert {value.previous_producer_id for value in values} == {values[0].producer_id}


@pytest.mark.parametrize("setting", ["zstd", "producer"])
@pytest.mark.parametrize("version", [4, 9, 10, 12])
def test_records_in_zstd_are_served_to_old_versions_as_they_lie(
    wire: Wire, unique: Callable[[], str], setting: str, version: int
) -> None:
    """Kafka 3 refused them below version 10; Kafka 4.3 does not look."""
    name = unique()
    config = CreatableTopicConfig(name="compression.type", value=setting)
    wanted = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=[config])
    wire.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[wanted], timeout_ms=9000))
    builder = BatchBuilder(codec=ZSTD)
    builder.append(None, b"v" * 500, (), int(time.time() * 1000))
    data = [PartitionProduceData(index=0, records=builder.build())]
    sent = ProduceRequest(acks=-1, timeout_ms=9000, topic_data=[TopicProduceData(name=name, partition_data=data)])
    until(lambda: wire.ask(ApiKey.PRODUCE, 9, sent).responses[0].partition_responses[0].error_code == 0)
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    asked = FetchRequest(
        max_bytes=1 << 20, min_bytes=1, session_epoch=-1, topics=[FetchTopic(topic=name, partitions=[part])]
    )
    found = wire.ask(ApiKey.FETCH, version, asked).responses[0].partitions[0]
    assert found.error_code == 0
    assert len(found.records) > 60
