"""The facts behind a group shard, with the content of Kafka's own records on `__consumer_offsets`.

A value of None is a tombstone. `broker/shards/group_codec.py` gives them Kafka's bytes: `OffsetCommitted` is
OffsetCommitKey 1 with OffsetCommitValue, `GroupStored` is GroupMetadataKey 2 with GroupMetadataValue. Records of
KIP-848 groups are in `consumer/records.py`.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from moldau.model.ids import NO_TOPIC_ID


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = -1
    """Only of commits that named their own retention (value version 1)."""
    topic_id: bytes = NO_TOPIC_ID


class OffsetCommitted(NamedTuple):
    group_id: str
    topic: str
    partition: int
    value: CommittedOffset | None


class StoredMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    """-1 in records older than the field: the session timeout stands in."""
    session_timeout_ms: int
    subscription: bytes
    """The member's metadata under the group's chosen protocol; the others are not kept."""
    assignment: bytes


class GroupMetadata(NamedTuple):
    protocol_type: str
    """Empty for a group that never had a member."""
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int
    """When the group entered its present state: what the retention of an empty group's offsets counts from."""
    members: tuple[StoredMember, ...]


class GroupStored(NamedTuple):
    group_id: str
    value: GroupMetadata | None


Record: TypeAlias = OffsetCommitted | GroupStored
