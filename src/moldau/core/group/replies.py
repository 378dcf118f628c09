"""What a group shard answers. Any command may also be answered with `errors.Refused`: then its code goes where the
response has one, at the top or into every partition."""

from __future__ import annotations

from typing import Final, NamedTuple

from moldau.model.errors import ErrorCode
from moldau.model.ids import NO_TOPIC_ID

INVALID_OFFSET: Final = -1


class JoinedMember(NamedTuple):
    """What the leader is told of each member."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinReply(NamedTuple):
    error: ErrorCode
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    """None becomes an empty string before version 7."""
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


class SyncReply(NamedTuple):
    error: ErrorCode
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None


class HeartbeatReply(NamedTuple):
    error: ErrorCode


class LeftMember(NamedTuple):
    member_id: str
    instance_id: str | None
    error: ErrorCode


class LeaveReply(NamedTuple):
    """Parallel to the command. Before version 3 the one member's error goes to the top of the response."""

    members: tuple[LeftMember, ...]


# -- offsets ---------------------------------------------------------------------------------------------------------


class TopicErrors(NamedTuple):
    """(partition, error) of each partition that was asked for, in that order."""

    topic: str
    partitions: tuple[tuple[int, ErrorCode], ...]
    topic_id: bytes = NO_TOPIC_ID


class OffsetCommitReply(NamedTuple):
    """Also of TxnOffsetCommit. `Refused(GROUP_ID_NOT_FOUND)` is ILLEGAL_GENERATION before OffsetCommit version 9."""

    topics: tuple[TopicErrors, ...]


class FetchedOffset(NamedTuple):
    partition: int
    offset: int = INVALID_OFFSET
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


class FetchedTopic(NamedTuple):
    topic: str
    partitions: tuple[FetchedOffset, ...]
    topic_id: bytes = NO_TOPIC_ID
    """As asked; when everything was asked for, the one stored with the offsets, if any."""


class OffsetFetchReply(NamedTuple):
    topics: tuple[FetchedTopic, ...]


class OffsetDeleteReply(NamedTuple):
    topics: tuple[TopicErrors, ...]


class TopicsDeletedReply(NamedTuple):
    offsets: int


# -- administration --------------------------------------------------------------------------------------------------


class DescribedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    """Empty unless the group is stable."""
    assignment: bytes


class DescribedGroup(NamedTuple):
    """`found` is False for groups that are not there or not classic: GROUP_ID_NOT_FOUND with `detail` from version 6
    on, and before that simply a group in the state Dead."""

    group_id: str
    found: bool
    detail: str
    state: str
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedMember, ...] = ()


class DescribeGroupsReply(NamedTuple):
    groups: tuple[DescribedGroup, ...]


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    type: str


class ListGroupsReply(NamedTuple):
    groups: tuple[ListedGroup, ...]


class DeleteGroupsReply(NamedTuple):
    groups: tuple[tuple[str, ErrorCode], ...]
