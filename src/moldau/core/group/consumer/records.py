"""The facts behind a KIP-848 group, with the content of Kafka's own records on `__consumer_offsets`.

A value of None is a tombstone. The order in which a member's three records are written and taken away is Kafka's: its
subscription first and last.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from moldau.core.group.commands import Protocol

TopicIdPartition: TypeAlias = tuple[bytes, int]
"""(topic id, partition)"""


class MemberState(enum.IntEnum):
    """Numbered as stored. `reconcile.py` draws the machine."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """Asked to give up partitions; it has not confirmed yet."""
    UNRELEASED_PARTITIONS = 2
    """At the target epoch, but some of its partitions are still with others."""
    UNKNOWN = 127
    """Written by a newer coordinator."""


class ClassicMetadata(NamedTuple):
    """What is kept of a member that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[Protocol, ...]


class MemberMetadata(NamedTuple):
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    """Sorted, each once."""
    regex: str = ""
    """Empty: none."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMetadata | None = None


class MemberStored(NamedTuple):
    group_id: str
    member_id: str
    value: MemberMetadata | None


class GroupEpoch(NamedTuple):
    epoch: int
    metadata_hash: int = 0
    """Of the subscribed topics as they were at that epoch."""


class GroupEpochStored(NamedTuple):
    group_id: str
    value: GroupEpoch | None


class TargetEpoch(NamedTuple):
    epoch: int
    timestamp_ms: int = 0


class TargetEpochStored(NamedTuple):
    """Written after the members' targets: only then do they count."""

    group_id: str
    value: TargetEpoch | None


class TargetStored(NamedTuple):
    group_id: str
    member_id: str
    value: frozenset[TopicIdPartition] | None


class CurrentAssignment(NamedTuple):
    member_epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Mapping[TopicIdPartition, int] = {}
    """With the epoch since which each partition is the member's: commits of that epoch and later are welcome
    (KIP-1251)."""
    revoking: Mapping[TopicIdPartition, int] = {}


class CurrentStored(NamedTuple):
    group_id: str
    member_id: str
    value: CurrentAssignment | None


class ResolvedRegex(NamedTuple):
    topics: tuple[str, ...]
    """Sorted."""
    version: int
    """Of the metadata image whose topics were looked at."""
    timestamp_ms: int


class RegexResolved(NamedTuple):
    group_id: str
    regex: str
    value: ResolvedRegex | None


CONSUMER_RECORDS: Final = (
    MemberStored,
    GroupEpochStored,
    TargetEpochStored,
    TargetStored,
    CurrentStored,
    RegexResolved,
)
