"""Reading partitions by offset, without a group: fetch from the leaders, decode, leave out aborted records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moldau.client.cluster import Cluster, group_by_topic
from moldau.client.failures import BrokerRefused
from moldau.client.offsets import refuse_out_of_range
from moldau.model.errors import RETRIABLE, ErrorCode
from moldau.model.ids import TopicPartition
from moldau.records.batch import BatchHeader, iterate_headers
from moldau.records.reader import iterate_batch, read_end_marker
from moldau.wire.apis import ApiKey
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic

# Names instead of topic ids (13+): every Kafka since 2.7 serves it, and nothing newer matters to a plain reader.
FETCH_VERSION: Final = 12


@dataclass(slots=True)
class ConsumedRecord:
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    log_append_time: bool = False


async def read(
    cluster: Cluster,
    starts: Mapping[TopicPartition, int],
    *,
    ends: Mapping[TopicPartition, int] | None = None,
    read_committed: bool = True,
    wait_ms: int = 500,
    size_bytes_max: int = 50 << 20,
    partition_bytes_max: int = 1 << 20,
) -> AsyncGenerator[list[ConsumedRecord], None]:
    """Yield records in lists, forever or until every partition has reached its end offset (exclusive)."""
    positions = dict(starts)
    if ends is not None:
        positions = {p: offset for p, offset in positions.items() if offset < ends[p]}
    while positions:
        rows = await fetch(
            cluster,
            positions,
            read_committed=read_committed,
            wait_ms=wait_ms,
            size_bytes_max=size_bytes_max,
            partition_bytes_max=partition_bytes_max,
        )
        for partition, row in rows:
            records, next_offset = decode_partition(partition, row, positions[partition], read_committed)
            end = None if ends is None else ends[partition]
            if end is not None:
                records = [record for record in records if record.offset < end]
            if records:
                yield records
            if end is not None and next_offset >= end:
                del positions[partition]
            else:
                positions[partition] = next_offset


async def fetch(
    cluster: Cluster,
    positions: Mapping[TopicPartition, int],
    *,
    read_committed: bool = True,
    wait_ms: int = 500,
    size_bytes_max: int = 50 << 20,
    partition_bytes_max: int = 1 << 20,
) -> list[tuple[TopicPartition, Any]]:
    """What the leaders have from these positions on, undecoded: see `decode_partition`."""

    async def ask() -> list[tuple[TopicPartition, Any]]:
        groups = await cluster.by_leader(positions)
        answers = await asyncio.gather(
            *(
                _fetch(
                    cluster,
                    leader,
                    {p: positions[p] for p in partitions},
                    read_committed=read_committed,
                    wait_ms=wait_ms,
                    size_bytes_max=size_bytes_max,
                    partition_bytes_max=partition_bytes_max,
                )
                for leader, partitions in groups.items()
            )
        )
        return [row for answer in answers for row in answer]

    return await cluster.retrying(sorted({p.topic for p in positions}), ask)


def decode_partition(
    partition: TopicPartition, row: Any, position: int, read_committed: bool
) -> tuple[list[ConsumedRecord], int]:
    """Records of one partition's answer from `position` on, and the offset to ask for next."""
    if not row.records:
        return [], position
    data = bytes(row.records)
    aborted = sorted((entry.first_offset, entry.producer_id) for entry in row.aborted_transactions or [])
    aborting: set[int] = set()
    found: list[ConsumedRecord] = []
    for start, header in iterate_headers(data):
        if header.is_control:
            marker = read_end_marker(data, start, header)
            if marker is not None and marker.aborted:
                aborting.discard(header.producer_id)
        else:
            while aborted and aborted[0][0] <= header.last_offset:
                aborting.add(aborted.pop(0)[1])
            if not (read_committed and header.is_transactional and header.producer_id in aborting):
                found += _records_of(partition, data, start, header, position)
        position = max(position, header.next_offset)
    return found, position


def _records_of(
    partition: TopicPartition, data: bytes, start: int, header: BatchHeader, position: int
) -> list[ConsumedRecord]:
    stamped = header.log_append_time
    return [
        ConsumedRecord(
            topic=partition.topic,
            partition=partition.partition,
            offset=record.offset,
            timestamp_ms=record.timestamp,
            key=record.key,
            value=record.value,
            headers=record.headers,
            log_append_time=stamped,
        )
        for record in iterate_batch(data, start, header)
        if record.offset >= position
    ]


async def _fetch(
    cluster: Cluster,
    leader: int,
    positions: dict[TopicPartition, int],
    *,
    read_committed: bool,
    wait_ms: int,
    size_bytes_max: int,
    partition_bytes_max: int,
) -> list[tuple[TopicPartition, Any]]:
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=size_bytes_max,
        isolation_level=1 if read_committed else 0,
        session_id=0,
        session_epoch=-1,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=partition_bytes_max)
                    for index, offset in rows.items()
                ],
            )
            for topic, rows in group_by_topic(positions).items()
        ],
        forgotten_topics_data=[],
    )
    connection = await cluster.broker(leader)
    response: FetchResponse = await connection.request(
        ApiKey.FETCH, request, timeout_s=cluster.timeout_s + wait_ms / 1000, newest=FETCH_VERSION
    )
    rows = []
    for topic_row in response.responses:
        for row in topic_row.partitions:
            partition = TopicPartition(topic_row.topic, row.partition_index)
            if row.error_code != 0:
                raise await _refused(cluster, ErrorCode(row.error_code), partition, positions[partition])
            rows.append((partition, row))
    return rows


async def _refused(cluster: Cluster, code: ErrorCode, partition: TopicPartition, position: int) -> BrokerRefused:
    if code is ErrorCode.OFFSET_OUT_OF_RANGE:
        try:
            await refuse_out_of_range(cluster, {partition: position})  # the answer itself does not say what there is
        except BrokerRefused as refusal:
            return refusal
    detail = "" if code in RETRIABLE else f"while reading at offset {position}"
    return BrokerRefused(code, detail, subject=str(partition))
