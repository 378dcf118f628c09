"""What may be asked of a group shard. Version-free: handlers translate, and resolve topic ids to names.

`ticket`, always the first field, is given by the runtime to commands that may have to wait for other members. Their
reply is then `NOT_YET`, and a later decision names the ticket among its completions.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from moldau.model.ids import NO_TOPIC_ID

NO_MEMBER_ID: Final = ""
NO_TICKET: Final = -1
NO_TIMESTAMP: Final = -1


# -- membership, classic protocol ------------------------------------------------------------------------------------


class Protocol(NamedTuple):
    """A way of assigning that a member supports, with what the member tells its leader under it."""

    name: str
    metadata: bytes


class JoinGroup(NamedTuple):
    ticket: int
    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    """As Kafka stores it: `/10.0.0.7`."""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    """-1 where the request has none (version 0): then the session timeout."""
    protocol_type: str
    protocols: tuple[Protocol, ...]
    """In the member's order of preference."""
    new_member_suffix: str
    """Only for a member without an id."""
    """Chance is an argument: a fresh UUID in text, of which the shard makes a member id if it needs one."""
    requires_known_member_id: bool = True
    """Versions 4+: a new dynamic member is first told its id, and joins with it (KIP-394)."""
    supports_skipping_assignment: bool = False
    """Versions 9+ (KIP-814)."""
    reason: str | None = None


class SyncGroup(NamedTuple):
    ticket: int
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()
    """(member id, assignment); only the leader sends any."""


class Heartbeat(NamedTuple):
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None


class LeavingMember(NamedTuple):
    member_id: str
    """Empty for an administrative removal by instance id."""
    instance_id: str | None = None
    reason: str | None = None


class LeaveGroup(NamedTuple):
    group_id: str
    members: tuple[LeavingMember, ...]


# -- offsets ---------------------------------------------------------------------------------------------------------


class OffsetToCommit(NamedTuple):
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None


class TopicToCommit(NamedTuple):
    topic: str
    partitions: tuple[OffsetToCommit, ...]
    topic_id: bytes = NO_TOPIC_ID


class OffsetCommit(NamedTuple):
    group_id: str
    generation: int
    """Or the member epoch, for members of a KIP-848 group."""
    member_id: str
    instance_id: str | None
    topics: tuple[TopicToCommit, ...]
    retention_ms: int = -1
    """Only versions 2-4 carry one; -1 leaves it to `offsets.retention.minutes`."""
    predates_member_epochs: bool = False
    """The call is of a version (before 9) in which nobody could mean a member epoch."""


class TxnOffsetCommit(NamedTuple):
    """Its records are appended with the producer id and epoch, in a transactional batch, and stay pending until the
    marker of that producer."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    transactional_id: str
    producer_id: int
    producer_epoch: int
    topics: tuple[TopicToCommit, ...]


class TopicToFetch(NamedTuple):
    topic: str
    partitions: tuple[int, ...]
    topic_id: bytes = NO_TOPIC_ID
    """A stored offset of another topic id belongs to a topic that was deleted: not found."""


class OffsetFetch(NamedTuple):
    group_id: str
    topics: tuple[TopicToFetch, ...] | None
    """None asks for everything the group has."""
    require_stable: bool = False
    member_id: str | None = None
    member_epoch: int = -1


class TopicPartitions(NamedTuple):
    topic: str
    partitions: tuple[int, ...]


class OffsetDelete(NamedTuple):
    group_id: str
    topics: tuple[TopicPartitions, ...]


class TopicsDeleted(NamedTuple):
    """From a metadata change: (topic, topic id). Their offsets go, in every group of the shard."""

    topics: tuple[tuple[str, bytes], ...]


# -- administration --------------------------------------------------------------------------------------------------


class DescribeGroups(NamedTuple):
    group_ids: tuple[str, ...]


class ListGroups(NamedTuple):
    """Empty filters let everything through. Case does not matter in either."""

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class DeleteGroups(NamedTuple):
    group_ids: tuple[str, ...]


Command: TypeAlias = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | OffsetCommit
    | TxnOffsetCommit
    | OffsetFetch
    | OffsetDelete
    | TopicsDeleted
    | DescribeGroups
    | ListGroups
    | DeleteGroups
)
