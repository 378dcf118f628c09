"""What an ordinary client sees of a topic, and what is still open: the view from outside that tests compare with."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic


@dataclass(frozen=True)
class Seen:
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]


def make_topic(bootstrap: str, name: str, partitions: int = 1, **config: str) -> str:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    futures = admin.create_topics([NewTopic(name, partitions, config=settings)])
    futures[name].result(timeout=60)
    return name


def read_all(bootstrap: str, topic: str, *, committed: bool = True, timeout_s: float = 120) -> list[Seen]:
    """Every visible record, by partition and offset. An open transaction hides what comes after it."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
        }
    )
    try:
        found = consumer.list_topics(topic, timeout=60).topics[topic]
        if found.error is not None:
            return []
        open_partitions = set(found.partitions)
        consumer.assign([TopicPartition(topic, index, 0) for index in open_partitions])
        rows: list[Seen] = []
        deadline = time.monotonic() + timeout_s
        while open_partitions and time.monotonic() < deadline:
            for message in consumer.consume(1000, timeout=0.5):
                if message.error() is None:
                    rows.append(_seen(message))
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard(message.partition())
                else:
                    raise AssertionError(message.error())
        assert not open_partitions, f"the end of partitions {open_partitions} was not reached"
        return sorted(rows, key=lambda row: (row.partition, row.offset))
    finally:
        consumer.close()


def _seen(message: Any) -> Seen:
    return Seen(
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        message.timestamp()[1],
        tuple(message.headers() or ()),
    )


def values(bootstrap: str, topic: str) -> list[str]:
    """The committed values, sorted: what a test usually compares."""
    return sorted((row.value or b"").decode() for row in read_all(bootstrap, topic))


def open_transactions(bootstrap: str, topic: str) -> int:
    """How many transactions the partitions of a topic hold open."""
    import asyncio

    from moldau.client.cluster import Cluster
    from moldau.client.transactions import open_transactions as ask
    from moldau.model.ids import TopicPartition as Partition
    from moldau.runtime.net import RealNetwork

    async def count() -> int:
        async with Cluster(RealNetwork(), bootstrap) as cluster:
            view = await cluster.topic(topic)
            return len(await ask(cluster, [Partition(topic, one.index) for one in view.partitions]))

    return asyncio.run(count())
