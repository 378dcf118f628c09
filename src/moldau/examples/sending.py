"""Sends an example's records to a broker, at a chosen pace, with progress."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from moldau.client import admin
from moldau.client.cluster import Cluster
from moldau.client.failures import BrokerRefused
from moldau.client.producer import Producer
from moldau.examples.events import Event, Example
from moldau.model.errors import ErrorCode
from moldau.runtime.clock import WallClock

FLUSH_EVERY_S: Final = 0.25


async def create_topics(cluster: Cluster, example: Example) -> None:
    """Make those that are missing."""
    for topic in example.topics:
        try:
            await admin.create_topic(cluster, topic.name, partitions=topic.partitions, configs=topic.configs)
        except BrokerRefused as refusal:
            if refusal.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise


async def send_all(
    cluster: Cluster,
    example: Example,
    events: Sequence[Event],
    *,
    rate: float = 0,
    progress: Callable[[int], None] = lambda _sent: None,
) -> None:
    """Send in order, `rate` records a second (0: as fast as possible); returns when all are acknowledged."""
    producer = Producer(cluster, WallClock(), codec="zstd")
    began = flushed = time.monotonic()
    flushed_event_ms = 0
    for number, event in enumerate(events):
        late = event.arrival_ms - flushed_event_ms >= example.flush_every_ms
        if late or time.monotonic() - flushed >= FLUSH_EVERY_S:
            await producer.flush()
            progress(number)
            flushed, flushed_event_ms = time.monotonic(), event.arrival_ms
            await _keep_pace(began, number, rate)
        await producer.send(event.topic, event.value, key=event.key)
    await producer.flush()
    progress(len(events))


async def _keep_pace(began: float, sent: int, rate: float) -> None:
    if rate > 0:
        await asyncio.sleep(max(0.0, began + sent / rate - time.monotonic()))
