"""What an independent client (librdkafka) reads, and what the executor reads, as rows that can be compared."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import confluent_kafka
from confluent_kafka import admin

from moldau.spark.fetch.read import read_ranges
from moldau.spark.types import OffsetRange, ReadSettings

DEADLINE_S = 60.0


class Row(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]


class Log(NamedTuple):
    """All that a reader can see of a topic: rows by partition and offset, and the end of each partition."""

    rows: list[Row]
    ends: dict[int, int]

    def ranges(self, topic: str, *, step: int | None = None) -> list[OffsetRange]:
        """Everything, in one range for each partition or in ranges of `step` offsets."""
        found = []
        for partition, end in self.ends.items():
            for start in range(0, end, step or max(end, 1)):
                found.append(OffsetRange(topic, None, partition, start, min(end, start + (step or end))))
        return found


def independent(bootstrap: str, topic: str, *, read_committed: bool) -> Log:
    """Read a topic to its end with confluent-kafka."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": uuid.uuid4().hex,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        starts = [
            confluent_kafka.TopicPartition(topic, index, confluent_kafka.OFFSET_BEGINNING) for index in partitions
        ]
        consumer.assign(starts)
        rows, ends = [], {}
        deadline = time.monotonic() + DEADLINE_S
        while len(ends) < len(partitions):
            assert time.monotonic() < deadline, "the independent reader did not reach the end"
            message = consumer.poll(0.2)
            if message is None:
                continue
            failure = message.error()
            if failure is None:
                rows.append(_row(message))
            elif failure.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ends[message.partition()] = message.offset()
            else:
                raise AssertionError(failure)
        return Log(sorted(rows), ends)
    finally:
        consumer.close()


def _row(message: Any) -> Row:
    headers = tuple((name, value) for name, value in message.headers() or ())
    return Row(message.partition(), message.offset(), message.key(), message.value(), message.timestamp()[1], headers)


def batches(settings: ReadSettings, ranges: Sequence[OffsetRange]) -> list[Any]:
    found = list(read_ranges(settings, ranges))
    for batch in found:
        batch.validate(full=True)
    return found


def rows_of(found: Iterable[Any]) -> list[Row]:
    """Rows of batches that have all columns, headers too."""
    rows = []
    for batch in found:
        for row in batch.to_pylist():
            headers = tuple((entry["key"], entry["value"]) for entry in row["headers"] or ())
            timestamp_ms = round(row["timestamp"].timestamp() * 1000)
            rows.append(Row(row["partition"], row["offset"], row["key"], row["value"], timestamp_ms, headers))
    return sorted(rows)


def executed(bootstrap: str, ranges: Sequence[OffsetRange], *, read_committed: bool = True) -> list[Row]:
    settings = ReadSettings(bootstrap, read_committed=read_committed, headers=True)
    return rows_of(batches(settings, ranges))


def create_topic(bootstrap: str, topic: str, partitions: int = 1, **config: str) -> None:
    client = admin.AdminClient({"bootstrap.servers": bootstrap})
    settings = {name.replace("_", "."): value for name, value in config.items()}
    client.create_topics([admin.NewTopic(topic, partitions, 1, config=settings)])[topic].result(20)


def delete_topic(bootstrap: str, topic: str) -> None:
    client = admin.AdminClient({"bootstrap.servers": bootstrap})
    client.delete_topics([topic])[topic].result(20)


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    client = admin.AdminClient({"bootstrap.servers": bootstrap})
    place = confluent_kafka.TopicPartition(topic, 0, before)
    client.delete_records([place])[place].result(20)


def producer(bootstrap: str, **config: Any) -> Any:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    return confluent_kafka.Producer({"bootstrap.servers": bootstrap, "linger.ms": 1} | settings)


def produce(bootstrap: str, topic: str, values: Iterable[bytes | None], *, partition: int = 0, **config: Any) -> None:
    own = producer(bootstrap, **config)
    for value in values:
        own.produce(topic, value=value, partition=partition)
        own.poll(0)
    assert own.flush(20) == 0
