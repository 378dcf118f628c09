"""Reads topics back: with moldau's own client, and as anybody would with confluent-kafka where that is installed."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
import time
from contextlib import aclosing
from typing import Final

from moldau.cli.demo.stage import DemoFailed
from moldau.client.cluster import Cluster
from moldau.client.consumer import ConsumedRecord, read
from moldau.client.offsets import Anchor, Position, resolve
from moldau.model.ids import TopicPartition

HAS_CONFLUENT: Final = importlib.util.find_spec("confluent_kafka") is not None
ORDINARY_CLIENT: Final = (
    "confluent-kafka" if HAS_CONFLUENT else "moldau's own client (confluent-kafka is not installed)"
)
READ_TIMEOUT_S: Final = 30.0


async def read_topic(cluster: Cluster, topic: str) -> list[ConsumedRecord]:
    """All committed records, from the first to the last there is now."""
    view = await cluster.topic(topic)
    partitions = [TopicPartition(topic, p.index) for p in view.partitions]
    starts = await resolve(cluster, partitions, Position(Anchor.START))
    ends = await resolve(cluster, partitions, Position(Anchor.END))
    records: list[ConsumedRecord] = []
    async with aclosing(read(cluster, starts, ends=ends)) as batches:
        async for batch in batches:
            records += batch
    return records


async def read_as_anybody_would(cluster: Cluster, topic: str) -> list[bytes]:
    """The values of all committed records, read by an ordinary client."""
    if not HAS_CONFLUENT:
        return [record.value or b"" for record in await read_topic(cluster, topic)]
    view = await cluster.topic(topic)
    given_up = threading.Event()
    try:
        return await asyncio.to_thread(_with_confluent, cluster.bootstrap, topic, len(view.partitions), given_up)
    finally:
        given_up.set()  # nobody can cancel a thread, and the process does not end before it


def _with_confluent(bootstrap: str, topic: str, partitions: int, given_up: threading.Event) -> list[bytes]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError
    from confluent_kafka import TopicPartition as Assigned

    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "moldau-demo-reader",
        "enable.auto.commit": False,
        "enable.partition.eof": True,  # read_committed is its default
    }
    consumer = Consumer(settings)
    consumer.assign([Assigned(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
    values: list[bytes] = []
    unfinished = set(range(partitions))
    deadline = time.monotonic() + READ_TIMEOUT_S
    try:
        while unfinished and not given_up.is_set():
            for message in consumer.consume(10_000, timeout=0.2):
                error = message.error()
                if error is None:
                    values.append(message.value() or b"")
                elif error.code() == KafkaError._PARTITION_EOF:
                    unfinished.discard(message.partition())
            if time.monotonic() > deadline:
                raise DemoFailed(f"confluent-kafka did not reach the end of {topic} in {READ_TIMEOUT_S:.0f} s")
    finally:
        consumer.close()
    return values
