"""The two requests an executor needs: Fetch, and ListOffsets for where a log begins and ends now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from moldau.client.cluster import group_by_topic
from moldau.client.failures import raise_for
from moldau.client.offsets import EARLIEST, LATEST
from moldau.model.ids import TopicPartition
from moldau.spark.fetch.link import BrokerLink
from moldau.wire.apis import ApiKey
from moldau.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic


class LogBounds(NamedTuple):
    start: int
    end: int


def fetch_request(
    wanted: Mapping[TopicPartition, tuple[int, int]],
    topic_ids: Mapping[str, bytes],
    *,
    read_committed: bool,
    bytes_max: int,
    wait_ms: int,
) -> FetchRequest:
    """`wanted`: position and most bytes of each partition."""
    topics = [
        FetchTopic(
            topic=name,
            topic_id=topic_ids[name],
            partitions=[
                FetchPartition(partition=index, fetch_offset=position, partition_max_bytes=most)
                for index, (position, most) in rows.items()
            ],
        )
        for name, rows in group_by_topic(wanted).items()
    ]
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=bytes_max,
        isolation_level=1 if read_committed else 0,
        session_id=0,
        session_epoch=-1,
        topics=topics,
        forgotten_topics_data=[],
    )


def log_bounds(link: BrokerLink, partition: TopicPartition) -> LogBounds:
    """First offset and end of a log, asked of its leader. `BrokerRefused` when it does not tell."""
    return LogBounds(_list_offset(link, partition, EARLIEST), _list_offset(link, partition, LATEST))


def _list_offset(link: BrokerLink, partition: TopicPartition, timestamp: int) -> int:
    row = ListOffsetsPartition(partition_index=partition.partition, current_leader_epoch=-1, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name=partition.topic, partitions=[row])]
    )
    answer = link.request(ApiKey.LIST_OFFSETS, request).topics[0].partitions[0]
    raise_for(answer.error_code, subject=str(partition))
    offset: int = answer.offset
    return offset
