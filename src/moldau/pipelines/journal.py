"""Reading and writing the topic `__pipelines`, and measuring lag: everything a run asks the brokers for itself."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from moldau.client import admin, groups, lag
from moldau.client.cluster import Cluster
from moldau.client.consumer import read
from moldau.client.failures import BrokerRefused
from moldau.client.groups import Committed
from moldau.client.offsets import EARLIEST, LATEST, list_offsets
from moldau.client.producer import Producer
from moldau.model.errors import ErrorCode
from moldau.model.failures import MoldauError
from moldau.model.ids import TopicPartition
from moldau.pipelines import events
from moldau.runtime.clock import WallClock
from moldau.spark.session import Contact, with_cluster

PARTITION = TopicPartition(events.TOPIC, 0)
logger = logging.getLogger("moldau.pipelines")


async def read_runs(cluster: Cluster) -> dict[tuple[str, str], events.Run]:
    """Every run the topic knows; none when there is no topic yet."""
    await cluster.refresh([events.TOPIC])
    if events.TOPIC not in cluster.topics:
        return {}
    start = (await list_offsets(cluster, {PARTITION: EARLIEST}))[PARTITION][0]
    return events.fold((key, value) for key, value in await _read_from(cluster, start))


async def write(cluster: Cluster, records: list[tuple[bytes, bytes]]) -> None:
    # Written twice after a lost answer does no harm here: keys make records replace each other.
    producer = Producer(cluster, WallClock(), idempotent=False, auto_create=False)
    for key, value in records:
        await producer.send(events.TOPIC, value, key=key, partition=0)
    await producer.flush()


async def ensure_topic(cluster: Cluster) -> None:
    await cluster.refresh([events.TOPIC])
    if events.TOPIC in cluster.topics:
        return
    try:
        await admin.create_topic(cluster, events.TOPIC, partitions=1, configs=dict(events.CONFIGS))
    except BrokerRefused as refusal:
        if refusal.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


async def _read_from(cluster: Cluster, start: int) -> list[tuple[bytes | None, bytes | None]]:
    end = (await list_offsets(cluster, {PARTITION: LATEST}))[PARTITION][0]
    found: list[tuple[bytes | None, bytes | None]] = []
    if end > start:
        async with aclosing(read(cluster, {PARTITION: start}, ends={PARTITION: end})) as batches:
            async for batch in batches:
                found += [(record.key, record.value) for record in batch]
    return found


class Journal:
    """One run's own voice in the topic. A broker that is away never stops a pipeline: the next try tells it all."""

    def __init__(self, pipeline: str, run: str, bootstrap: str, client: Mapping[str, str]) -> None:
        patience = {"request.timeout.ms": "5000", "default.api.timeout.ms": "5000"}
        self._contact = Contact.of(bootstrap, {**client, **patience, "client.id": f"moldau-pipeline-{pipeline}"})
        self._pipeline = pipeline
        self._run = run
        self._events: list[tuple[bytes, bytes]] = []
        self._number = 0
        self._position: int | None = None

    def event(self, document: Mapping[str, Any]) -> None:
        """Remember something that happened; the next `beat` writes it."""
        key = events.event_key(self._pipeline, self._run, self._number)
        self._events.append((key, events.encode({"number": self._number, **document})))
        self._number += 1

    def beat(self, status: Mapping[str, Any]) -> bool:
        """Write the status and what happened since; True when somebody asked this run to stop."""
        status_record = (events.run_key(self._pipeline, self._run), events.encode(status))
        told = list(self._events)
        try:
            asked = with_cluster(
                self._contact, lambda cluster: self._exchange(cluster, [*told, status_record]), what="pipeline status"
            )
        except MoldauError as failure:
            logger.warning("the status of %s could not be written: %s", self._pipeline, failure)
            return False
        del self._events[: len(told)]
        return asked

    def lag(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, lag.PartitionLag]:
        """How far these positions are behind the ends of their partitions; nothing when no broker answers."""
        if not positions:
            return {}
        committed = {partition: Committed(offset) for partition, offset in positions.items()}
        try:
            return with_cluster(
                self._contact, lambda cluster: lag.measure(cluster, committed, WallClock().wall_ms()), what="lag"
            )
        except MoldauError as failure:
            logger.warning("the lag of %s could not be measured: %s", self._pipeline, failure)
            return {}

    def commit(self, group: str, positions: Mapping[TopicPartition, int]) -> None:
        """Leave a stopped query's positions in its group. The checkpoint decides; this is for people."""
        if not positions:
            return
        offsets = {partition: Committed(offset) for partition, offset in positions.items()}
        try:
            with_cluster(
                self._contact, lambda cluster: groups.commit_offsets(cluster, group, offsets), what="offset commit"
            )
        except MoldauError as failure:
            logger.warning("the offsets of group %s could not be committed: %s", group, failure)

    async def _exchange(self, cluster: Cluster, records: list[tuple[bytes, bytes]]) -> bool:
        if self._position is None:
            await ensure_topic(cluster)
            # Requests older than this run cannot mean it: they name the run.
            self._position = (await list_offsets(cluster, {PARTITION: LATEST}))[PARTITION][0]
        await write(cluster, records)
        end = (await list_offsets(cluster, {PARTITION: LATEST}))[PARTITION][0]
        seen = await _read_from(cluster, self._position)
        self._position = end
        wanted = events.stop_key(self._pipeline, self._run)
        return any(key == wanted for key, _ in seen)
