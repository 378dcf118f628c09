"""What a client that is neither Spark's nor ours writes and sees."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

READ_SECONDS_MAX = 60.0


class Seen(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]


def create(bootstrap: str, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))])[topic].result(30)


def delete(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.delete_topics([topic])[topic].result(30)


def trim(bootstrap: str, topic: str, partition: int, before: int) -> None:
    """Remove what lies before an offset, as retention does."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for done in admin.delete_records([TopicPartition(topic, partition, before)]).values():
        done.result(30)


def grow(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)


def send(bootstrap: str, topic: str, records: Iterable[dict[str, Any]], **settings: Any) -> None:
    """Each record: the keyword arguments of `Producer.produce`."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0, **settings})
    for record in records:
        producer.produce(topic, **record)
        producer.poll(0)
    assert producer.flush(60) == 0


def transaction(bootstrap: str, name: str, topic: str, values: Iterable[bytes], timestamp_ms: int = 0) -> Producer:
    """An open transaction with these values; the caller ends it. Time 0 means now."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, timestamp=timestamp_ms)
    assert producer.flush(30) == 0
    return producer


def read_all(bootstrap: str, topic: str, partitions: int = 1, isolation: str = "read_committed") -> list[Seen]:
    """Everything up to the end, as this isolation level shows it."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found: list[Seen] = []
    ended: set[int] = set()
    deadline = time.monotonic() + READ_SECONDS_MAX
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"{topic} was not read to its end"
        for message in consumer.consume(1000, timeout=0.5):
            error, number, offset = message.error(), message.partition(), message.offset()
            assert number is not None
            if error is None:
                assert offset is not None
                headers = tuple((key, value) for key, value in message.headers() or [])
                found.append(Seen(number, offset, message.key(), message.value(), message.timestamp()[1], headers))  # type: ignore[arg-type]
            elif error.name() == "_PARTITION_EOF":
                ended.add(number)
    consumer.close()
    return sorted(found, key=lambda seen: (seen.partition, seen.offset))
