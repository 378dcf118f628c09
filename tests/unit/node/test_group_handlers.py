"""The handlers of groups on a whole node without sockets: what each version is told, and what time and crashes do."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

from moldau.broker.shards.runtime import ShardRuntime, ShardState
from moldau.core.metadata.commands import DeleteTopics, TopicRef
from moldau.model.errors import ErrorCode
from moldau.node.compose import Node
from moldau.server.handlers import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from moldau.server.parking import Parked
from moldau.wire.apis import ApiKey, decode_response, encode_response
from moldau.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from moldau.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.wire.messages.delete_groups import DeleteGroupsRequest
from moldau.wire.messages.describe_groups import DescribeGroupsRequest
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.heartbeat import HeartbeatRequest
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.wire.messages.list_groups import ListGroupsRequest
from moldau.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from moldau.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from moldau.wire.primitives import Reader, Writer

from .nodes import Machine, context, create, on_a_machine, submit

KEYS = {
    consumer_group_describe: ApiKey.CONSUMER_GROUP_DESCRIBE,
    consumer_group_heartbeat: ApiKey.CONSUMER_GROUP_HEARTBEAT,
    delete_groups: ApiKey.DELETE_GROUPS,
    describe_groups: ApiKey.DESCRIBE_GROUPS,
    find_coordinator: ApiKey.FIND_COORDINATOR,
    heartbeat: ApiKey.HEARTBEAT,
    join_group: ApiKey.JOIN_GROUP,
    leave_group: ApiKey.LEAVE_GROUP,
    list_groups: ApiKey.LIST_GROUPS,
    offset_commit: ApiKey.OFFSET_COMMIT,
    offset_delete: ApiKey.OFFSET_DELETE,
    offset_fetch: ApiKey.OFFSET_FETCH,
    sync_group: ApiKey.SYNC_GROUP,
}


async def ask(module: Any, request: Any, node: Node, version: int) -> Any:
    """The answer as the client decodes it: through the bytes of that version."""
    reply = module.handle(request, context(node, version))
    if inspect.isawaitable(reply):
        reply = await reply
    if isinstance(reply, Parked):
        reply = await parked(reply)
    writer = Writer()
    encode_response(KEYS[module], version, reply, writer)
    return decode_response(KEYS[module], version, Reader(writer.take_bytes()))


async def parked(answer: Parked) -> Any:
    if not answer.done:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.deliver = future.set_result
        return await future
    return answer.early


async def ready(machine: Machine, **settings: str) -> Node:
    """A node with a topic `t` of two partitions, whose coordinator has been asked for."""
    node = await machine.start(group_initial_rebalance_delay_ms="0", **settings)
    await create(node, "t", 2)
    found = await ask(find_coordinator, FindCoordinatorRequest(key="g"), node, 0)
    assert found.error_code == 0
    return node


def join(member_id: str = "", group_id: str = "g", **fields: Any) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"what I want")]
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=protocols,
        **fields,
    )


async def one_member(node: Node, version: int = 9, group_id: str = "g") -> tuple[str, int]:
    """Join and sync as the only member: its id and generation."""
    told = await ask(join_group, join(group_id=group_id), node, version)
    if told.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        told = await ask(join_group, join(told.member_id, group_id), node, version)
    assert (told.error_code, told.leader) == (0, told.member_id)
    synced = SyncGroupRequest(
        group_id=group_id,
        generation_id=told.generation_id,
        member_id=told.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=told.member_id, assignment=b"what I got")],
    )
    answer = await ask(sync_group, synced, node, min(version, 5))
    assert (answer.error_code, answer.assignment) == (0, b"what I got")
    return told.member_id, told.generation_id


def commit(offsets: dict[int, int], member_id: str = "", generation: int = -1, **fields: Any) -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata=None)
        for index, offset in offsets.items()
    ]
    topic = OffsetCommitRequestTopic(
        name=fields.pop("name", "t"), topic_id=fields.pop("topic_id", bytes(16)), partitions=partitions
    )
    return OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=generation, member_id=member_id, topics=[topic], **fields
    )


async def fetched(node: Node) -> dict[tuple[str, int], int]:
    """Everything group `g` has."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    (group,) = (await ask(offset_fetch, request, node, 9)).groups
    assert group.error_code == 0
    return {(t.name, p.partition_index): p.committed_offset for t in group.topics for p in t.partitions}


# -- finding ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_is_found_and_its_topic_made_on_first_need(version: int) -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        assert "__consumer_offsets" not in node.images.image.topics_by_name
        request = FindCoordinatorRequest(key="g", coordinator_keys=["g", "h"])
        told = await ask(find_coordinator, request, node, version)
        rows = told.coordinators if version >= 4 else [told]
        assert [(row.error_code, row.node_id, row.host, row.port) for row in rows] == [(0, 1, "node", 9092)] * len(rows)
        if version >= 4:
            assert [row.key for row in rows] == ["g", "h"]
        topic = node.images.image.topics_by_name["__consumer_offsets"]
        assert len(topic.partitions) == 50
        log = node.partitions.get("__consumer_offsets", 0)
        assert log is not None
        assert log.log.settings.compact
        assert log.log.settings.segment_bytes == 104_857_600

    on_a_machine(scenario)


@pytest.mark.parametrize("key_type", [2, 9])
def test_coordinators_that_do_not_exist_are_an_invalid_request(key_type: int) -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        request = FindCoordinatorRequest(key="g", key_type=key_type, coordinator_keys=["g"])
        (row,) = (await ask(find_coordinator, request, node, 6)).coordinators
        assert (row.error_code, row.node_id, row.port) == (ErrorCode.INVALID_REQUEST, -1, -1)
        assert (await ask(find_coordinator, request, node, 1)).error_code == ErrorCode.INVALID_REQUEST

    on_a_machine(scenario)


def test_before_the_topic_exists_nobody_is_coordinator() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "t", 2)
        assert (await ask(heartbeat, HeartbeatRequest(group_id="g"), node, 4)).error_code == ErrorCode.NOT_COORDINATOR
        told = await ask(offset_commit, commit({0: 1}), node, 8)
        assert told.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        listed = await ask(list_groups, ListGroupsRequest(), node, 5)
        assert (listed.error_code, listed.groups) == (0, [])

    on_a_machine(scenario)


# -- membership ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_in_every_version(version: int) -> None:
    async def scenario(machine: Machine) -> None:
        node = await ready(machine)
        member_id, generation = await one_member(node, version)
        beat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
        assert (await ask(heartbeat, beat, node, min(version, 4))).error_code == 0
        beat.generation_id += 1
        assert (await ask(heartbeat, beat, node, 0)).error_code == ErrorCode.ILLEGAL_GENERATION

    on_a_machine(scenario)


@pytest.mark.parametrize(("version", "nothing"), [(6, ""), (7, None)])
def test_a_refused_join_has_an_empty_protocol_until_version_7(version: int, nothing: str | None) -> None:
    async def scenario(machine: Machine) -> None:
        node = await ready(machine)
        told = await ask(join_group, join(group_id=""), node, version)
        assert (told.error_code, told.protocol_name, told.generation_id) == (ErrorCode.INVALID_GROUP_ID, nothing, -1)
        told = await ask(join_group, join(), node, version)
        assert (told.error_code, told.protocol_name) == (ErrorCode.MEMBER_ID_REQUIRED, nothing)
        assert told.member_id.startswith("test-")

    on_a_machine(scenario)


def test_empty_group_ids_are_invalid() -> None:
    async def scenario(machine: Machine) -> None:
        node = await ready(machine)
        asked = [
            (heartbeat, HeartbeatRequest(), 4),
            (leave_group, LeaveGroupRequest(), 5),
            (sync_group, SyncGroupRequest(protocol_type="consumer", protocol_name="range"), 5),
            (offset_delete, OffsetDeleteRequest(), 0),
        ]
        for module, request, version in asked:
            assert (await ask(module, request, node, version)).error_code == ErrorCode.INVALID_GROUP_ID

    on_a_machine(scenario)


def test_a_sync_must_name_the_protocol_from_version_5_on() -> None:
    async def scenario(machine: Machine) -> None:
        node = await ready(machine)
        request = SyncGroupRequest(group_id="g", generation_id=1, member_id="m")
        assert (await ask(sync_group, request, node, 5)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert (await ask(sync_group, request, node, 4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    on_a_machine(scenario)


def test_one_leaves_at_the_top_and_several_each_for_itself() -> None:
    async def scenario(machine: Machine) -> None:
        node = await ready(machine)
        member_id, _ = await one_member(node)
        told = await ask(leave_group, LeaveGroupRequest(group_id="g", member_id="nobody"), node, 2)
        assert told.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        members = [MemberIdentity(member_id="nobody"), MemberIdentity(member_id=member_id, reason="done")]
        told = await ask(leave_group, LeaveGroupRequest(group_id="g", members=members), node, 5)
        assert told.error_code == 0
        assert [row.error_code for row in told.members] == [ErrorCode.UNKNOWN_MEMBER_ID, 0]
        (group,) = (await ask(describe_groups, DescribeGroupsRequest(groups=["g"]), node, 5)).groups
        assert group.group_state == "Empty"

    on_a_machine(scenario)


def test_a_silent_member_is_removed_when_its_session_ends() -> None:
    async def scenario(machine: Machine) -> None:
        node = await ready(machine)
        await one_member(node)
        await asyncio.sleep(9.9)
        (group,) = (await ask(describe_groups, DescribeGroupsRequest(groups=["g"]), node, 5)).groups
        assert (group.group_state, len(group.members)) == ("Stable", 1)
        await asyncio.sleep(0.2)
        (group,) = (await ask(describe_groups, DescribeGroupsRequest(groups=["g"]), node, 5)).groups
        assert (group.group_state, len(group.members)) == ("Empty", 0)

    on_a_machine(scenario)


def test_members_and_offsets_survive_a_crash_with_full_timeouts() -> None:
    async def scenario(machine: Machine) -> None:
        node = await ready(machine)
        member_id, generation = await one_member(node)
        told = await ask(offset_commit, commit({0: 7}, member_id, generation), node, 8)
        assert told.topics[0].partitions[0].error_code == 0
        await asyncio.sleep(8)
        machine.kill()
        node = await machine.start()
        await asyncio.sleep(8)
        beat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
        assert (await ask(heartbeat, beat, node, 4)).error_code == 0
        assert await fetched(node) == {("t", 0): 7}
        await asyncio.sleep(11)
        assert (await ask(heartbeat, beat, node, 4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    on_a_machine(scenario)


def test_while_the_coordinator_loads_heartbeats_are_trusted_and_others_wait() -> None:
    async def scenario(machine: Machine) -> None:
        node = await ready(machine)
        member_id, generation = await one_member(node)
        assert node.groups is not None
        shard = node.groups.shards.find("g")
        assert isinstance(shard, ShardRuntime)
        shard.state = ShardState.LOADING
        beat = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
        assert (await ask(heartbeat, beat, node, 4)).error_code == 0
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        told = await ask(describe_groups, DescribeGroupsRequest(groups=["g"]), node, 5)
        assert told.groups[0].error_code == loading
        listed = await ask(list_groups, ListGroupsRequest(), node, 5)
        assert (listed.error_code, listed.groups) == (loading, [])

    on_a_machine(scenario)


# -- offsets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 11))
def test_offsets_are_committed_in_every_version(version: int) -> None:
    async def scenario(machine: Machine) -> None:
        node = await ready(machine)
        topic_id = node.images.image.topics_by_name["t"].topic_id
        told = await ask(offset_commit, commit({0: 5, 1: 6, 2: 7}, topic_id=topic_id), node, version)
        (topic,) = told.topics
        assert (topic.topic_id if version >= 10 else topic.name) == (topic_id if version >= 10 else "t")
        missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [row.error_code for row in topic.partitions] == [0, 0, missing]
        assert await fetched(node) == {("t", 0): 5, ("t", 1): 6}

    on_a_machine(scenario)


def test_unknown_topics_are_refused_by_name_and_by_id() -> None:
    async def scenario(machine: Machine) -> None:
        node = await ready(machine)
        told = await ask(offset_commit, commit({0: 5}, name="nowhere"), node, 9)
        assert told.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        told = await ask(offset_commit, commit({0: 5}, topic_id=b"x" * 16), node, 10)
        assert told.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert await fetched(node) == {}

    on_a_machine(scenario)


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_member_of_no_group_is_told_what_its_version_knows(version: int, code: ErrorCode) -> None:
    async def scenario(machine: Machine) -> None:
        node = await ready(machine)
        told = await ask(offset_commit, commit({0: 5}, "somebody", 3), node, version)
        assert told.topics[0].partitions[0].error_code == code

    on_a_machine(scenario)


@pytest.mark.parametrize("version", range(1, 11))
def test_offsets_are_fetched_in_every_version(version: int) -> None:
    async def scenario(machine: Machine) -> None:
        node = await ready(machine)
        await ask(offset_commit, commit({1: 6}), node, 9)
        topic_id = node.images.image.topics_by_name["t"].topic_id
        request = OffsetFetchRequest(
            group_id="g",
            topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])],
            groups=[
                OffsetFetchRequestGroup(
                    group_id="g",
                    topics=[OffsetFetchRequestTopics(name="t", topic_id=topic_id, partition_indexes=[0, 1])],
                )
            ],
        )
        told = await ask(offset_fetch, request, node, version)
        (topic,) = told.groups[0].topics if version >= 8 else told.topics
        rows = [(row.partition_index, row.committed_offset, row.metadata, row.error_code) for row in topic.partitions]
        assert rows == [(0, -1, "", 0), (1, 6, "", 0)]
        if version >= 10:
            assert topic.topic_id == topic_id

    on_a_machine(scenario)


def test_where_a_refusal_of_a_fetch_stands() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0])]
        groups = [
            OffsetFetchRequestGroup(group_id="g", topics=None),
            OffsetFetchRequestGroup(group_id="h", topics=None),
        ]
        request = OffsetFetchRequest(group_id="g", topics=topics, groups=groups)
        refused = ErrorCode.NOT_COORDINATOR
        told = await ask(offset_fetch, request, node, 1)
        assert told.topics[0].partitions[0].error_code == refused
        told = await ask(offset_fetch, request, node, 7)
        assert (told.error_code, told.topics) == (refused, [])
        told = await ask(offset_fetch, request, node, 8)
        assert [(group.group_id, group.error_code) for group in told.groups] == [("g", refused), ("h", refused)]

    on_a_machine(scenario)


def test_unknown_topic_ids_are_refused_and_deleted_topics_left_out() -> None:
    async def scenario(machine: Machine) -> None:
        node = await ready(machine)
        await ask(offset_commit, commit({1: 6}), node, 9)
        wanted = [OffsetFetchRequestTopics(topic_id=b"x" * 16, partition_indexes=[3])]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=wanted)])
        (topic,) = (await ask(offset_fetch, request, node, 10)).groups[0].topics
        (row,) = topic.partitions
        assert (row.partition_index, row.committed_offset, row.error_code) == (3, -1, ErrorCode.UNKNOWN_TOPIC_ID)
        await submit(node, DeleteTopics((TopicRef("t"),)))
        assert await fetched(node) == {}
        await create(node, "t", 2)
        assert await fetched(node) == {}

    on_a_machine(scenario)


def test_offsets_of_an_empty_group_expire() -> None:
    async def scenario(machine: Machine) -> None:
        node = await ready(machine, offsets_retention_minutes="1", offsets_retention_check_interval_ms="5000")
        await ask(offset_commit, commit({1: 6}), node, 9)
        await asyncio.sleep(50)
        assert await fetched(node) == {("t", 1): 6}
        await asyncio.sleep(20)
        assert await fetched(node) == {}
        assert (await ask(list_groups, ListGroupsRequest(), node, 5)).groups == []

    on_a_machine(scenario)


def test_offsets_are_deleted_where_nobody_subscribes() -> None:
    async def scenario(machine: Machine) -> None:
        node = await ready(machine)
        await ask(offset_commit, commit({0: 5, 1: 6}), node, 9)
        topic = OffsetDeleteRequestTopic(
            name="t", partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in (1, 9)]
        )
        told = await ask(offset_delete, OffsetDeleteRequest(group_id="g", topics=[topic]), node, 0)
        assert told.error_code == 0
        codes = [row.error_code for row in told.topics[0].partitions]
        assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await fetched(node) == {("t", 0): 5}
        told = await ask(offset_delete, OffsetDeleteRequest(group_id="other", topics=[topic]), node, 0)
        assert (told.error_code, told.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])

    on_a_machine(scenario)


# -- administration --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described_in_every_version(version: int) -> None:
    async def scenario(machine: Machine) -> None:
        node = await ready(machine)
        member_id, _ = await one_member(node)
        request = DescribeGroupsRequest(groups=["g", "none"], include_authorized_operations=version >= 3)
        found, missing = (await ask(describe_groups, request, node, version)).groups
        assert (found.error_code, found.group_state, found.protocol_type) == (0, "Stable", "consumer")
        (member,) = found.members
        assert (member.member_id, member.client_id, member.client_host) == (member_id, "test", "/client")
        assert (member.member_metadata, member.member_assignment) == (b"what I want", b"what I got")
        assert found.authorized_operations == ((1 << 3 | 1 << 6 | 1 << 8 | 3 << 10) if version >= 3 else -(2**31))
        assert missing.group_state == "Dead"
        assert missing.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
        assert missing.error_message == ("Group none not found." if version >= 6 else None)

    on_a_machine(scenario)


def test_groups_are_listed_by_state_and_type() -> None:
    async def scenario(machine: Machine) -> None:
        node = await ready(machine)
        await one_member(node)
        await ask(offset_commit, commit({0: 1}), node, 9)
        await one_member(node, group_id="h")
        simple = commit({0: 1})
        simple.group_id = "simple"
        await ask(offset_commit, simple, node, 9)

        async def listed(version: int, **filters: list[str]) -> list[tuple[str, str, str]]:
            told = await ask(list_groups, ListGroupsRequest(**filters), node, version)
            assert told.error_code == 0
            return sorted((row.group_id, row.group_state, row.group_type) for row in told.groups)

        assert [row[0] for row in await listed(0)] == ["g", "h", "simple"]
        assert await listed(4, states_filter=["empty"]) == [("simple", "Empty", "")]
        assert await listed(5, types_filter=["Consumer"]) == []
        assert await listed(5, types_filter=["classic"], states_filter=["STABLE"]) == [
            ("g", "Stable", "classic"),
            ("h", "Stable", "classic"),
        ]

    on_a_machine(scenario)


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_one_by_one(version: int) -> None:
    async def scenario(machine: Machine) -> None:
        node = await ready(machine)
        await one_member(node)
        simple = commit({0: 1})
        simple.group_id = "simple"
        await ask(offset_commit, simple, node, 9)
        told = await ask(delete_groups, DeleteGroupsRequest(groups_names=["g", "simple", "none"]), node, version)
        codes = [(row.group_id, row.error_code) for row in told.results]
        assert codes == [
            ("g", ErrorCode.NON_EMPTY_GROUP),
            ("simple", 0),
            ("none", ErrorCode.GROUP_ID_NOT_FOUND),
        ]

    on_a_machine(scenario)


# -- the consumer protocol -------------------------------------------------------------------------------------------


def first_beat(**fields: Any) -> ConsumerGroupHeartbeatRequest:
    known: dict[str, Any] = {
        "group_id": "g",
        "member_id": "me",
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
    }
    return ConsumerGroupHeartbeatRequest(**(known | fields))


def test_a_consumer_joins_and_is_described() -> None:
    async def scenario(machine: Machine) -> None:
        node = await ready(machine)
        told = await ask(consumer_group_heartbeat, first_beat(), node, 1)
        assert (told.error_code, told.member_id, told.member_epoch) == (0, "me", 2)
        topic_id = node.images.image.topics_by_name["t"].topic_id
        (row,) = told.assignment.topic_partitions
        assert (row.topic_id, sorted(row.partitions)) == (topic_id, [0, 1])
        request = ConsumerGroupDescribeRequest(group_ids=["g", "none", ""], include_authorized_operations=True)
        found, missing, empty = (await ask(consumer_group_describe, request, node, 1)).groups
        assert (found.group_state, found.group_epoch, found.assignor_name) == ("Stable", 2, "uniform")
        (member,) = found.members
        assert (member.member_id, member.member_type, member.client_host) == ("me", 1, "/client")
        assert member.assignment.topic_partitions[0].topic_name == "t"
        assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert empty.error_code == ErrorCode.INVALID_GROUP_ID

    on_a_machine(scenario)


def test_version_0_members_are_named_by_the_broker() -> None:
    async def scenario(machine: Machine) -> None:
        node = await ready(machine)
        told = await ask(consumer_group_heartbeat, first_beat(member_id=""), node, 0)
        assert told.error_code == 0
        assert told.member_id

    on_a_machine(scenario)


@pytest.mark.parametrize(
    ("fields", "version", "words"),
    [
        ({"group_id": " "}, 1, "GroupId can't be empty."),
        ({"member_id": ""}, 1, "MemberId can't be empty."),
        ({"member_id": "", "member_epoch": 3}, 0, "MemberId can't be empty."),
        ({"instance_id": ""}, 1, "InstanceId can't be empty."),
        ({"rack_id": ""}, 1, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, 1, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, 1, "TopicPartitions must be empty when (re-)joining."),
        (
            {"subscribed_topic_names": None},
            1,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"member_epoch": -2}, 1, "InstanceId can't be null."),
        ({"member_epoch": -3}, 1, "MemberEpoch is invalid."),
    ],
)
def test_heartbeats_that_make_no_sense_are_refused_in_kafkas_words(
    fields: dict[str, Any], version: int, words: str
) -> None:
    async def scenario(machine: Machine) -> None:
        node = await ready(machine)
        told = await ask(consumer_group_heartbeat, first_beat(**fields), node, version)
        assert (told.error_code, told.error_message) == (ErrorCode.INVALID_REQUEST, words)

    on_a_machine(scenario)


def test_the_consumer_protocol_can_be_switched_off() -> None:
    async def scenario(machine: Machine) -> None:
        node = await ready(machine, group_coordinator_rebalance_protocols="classic")
        told = await ask(consumer_group_heartbeat, first_beat(), node, 1)
        assert told.error_code == ErrorCode.UNSUPPORTED_VERSION

    on_a_machine(scenario)
