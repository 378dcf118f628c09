"""Short ways to write the requests the tests send."""

from __future__ import annotations

from typing import Any

from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from moldau.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.unit.server.harness import topic_id


def produce(
    topic: str, records: bytes | None, *, partition: int = 0, acks: int = 1, timeout_ms: int = 1000
) -> ProduceRequest:
    data = [PartitionProduceData(index=partition, records=records)]
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name=topic, topic_id=topic_id(topic), partition_data=data)],
    )


def fetch(
    *wanted: tuple[str, int, int],
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    isolation_level: int = 0,
    session_id: int = 0,
    session_epoch: int = -1,
    forgotten: tuple[tuple[str, int], ...] = (),
    current_leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
) -> FetchRequest:
    """`wanted`: (topic, partition, offset)."""
    topics = [
        FetchTopic(
            topic=topic,
            topic_id=topic_id(topic),
            partitions=[
                FetchPartition(
                    partition=index,
                    fetch_offset=offset,
                    partition_max_bytes=partition_max_bytes,
                    current_leader_epoch=current_leader_epoch,
                    last_fetched_epoch=last_fetched_epoch,
                )
            ],
        )
        for topic, index, offset in wanted
    ]
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
        forgotten_topics_data=[
            ForgottenTopic(topic=topic, topic_id=topic_id(topic), partitions=[index]) for topic, index in forgotten
        ],
    )


def list_offsets(topic: str, timestamp: int, *, partition: int = 0, isolation_level: int = 0, epoch: int = -1) -> Any:
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)
    return ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation_level, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
    )


def joined(records: Any) -> bytes:
    """Record payload of an answer, whatever buffers it consists of."""
    if records is None:
        return b""
    if isinstance(records, (bytes, bytearray, memoryview)):
        return bytes(records)
    return b"".join(bytes(part) for part in records)
