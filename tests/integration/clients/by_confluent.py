"""confluent-kafka, which is librdkafka."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from tests.integration.clients.base import Client, Outgoing, Read, Refusal

TIMEOUT_S = 60.0
QUIET = {"log_level": 2}


def refusal(error: KafkaError) -> Refusal:
    return Refusal(error.code(), error.str())


def result(future: Any) -> Any:
    try:
        return future.result(TIMEOUT_S)
    except KafkaException as failure:
        raise refusal(failure.args[0]) from failure


class ConfluentClient(Client):
    name = "confluent-kafka"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})

    def create_topic(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        result(self._admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))])[topic])

    def delete_topic(self, topic: str) -> None:
        result(self._admin.delete_topics([topic])[topic])

    def grow_topic(self, topic: str, partitions: int) -> None:
        result(self._admin.create_partitions([NewPartitions(topic, partitions)])[topic])

    def topic_names(self) -> set[str]:
        return set(self._admin.list_topics(timeout=TIMEOUT_S).topics)

    def partition_count(self, topic: str) -> int:
        consumer = self._consumer()
        try:
            found = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
        finally:
            consumer.close()
        if found.error is not None:
            raise refusal(found.error)
        return len(found.partitions)

    def produce(
        self,
        topic: str,
        records: Sequence[Outgoing],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[int]:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "compression.type": codec,
                "acks": acks,
                "enable.idempotence": idempotent,
                "message.max.bytes": 10_000_000,  # so that it is the broker that refuses
                "topic.metadata.propagation.max.ms": 2000,
                "allow.auto.create.topics": False,
                "linger.ms": 5,
                "queue.buffering.max.messages": 1_000_000,
                **QUIET,
            }
        )
        offsets: list[int | None] = [None] * len(records)
        errors: list[KafkaError] = []

        def delivered(index: int) -> Any:
            def note(error: KafkaError | None, message: Message) -> None:
                if error is not None:
                    errors.append(error)
                else:
                    offset = message.offset()
                    offsets[index] = -1 if offset is None else offset

            return note

        for index, record in enumerate(records):
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                timestamp=record.timestamp_ms,
                headers=list(record.headers),
                on_delivery=delivered(index),
            )
            producer.poll(0)
        producer.flush(TIMEOUT_S)
        if errors:
            raise refusal(errors[0])
        assert all(offset is not None for offset in offsets), "some records were never acknowledged"
        return [offset for offset in offsets if offset is not None]

    def consume(self, topic: str, partition: int, start_offset: int, count: int) -> list[Read]:
        consumer = self._consumer()
        consumer.assign([TopicPartition(topic, partition, start_offset)])
        found: list[Read] = []
        deadline = time.monotonic() + TIMEOUT_S
        try:
            while len(found) < count and time.monotonic() < deadline:
                for message in consumer.consume(min(10_000, count - len(found)), timeout=1.0):
                    error = message.error()
                    if error is not None:
                        raise refusal(error)
                    found.append(as_read(message))
        finally:
            consumer.close()
        return found

    def offset_range(self, topic: str, partition: int) -> tuple[int, int]:
        consumer = self._consumer()
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT_S)
        finally:
            consumer.close()
        return low, high

    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        consumer = self._consumer()
        try:
            wanted = [TopicPartition(topic, partition, timestamp_ms)]
            (found,) = consumer.offsets_for_times(wanted, timeout=TIMEOUT_S)
        finally:
            consumer.close()
        return None if found.offset < 0 else int(found.offset)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        wanted = TopicPartition(topic, partition, before_offset)
        (answer,) = self._admin.delete_records([wanted]).values()
        low_watermark: int = result(answer).low_watermark
        return low_watermark

    def alter_topic_config(self, topic: str, key: str, value: str) -> None:
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        (answer,) = self._admin.incremental_alter_configs([resource]).values()
        result(answer)

    def topic_config(self, topic: str) -> dict[str, str | None]:
        (answer,) = self._admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]).values()
        return {name: entry.value for name, entry in result(answer).items()}

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "never-joined",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": False,
                "allow.auto.create.topics": False,
                **QUIET,
            }
        )


def as_read(message: Message) -> Read:
    offset, (_, timestamp_ms) = message.offset(), message.timestamp()
    assert offset is not None
    return Read(offset, message.key(), message.value(), timestamp_ms, tuple(message.headers() or ()))
