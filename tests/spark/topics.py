"""Topics made, filled, grown and trimmed by confluent-kafka, and reads of them by Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

WAIT_S = 240.0


class Topics:
    """What tests do to a broker from outside."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        _done(self.admin.create_topics([NewTopic(topic, partitions, 1, config=dict(config or {}))]))
        return topic

    def delete(self, topic: str) -> None:
        _done(self.admin.delete_topics([topic]))
        until(lambda: topic not in self.admin.list_topics(timeout=60).topics)

    def grow(self, topic: str, partitions: int) -> None:
        _done(self.admin.create_partitions([NewPartitions(topic, partitions)]))
        until(lambda: len(self.admin.list_topics(topic, timeout=60).topics[topic].partitions) == partitions)

    def trim(self, topic: str, partition: int, before: int) -> None:
        """Remove what lies before an offset, as retention does."""
        _done(self.admin.delete_records([TopicPartition(topic, partition, before)]))

    def fill(self, topic: str, values: Iterable[str], *, partition: int = 0, **record: Any) -> None:
        """One record for each value; `record` may hold a key, a timestamp or headers for all of them."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for value in values:
            producer.produce(topic, value=value, partition=partition, **record)
        assert producer.flush(30) == 0

    def pour(self, topic: str) -> Callable[[], int]:
        """Keep on writing until the result is called, which tells how many records that were."""
        stop, sent = threading.Event(), [0]

        def run() -> None:
            producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0})
            while not stop.is_set():
                producer.produce(topic, value="poured")
                assert producer.flush(30) == 0
                sent[0] += 1

        writer = threading.Thread(target=run, daemon=True)
        writer.start()

        def end() -> int:
            stop.set()
            writer.join(30)
            return sent[0]

        return end

    def rows(self, topic: str) -> set[tuple[Any, ...]]:
        """Everything in the topic as an independent reader sees it: (partition, offset, key, value, timestamp)."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": f"reader-{topic}", "enable.auto.commit": False}
        )
        places = [TopicPartition(topic, p) for p in consumer.list_topics(topic, timeout=60).topics[topic].partitions]
        ends = {place.partition: consumer.get_watermark_offsets(place, timeout=60)[1] for place in places}
        consumer.assign([TopicPartition(place.topic, place.partition, OFFSET_BEGINNING) for place in places])
        found: set[tuple[Any, ...]] = set()
        deadline = time.monotonic() + WAIT_S
        try:
            while {place.partition: place.offset for place in consumer.position(places) if place.offset > 0} != {
                partition: end for partition, end in ends.items() if end > 0
            }:
                assert time.monotonic() < deadline, "the reader did not reach the end of the topic"
                message = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    found.add((
                        message.partition(), message.offset(), message.key(), message.value(), message.timestamp()[1]
                    ))  # fmt: skip
        finally:
            consumer.close()
        return found


def _done(futures: Mapping[Any, Any]) -> None:
    for future in futures.values():
        future.result(30)


def until(condition: Callable[[], bool], timeout_s: float = WAIT_S) -> None:
    """Wait for something that happens soon."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


class Reads:
    """Batch and streaming reads with format moldau."""

    def __init__(self, spark: Any, bootstrap: str, checkpoints: Path) -> None:
        self.spark = spark
        self.bootstrap = bootstrap
        self.checkpoints = checkpoints

    def batch(self, **options: str) -> Any:
        return self._load(self.spark.read, options)

    def stream(self, **options: str) -> Any:
        return self._load(self.spark.readStream, options)

    def values(self, **options: str) -> list[str]:
        """The values of a batch read, sorted."""
        return sorted(bytes(row.value).decode() for row in self.batch(columns="value", **options).collect())

    def now(self, checkpoint: str, **options: str) -> list[list[str]]:
        """Run a query over all that is available; the values of each of its batches, sorted."""
        found: list[list[str]] = []
        query = self.start(checkpoint, lambda frame, _: found.append(values_of(frame)), availableNow=True, **options)
        try:
            assert query.awaitTermination(WAIT_S), "the query did not end by itself"
        finally:
            query.stop()
        return found

    def start(self, checkpoint: str, each: Callable[[Any, int], Any], /, *, availableNow: bool = False, **options: str) -> Any:  # fmt: skip  # noqa: E501
        trigger = {"availableNow": True} if availableNow else {"processingTime": "50 milliseconds"}
        return (
            self.stream(**options)
            .writeStream.foreachBatch(each)
            .option("checkpointLocation", str(self.checkpoints / checkpoint))
            .trigger(**trigger)
            .start()
        )

    def _load(self, reader: Any, options: Mapping[str, str]) -> Any:
        return reader.format("moldau").options(**{"kafka.bootstrap.servers": self.bootstrap, **options}).load()


def values_of(frame: Any) -> list[str]:
    return sorted(bytes(row.value).decode() for row in frame.select("value").collect())
