"""The topic of decisions: which batch of which sink was decided last, and which transactions it consists of.

One record per decision, keyed by sink, written in a transaction of its own; compacted, so that the last one of each
sink stays. Readers must not be held up by the open transactions of *other* sinks, so the log is read uncommitted up to
the high watermark and judged by the end markers in it. It is read backwards in growing steps: the last decision of a
busy sink is among the last records, however long the log is.

The format of a decision and the judgement over what was read are pure; `read_decisions` does the reading.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from moldau.client.admin import create_topic
from moldau.client.cluster import Cluster
from moldau.client.failures import BrokerRefused, raise_for
from moldau.client.offsets import EARLIEST, LATEST, list_offsets
from moldau.client.partitioner import partition_for_key
from moldau.client.patience import TRANSPORT_FAILURES, Patience
from moldau.client.two_phase import TaskTransaction
from moldau.model.errors import ErrorCode
from moldau.model.failures import WorldError
from moldau.model.ids import TopicPartition
from moldau.records.batch import iterate_headers
from moldau.records.reader import iterate_batch, read_end_marker
from moldau.wire.apis import ApiKey
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

DECISIONS_TOPIC: Final = "__moldau_decisions"
PARTITIONS: Final = 4
REPLICAS_WANTED: Final = 3
SEGMENT_BYTES: Final = 4 << 20
FORMAT_VERSION: Final = 1
FIRST_STEP: Final = 64
"""Offsets looked at first; each further step back is eight times as long."""
STEP_GROWTH: Final = 8
FETCH_BYTES: Final = 8 << 20
FETCH_VERSION: Final = 12


class UnreadableDecision(WorldError):
    """A decision written by something newer, or damaged: going on without understanding it could lose or repeat."""


class DecidedTransaction(NamedTuple):
    """A transaction of a batch: what ends it, and who wrote it. They differ when it was prepared."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    writer_id: int
    writer_epoch: int

    @property
    def handle(self) -> TaskTransaction:
        return TaskTransaction(self.transactional_id, self.producer_id, self.producer_epoch)

    @property
    def written(self) -> TaskTransaction:
        """As the task handed it over."""
        return TaskTransaction(self.transactional_id, self.writer_id, self.writer_epoch)


@dataclass(frozen=True, slots=True)
class Decision:
    """A batch was decided: these transactions, and no others, are to be committed."""

    batch: int
    run: str
    transactions: tuple[DecidedTransaction, ...]
    prepared: bool
    """The transactions have no timeout (KIP-939); else only finishing them in time keeps them."""
    finished: bool = False
    """All of them are committed. Said by a second record, after the fact."""

    def encode(self) -> bytes:
        prefix = common_prefix([one.transactional_id for one in self.transactions])
        body: dict[str, Any] = {
            "v": FORMAT_VERSION,
            "batch": self.batch,
            "run": self.run,
            "prepared": self.prepared,
            "prefix": prefix,
            "transactions": [[one.transactional_id[len(prefix) :], *one[1:]] for one in self.transactions],
        }
        if self.finished:
            body["finished"] = True
        return json.dumps(body, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Decision:
        try:
            body = json.loads(data)
            if body["v"] != FORMAT_VERSION:
                raise UnreadableDecision(f"a decision in format {body['v']}; this moldau knows {FORMAT_VERSION}")
            return cls(
                int(body["batch"]),
                str(body["run"]),
                tuple(DecidedTransaction(body["prefix"] + row[0], *row[1:]) for row in body["transactions"]),
                bool(body["prepared"]),
                bool(body.get("finished", False)),
            )
        except (ValueError, KeyError, TypeError, IndexError) as problem:
            raise UnreadableDecision(f"a decision that cannot be read: {problem!r}") from problem


def common_prefix(names: Sequence[str]) -> str:
    if not names:
        return ""
    first, last = min(names), max(names)
    same = 0
    while same < len(first) and first[same] == last[same]:
        same += 1
    return first[:same]


class Written(NamedTuple):
    """A record of this sink in the log."""

    offset: int
    producer_id: int
    value: bytes


class Marked(NamedTuple):
    """An end marker of any producer."""

    offset: int
    producer_id: int
    committed: bool


@dataclass(frozen=True, slots=True)
class Judged:
    decided: Decision | None
    """The last one that stands."""
    open: tuple[Decision, ...]
    """Written and not ended: these may still come to stand."""


def judge(events: Iterable[Written | Marked], *, settled: bool = False) -> Judged:
    """`events` in the order of the log, to its end. `settled`: nothing of this sink is open. Then a record without a
    marker stands: cleaning removes the marker of an abort only after the records, that of a commit maybe before."""
    standing: list[Written] = []
    pending: dict[int, list[Written]] = {}
    for event in events:
        if isinstance(event, Written):
            pending.setdefault(event.producer_id, []).append(event)
        else:
            ended = pending.pop(event.producer_id, [])
            standing += ended if event.committed else []
    left = [one for rows in pending.values() for one in rows]
    if settled:
        standing, left = standing + left, []
    last = max(standing, key=lambda one: one.offset, default=None)
    return Judged(
        None if last is None else Decision.decode(last.value), tuple(Decision.decode(one.value) for one in left)
    )


def is_enough(events: Sequence[Written | Marked]) -> bool:
    """Whether looking further back cannot change what `judge` says: a decision that stands is among them."""
    seen: set[int] = set()
    for event in events:
        if isinstance(event, Written):
            seen.add(event.producer_id)
        elif event.producer_id in seen:
            if event.committed:
                return True
            seen.discard(event.producer_id)
    return False


# -- reading ---------------------------------------------------------------------------------------------------------


async def decision_partition(cluster: Cluster, sink: str, patience: Patience) -> TopicPartition:
    """Where the sink's decisions are; makes the topic when there is none."""
    pauses = patience.pauses()
    while True:
        try:
            try:
                view = await cluster.topic(DECISIONS_TOPIC)
            except BrokerRefused as refusal:
                if refusal.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                await _create(cluster)
                await pauses.after(refusal)
                continue
            return TopicPartition(DECISIONS_TOPIC, partition_for_key(sink.encode(), len(view.partitions)))
        except (BrokerRefused, *TRANSPORT_FAILURES) as failure:
            await pauses.after(failure)


async def _create(cluster: Cluster) -> None:
    await cluster.refresh([])
    replicas = min(REPLICAS_WANTED, len(cluster.brokers))
    configs = {
        "cleanup.policy": "compact",
        "segment.bytes": str(SEGMENT_BYTES),
        "min.insync.replicas": str(max(1, replicas - 1)),
        "min.cleanable.dirty.ratio": "0.1",
    }
    try:
        await create_topic(cluster, DECISIONS_TOPIC, partitions=PARTITIONS, replication=replicas, configs=configs)
    except BrokerRefused as refusal:
        if refusal.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise


async def read_decisions(
    cluster: Cluster, partition: TopicPartition, sink: str, patience: Patience
) -> list[Written | Marked]:
    """As much of the end of the log as `judge` needs to know the sink's last decision."""
    pauses = patience.pauses()
    while True:
        try:
            return await _read_back(cluster, partition, sink.encode())
        except (BrokerRefused, *TRANSPORT_FAILURES) as failure:
            # Cleaning may move the beginning between two questions; everything else the pauses judge.
            if not (isinstance(failure, BrokerRefused) and failure.code is ErrorCode.OFFSET_OUT_OF_RANGE):
                await pauses.after(failure)
            cluster.topics.pop(partition.topic, None)


async def _read_back(cluster: Cluster, partition: TopicPartition, key: bytes) -> list[Written | Marked]:
    earliest, latest = await asyncio.gather(
        list_offsets(cluster, {partition: EARLIEST}), list_offsets(cluster, {partition: LATEST})
    )
    first, end = earliest[partition][0], latest[partition][0]
    events: list[Written | Marked] = []
    upper, step = end, FIRST_STEP
    while upper > first:
        lower = max(first, upper - step)
        events = await _read_range(cluster, partition, key, lower, upper) + events
        if is_enough(events):
            break
        upper, step = lower, step * STEP_GROWTH
    return events


async def _read_range(
    cluster: Cluster, partition: TopicPartition, key: bytes, start: int, end: int
) -> list[Written | Marked]:
    """Events in [start, end). `end` is at most the high watermark, so nothing is waited for."""
    events: list[Written | Marked] = []
    position = start
    while position < end:
        data, high_watermark = await _fetch(cluster, partition, position)
        before = position
        for at, header in iterate_headers(data):
            if header.base_offset >= end:
                return events
            position = max(position, int(header.next_offset))
            if header.last_offset < start:
                continue
            if header.is_control:
                marker = read_end_marker(data, at, header)
                if marker is not None:
                    events.append(Marked(int(header.base_offset), int(header.producer_id), not marker.aborted))
                continue
            events += [
                Written(int(record.offset), int(header.producer_id), record.value)
                for record in iterate_batch(data, at, header)
                if record.key == key and record.value is not None and start <= record.offset < end
            ]
        if position == before:
            if high_watermark < end:
                raise BrokerRefused(ErrorCode.OFFSET_NOT_AVAILABLE, subject=str(partition))
            return events  # compaction left nothing up to the end
    return events


async def _fetch(cluster: Cluster, partition: TopicPartition, offset: int) -> tuple[bytes, int]:
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=FETCH_BYTES,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[
            FetchTopic(
                topic=partition.topic,
                partitions=[
                    FetchPartition(partition=partition.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
                ],
            )
        ],
        forgotten_topics_data=[],
    )
    connection = await cluster.leader(partition)
    answer: FetchResponse = await connection.request(
        ApiKey.FETCH, request, timeout_s=cluster.timeout_s, newest=FETCH_VERSION
    )
    row: Any = answer.responses[0].partitions[0]
    raise_for(row.error_code, subject=str(partition))
    return bytes(row.records or b""), int(row.high_watermark)
