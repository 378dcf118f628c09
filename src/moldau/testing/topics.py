"""A topic in a test: plain values in, plain values out."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from moldau.client.cluster import Cluster
from moldau.client.consumer import ConsumedRecord, read
from moldau.client.offsets import Anchor, Position, resolve
from moldau.client.producer import Producer
from moldau.model.ids import TopicPartition
from moldau.testing.broker import InProcessBroker
from moldau.testing.records import NotEnoughRecords, as_bytes, as_records, from_bytes, to_bytes


class Topic:
    """Values are text, bytes, None, and objects or arrays of JSON."""

    def __init__(self, broker: InProcessBroker, name: str) -> None:
        self.name = name
        self._broker = broker

    def produce(self, values: Any, *, key: str | bytes | None = None, partition: int | None = None) -> None:
        """Write one value (text, bytes, a mapping, a `Record`) or each of several in order, and wait until all are
        acknowledged. `key` and `partition` hold for values that are not a `Record`, which has its own."""
        records = as_records(values, key=key, partition=partition)

        async def work(cluster: Cluster) -> None:
            producer = Producer(cluster, self._broker.clock)
            for record in records:
                await producer.send(
                    self.name,
                    to_bytes(record.value),
                    key=as_bytes(record.key),
                    headers=record.raw_headers,
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
            await producer.flush()

        self._broker.with_cluster(work)

    def read(self, count: int, *, timeout: float = 5.0, parse: Callable[[bytes | None], Any] = from_bytes) -> list[Any]:
        """The first `count` values by time of arrival, waiting for them; `NotEnoughRecords` if they do not come.
        `parse` makes a value of the bytes: `json.loads` where numbers are to be numbers."""
        return [parse(record.value) for record in self.read_records(count, timeout=timeout)]

    def read_records(self, count: int, *, timeout: float = 5.0) -> list[ConsumedRecord]:
        """Like `read`, with keys, headers, partitions, offsets and timestamps."""

        async def work(cluster: Cluster) -> list[ConsumedRecord]:
            view = await cluster.topic(self.name, auto_create=True)
            partitions = [TopicPartition(self.name, p.index) for p in view.partitions]
            starts = await resolve(cluster, partitions, Position(Anchor.START))
            found: list[ConsumedRecord] = []
            deadline = time.monotonic() + timeout
            async with aclosing(read(cluster, starts, wait_ms=50)) as batches:
                ends = await resolve(cluster, partitions, Position(Anchor.END))
                while len(found) < count and time.monotonic() < deadline:
                    if starts == ends:
                        ends = await resolve(cluster, partitions, Position(Anchor.END))
                        continue
                    records = await anext(batches)
                    found += records
                    last = records[-1]
                    starts[TopicPartition(self.name, last.partition)] = last.offset + 1
            return found

        found: list[ConsumedRecord] = self._broker.with_cluster(work)
        if len(found) < count:
            raise NotEnoughRecords(f"{self.name}: wanted {count} records, {len(found)} came within {timeout:g} s")
        return _by_arrival(found)[:count]


def _by_arrival(found: list[ConsumedRecord]) -> list[ConsumedRecord]:
    """Each partition in its own order, whatever the clocks of its producers said; partitions merged by time."""
    partitions: dict[int, list[ConsumedRecord]] = {}
    for record in found:
        partitions.setdefault(record.partition, []).append(record)
    return list(heapq.merge(*partitions.values(), key=lambda record: record.timestamp_ms))
