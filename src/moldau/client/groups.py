"""Groups as tools see them: list, describe, offsets in and out, delete. Works against any Kafka since 2.1."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from moldau.client.cluster import Cluster, group_by_topic
from moldau.client.connection import BrokerConnection
from moldau.client.failures import BrokerRefused, raise_for
from moldau.model.errors import ErrorCode
from moldau.model.failures import PeerGone, WireError
from moldau.model.ids import TopicPartition
from moldau.wire.apis import ApiKey
from moldau.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from moldau.wire.messages.consumer_protocol_assignment import decode_consumer_protocol_assignment
from moldau.wire.messages.consumer_protocol_subscription import decode_consumer_protocol_subscription
from moldau.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from moldau.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from moldau.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from moldau.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from moldau.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from moldau.wire.primitives import Reader

T = TypeVar("T")

BATCHED_KEYS_FROM: Final = 4
GROUPS_FROM: Final = 8
NEWEST_BY_NAME: Final = 9
"""OffsetCommit and OffsetFetch name topics up to this version; later ones want topic ids."""
CONSUMER_TYPE: Final = "consumer"
CONSUMER_PROTOCOL: Final = "consumer"
DEAD: Final = "Dead"
TRIES: Final = 8

MOVED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors that go away when the coordinator is asked for again."""


@dataclass(frozen=True, slots=True)
class GroupListing:
    group_id: str
    state: str
    """Empty where the broker is too old to tell."""
    type: str
    protocol_type: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class MemberView:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]
    topics: tuple[str, ...] = ()
    """What it subscribes to by name; a pattern shows in what it is assigned."""


@dataclass(frozen=True, slots=True)
class GroupView:
    group_id: str
    state: str
    type: str
    protocol: str
    """The assignor in use."""
    coordinator: int
    epoch: int | None
    """Of groups on the consumer protocol."""
    members: tuple[MemberView, ...]

    def owners(self) -> dict[TopicPartition, MemberView]:
        return {partition: member for member in self.members for partition in member.partitions}


@dataclass(frozen=True, slots=True)
class Committed:
    offset: int
    leader_epoch: int = -1
    metadata: str = field(default="", compare=False)


class GroupNotFound(BrokerRefused):
    def __init__(self, group_id: str) -> None:
        super().__init__(ErrorCode.GROUP_ID_NOT_FOUND, subject=group_id)


# -- who answers -----------------------------------------------------------------------------------------------------


async def coordinator(cluster: Cluster, group_id: str) -> tuple[int, BrokerConnection]:
    """The node that coordinates the group, and a connection to it."""

    async def ask() -> tuple[int, BrokerConnection]:
        connection = await cluster.any_broker()
        request = FindCoordinatorRequest(key=group_id, key_type=0, coordinator_keys=[group_id])
        version = connection.version_for(ApiKey.FIND_COORDINATOR)
        response: FindCoordinatorResponse = await connection.request(
            ApiKey.FIND_COORDINATOR, request, timeout_s=cluster.timeout_s
        )
        row: Any = response.coordinators[0] if version >= BATCHED_KEYS_FROM else response
        raise_for(row.error_code, row.error_message, subject=group_id)
        return row.node_id, await cluster.broker(row.node_id)

    return await _retrying(ask)


async def at_coordinator(cluster: Cluster, group_id: str, ask: Callable[[int, BrokerConnection], Awaitable[T]]) -> T:
    """Ask whoever coordinates the group, and ask again where it has moved meanwhile."""

    async def attempt() -> T:
        return await ask(*await coordinator(cluster, group_id))

    return await _retrying(attempt)


async def _retrying(attempt: Callable[[], Awaitable[T]]) -> T:
    pause_s = 0.05
    for left in range(TRIES - 1, -1, -1):
        try:
            return await attempt()
        except BrokerRefused as refusal:
            if refusal.code not in MOVED or left == 0:
                raise
        except PeerGone:
            if left == 0:
                raise
        await asyncio.sleep(pause_s)
        pause_s = min(1.0, pause_s * 2)
    raise AssertionError("unreachable")


# -- listing and describing ------------------------------------------------------------------------------------------


async def list_groups(cluster: Cluster, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[GroupListing]:
    """Every group of the cluster: each broker lists those it coordinates."""
    await cluster.refresh([])
    found: list[GroupListing] = []
    for node_id in sorted(cluster.brokers):

        async def ask(node_id: int = node_id) -> ListGroupsResponse:
            connection = await cluster.broker(node_id)
            request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
            response: ListGroupsResponse = await connection.request(
                ApiKey.LIST_GROUPS, request, timeout_s=cluster.timeout_s
            )
            raise_for(response.error_code, subject=f"broker {node_id}")
            return response

        response = await _retrying(ask)
        found += [
            GroupListing(row.group_id, row.group_state, row.group_type.lower(), row.protocol_type, node_id)
            for row in response.groups
        ]
    return sorted(found, key=lambda row: row.group_id)


async def describe_group(cluster: Cluster, group_id: str) -> GroupView:
    """State and members, whichever protocol the group uses. `GroupNotFound` when it does not exist."""

    async def ask(node_id: int, connection: BrokerConnection) -> GroupView:
        if connection.serves(ApiKey.CONSUMER_GROUP_DESCRIBE):
            view = await _describe_consumer(cluster, connection, group_id, node_id)
            if view is not None:
                return view
        return await _describe_classic(cluster, connection, group_id, node_id)

    return await at_coordinator(cluster, group_id, ask)


async def _describe_consumer(
    cluster: Cluster, connection: BrokerConnection, group_id: str, node_id: int
) -> GroupView | None:
    """None when the group is not there, or not on the consumer protocol."""
    response: ConsumerGroupDescribeResponse = await connection.request(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ConsumerGroupDescribeRequest(group_ids=[group_id]),
        timeout_s=cluster.timeout_s,
    )
    (row,) = response.groups
    if row.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
        return None
    raise_for(row.error_code, row.error_message, subject=group_id)
    members = tuple(
        MemberView(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            tuple(
                TopicPartition(topic.topic_name, index)
                for topic in (member.assignment.topic_partitions if member.assignment is not None else ())
                for index in topic.partitions
            ),
            tuple(member.subscribed_topic_names),
        )
        for member in row.members
    )
    return GroupView(group_id, row.group_state, CONSUMER_TYPE, row.assignor_name, node_id, row.group_epoch, members)


async def _describe_classic(cluster: Cluster, connection: BrokerConnection, group_id: str, node_id: int) -> GroupView:
    response: DescribeGroupsResponse = await connection.request(
        ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(groups=[group_id]), timeout_s=cluster.timeout_s
    )
    (row,) = response.groups
    if row.error_code == ErrorCode.GROUP_ID_NOT_FOUND or (row.error_code == 0 and row.group_state == DEAD):
        raise GroupNotFound(group_id)
    raise_for(row.error_code, row.error_message, subject=group_id)
    members = tuple(
        MemberView(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            _assigned(row.protocol_type, member.member_assignment),
            _subscribed(row.protocol_type, member.member_metadata),
        )
        for member in row.members
    )
    return GroupView(group_id, row.group_state, "classic", row.protocol_data, node_id, None, members)


def _assigned(protocol_type: str, assignment: bytes) -> tuple[TopicPartition, ...]:
    """What a member owns, where the group uses the consumers' own format."""
    if protocol_type != CONSUMER_PROTOCOL or not assignment:
        return ()
    try:
        reader = Reader(bytes(assignment))
        found = decode_consumer_protocol_assignment(reader, min(int(reader.i16()), 3))
    except WireError:
        return ()
    return tuple(
        TopicPartition(topic.topic, index) for topic in found.assigned_partitions for index in topic.partitions
    )


def _subscribed(protocol_type: str, metadata: bytes) -> tuple[str, ...]:
    """The topics a member asks for, where the group uses the consumers' own format."""
    if protocol_type != CONSUMER_PROTOCOL or not metadata:
        return ()
    try:
        reader = Reader(bytes(metadata))
        found = decode_consumer_protocol_subscription(reader, min(int(reader.i16()), 3))
    except WireError:
        return ()
    return tuple(found.topics)


# -- offsets ---------------------------------------------------------------------------------------------------------


async def committed_offsets(cluster: Cluster, group_id: str) -> dict[TopicPartition, Committed]:
    """Everything the group has committed, by topic and partition."""

    async def ask(_: int, connection: BrokerConnection) -> dict[TopicPartition, Committed]:
        version = connection.version_for(ApiKey.OFFSET_FETCH, NEWEST_BY_NAME)
        request = OffsetFetchRequest(
            group_id=group_id,
            topics=None,
            groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)],
        )
        response: OffsetFetchResponse = await connection.request(
            ApiKey.OFFSET_FETCH, request, timeout_s=cluster.timeout_s, newest=NEWEST_BY_NAME
        )
        top: Any = response.groups[0] if version >= GROUPS_FROM else response
        raise_for(top.error_code, subject=group_id)
        found: dict[TopicPartition, Committed] = {}
        for topic in top.topics:
            for row in topic.partitions:
                raise_for(row.error_code, subject=group_id)
                if row.committed_offset >= 0:
                    partition = TopicPartition(topic.name, row.partition_index)
                    found[partition] = Committed(row.committed_offset, row.committed_leader_epoch, row.metadata or "")
        return dict(sorted(found.items()))

    return await at_coordinator(cluster, group_id, ask)


async def commit_offsets(
    cluster: Cluster,
    group_id: str,
    offsets: Mapping[TopicPartition, Committed],
    *,
    member_id: str = "",
    epoch: int = -1,
) -> None:
    """Commit as a member, or for a group without members; one with members refuses strangers (UNKNOWN_MEMBER_ID)."""

    async def ask(_: int, connection: BrokerConnection) -> None:
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index,
                            committed_offset=value.offset,
                            committed_leader_epoch=value.leader_epoch,
                            committed_metadata=value.metadata,
                        )
                        for index, value in rows.items()
                    ],
                )
                for topic, rows in group_by_topic(offsets).items()
            ],
        )
        response: OffsetCommitResponse = await connection.request(
            ApiKey.OFFSET_COMMIT, request, timeout_s=cluster.timeout_s, newest=NEWEST_BY_NAME
        )
        for topic_row in response.topics:
            for row in topic_row.partitions:
                occupied = row.error_code == ErrorCode.UNKNOWN_MEMBER_ID
                raise_for(row.error_code, subject=group_id if occupied else f"{topic_row.name}-{row.partition_index}")

    await at_coordinator(cluster, group_id, ask)


async def delete_offsets(cluster: Cluster, group_id: str, partitions: Sequence[TopicPartition]) -> None:
    """Forget committed offsets of topics that no member subscribes to."""

    async def ask(_: int, connection: BrokerConnection) -> None:
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in rows]
                )
                for topic, rows in group_by_topic(dict.fromkeys(partitions)).items()
            ],
        )
        response: OffsetDeleteResponse = await connection.request(
            ApiKey.OFFSET_DELETE, request, timeout_s=cluster.timeout_s
        )
        raise_for(response.error_code, subject=group_id)
        for topic_row in response.topics:
            for row in topic_row.partitions:
                raise_for(row.error_code, subject=f"{topic_row.name}-{row.partition_index}")

    await at_coordinator(cluster, group_id, ask)


async def delete_group(cluster: Cluster, group_id: str) -> None:
    async def ask(_: int, connection: BrokerConnection) -> None:
        response: DeleteGroupsResponse = await connection.request(
            ApiKey.DELETE_GROUPS, DeleteGroupsRequest(groups_names=[group_id]), timeout_s=cluster.timeout_s
        )
        for row in response.results:
            raise_for(row.error_code, subject=group_id)

    await at_coordinator(cluster, group_id, ask)
