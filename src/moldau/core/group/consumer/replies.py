"""What a shard answers about KIP-848 groups; `errors.Refused` in place of any of it."""

from __future__ import annotations

from typing import Final, NamedTuple

from moldau.core.group.consumer.records import TopicIdPartition
from moldau.model.errors import ErrorCode

CLASSIC_TYPE: Final = 0
CONSUMER_TYPE: Final = 1


class ConsumerHeartbeatReply(NamedTuple):
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int = 0
    assigned: tuple[TopicIdPartition, ...] | None = None
    """None if nothing changed since the last time."""


class AssignedTopic(NamedTuple):
    topic_id: bytes
    topic: str
    partitions: tuple[int, ...]


class DescribedConsumer(NamedTuple):
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    regex: str
    assigned: tuple[AssignedTopic, ...]
    target: tuple[AssignedTopic, ...]
    member_type: int


class DescribedConsumerGroup(NamedTuple):
    group_id: str
    error: ErrorCode = ErrorCode.NONE
    detail: str = ""
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumer, ...] = ()


class DescribeConsumerGroupsReply(NamedTuple):
    groups: tuple[DescribedConsumerGroup, ...]
