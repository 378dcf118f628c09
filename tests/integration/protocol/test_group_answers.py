"""What groups answer field by field, where it is easy to be almost right. Every case holds for Kafka 4.3, too."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.admin import KafkaAdminClient, MemberToRemove

from moldau.wire.apis import ApiKey
from moldau.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from moldau.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.wire.messages.list_groups import ListGroupsRequest
from moldau.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.integration.protocol.wire import Wire, until

NONE = 0
UNKNOWN_TOPIC_OR_PARTITION = 3
UNKNOWN_MEMBER_ID = 25
UNSUPPORTED_VERSION = 35
FENCED_INSTANCE_ID = 82
STALE_MEMBER_EPOCH = 113


def consumer_joins(wire: Wire, group: str, member: str, topic: str = "", instance: str | None = None) -> Any:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=0,
        instance_id=instance,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[topic] if topic else [],
        topic_partitions=[],
    )
    answer = wire.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
    assert (answer.error_code, answer.error_message) == (NONE, None)
    return answer


def classic_joins(wire: Wire, group: str, topic: str) -> str:
    """Join alone, in a version that needs no known member id first."""
    name = topic.encode()
    subscription = b"\0\0" + (1).to_bytes(4, "big") + len(name).to_bytes(2, "big") + name + bytes(4)
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
    )
    answer = wire.ask(ApiKey.JOIN_GROUP, 3, request)
    assert answer.error_code == NONE
    return str(answer.member_id)


def described(wire: Wire, group: str) -> Any:
    return wire.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest(group_ids=[group])).groups[0]


def leave(wire: Wire, group: str, *members: tuple[str, str | None], version: int = 5) -> Any:
    rows = [MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in members]
    request = LeaveGroupRequest(group_id=group, member_id=members[0][0], members=rows)
    return wire.ask(ApiKey.LEAVE_GROUP, version, request)


def errors_of(answer: Any) -> list[tuple[str, str | None, int]]:
    return [(row.member_id, row.group_instance_id, row.error_code) for row in answer.members]


def commit(wire: Wire, version: int, group: str, member: str, epoch: int, topic: str) -> dict[tuple[str, int], int]:
    """Errors of a commit for a partition that is there and one that is not, and for a topic that is not."""
    wanted = {topic: (0, 9), "nowhere": (0,)}
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member,
        retention_time_ms=-1,
        topics=[
            OffsetCommitRequestTopic(
                name=name,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in indexes
                ],
            )
            for name, indexes in wanted.items()
        ],
    )
    answer = wire.ask(ApiKey.OFFSET_COMMIT, version, request)
    return {(row.name, cell.partition_index): cell.error_code for row in answer.topics for cell in row.partitions}


# -- leaving ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [3, 5])
def test_who_leaves_an_unknown_group_is_told_for_each_member(wire: Wire, group: str, version: int) -> None:
    answer = leave(wire, group, ("m", None), ("", "i"), version=version)
    assert answer.error_code == NONE
    assert errors_of(answer) == [("m", None, UNKNOWN_MEMBER_ID), ("", "i", UNKNOWN_MEMBER_ID)]


@pytest.mark.parametrize("version", [0, 2])
def test_one_that_leaves_an_unknown_group_is_told_at_the_top(wire: Wire, group: str, version: int) -> None:
    assert leave(wire, group, ("m", None), version=version).error_code == UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", [2, 5])
def test_an_administrator_removes_a_member_of_the_consumer_protocol(
    wire: Wire, topic: str, group: str, version: int
) -> None:
    consumer_joins(wire, group, "a", topic)
    consumer_joins(wire, group, "b", topic)
    epoch = described(wire, group).group_epoch
    answer = leave(wire, group, ("a", None), version=version)
    assert answer.error_code == NONE
    assert errors_of(answer) == ([("a", None, NONE)] if version >= 3 else [])
    left = described(wire, group)
    assert ([row.member_id for row in left.members], left.group_epoch) == (["b"], epoch + 1)


def test_an_administrator_removes_instances_by_name_and_is_told_what_it_asked(
    wire: Wire, topic: str, group: str
) -> None:
    consumer_joins(wire, group, "a", topic, "one")
    consumer_joins(wire, group, "b", topic, "two")
    answer = leave(wire, group, ("", "one"), ("x", "two"), ("b", "none"), ("z", None))
    assert errors_of(answer) == [
        ("", "one", NONE),
        ("x", "two", FENCED_INSTANCE_ID),
        ("b", "none", UNKNOWN_MEMBER_ID),
        ("z", None, UNKNOWN_MEMBER_ID),
    ]
    assert [row.member_id for row in described(wire, group).members] == ["b"]


def test_a_group_whose_last_consumer_is_removed_goes_back_to_its_classic_members(
    wire: Wire, topic: str, group: str
) -> None:
    classic_joins(wire, group, topic)
    consumer_joins(wire, group, "a", topic)
    assert [row.member_type for row in sorted(described(wire, group).members, key=lambda row: row.member_type)] == [
        0,
        1,
    ]
    assert errors_of(leave(wire, group, ("a", None))) == [("a", None, NONE)]
    listed = wire.ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest()).groups
    assert [row.group_type for row in listed if row.group_id == group] == ["classic"]


# -- commits ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 8, 9])
def test_a_refused_commit_still_tells_which_partitions_do_not_exist(
    wire: Wire, topic: str, group: str, version: int
) -> None:
    consumer_joins(wire, group, "a", topic)
    assert commit(wire, version, group, "stranger", 1, topic) == {
        (topic, 0): UNKNOWN_MEMBER_ID,
        (topic, 9): UNKNOWN_TOPIC_OR_PARTITION,
        ("nowhere", 0): UNKNOWN_TOPIC_OR_PARTITION,
    }


@pytest.mark.parametrize("version", [2, 5, 8])
@pytest.mark.parametrize("epoch", [-1, 1, 2])
def test_members_of_the_consumer_protocol_cannot_commit_in_versions_without_member_epochs(
    wire: Wire, topic: str, group: str, version: int, epoch: int
) -> None:
    consumer_joins(wire, group, "a", topic)
    assert commit(wire, version, group, "a", epoch, topic)[topic, 0] == UNSUPPORTED_VERSION


def test_from_version_9_on_a_commit_of_another_epoch_is_stale(wire: Wire, topic: str, group: str) -> None:
    epoch = consumer_joins(wire, group, "a", topic).member_epoch
    assert commit(wire, 9, group, "a", epoch, topic)[topic, 0] == NONE
    assert commit(wire, 9, group, "a", epoch - 1, topic)[topic, 0] == STALE_MEMBER_EPOCH


# -- members of the consumer protocol --------------------------------------------------------------------------------


def test_the_first_member_finds_epoch_2(wire: Wire, topic: str, group: str) -> None:
    assert consumer_joins(wire, group, "a", topic).member_epoch == 2
    found = described(wire, group)
    assert (found.group_epoch, found.assignment_epoch) == (2, 2)


def test_a_member_without_a_pattern_is_described_with_an_empty_one(wire: Wire, topic: str, group: str) -> None:
    consumer_joins(wire, group, "a", topic)
    assert described(wire, group).members[0].subscribed_topic_regex == ""


def test_a_member_that_subscribes_to_nothing_finds_epoch_1_and_leaves_the_group_as_it_is(
    wire: Wire, topic: str, group: str
) -> None:
    assert consumer_joins(wire, group, "a").member_epoch == 1
    assert consumer_joins(wire, group, "b").member_epoch == 1
    found = described(wire, group)
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Stable", 1, 1)


def test_what_a_member_no_longer_subscribes_to_it_is_told_to_give_up_at_once(
    wire: Wire, topic: str, group: str
) -> None:
    # Kafka's coordinator may not have heard of the topic yet; it shares out anew when it has.
    until(lambda: consumer_joins(wire, group, "a", topic).assignment.topic_partitions != [])
    epoch = described(wire, group).members[0].member_epoch
    told = wire.ask(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        1,
        ConsumerGroupHeartbeatRequest(
            group_id=group, member_id="a", member_epoch=epoch, subscribed_topic_names=["nowhere"]
        ),
    )
    assert (told.error_code, told.member_epoch, told.assignment.topic_partitions) == (NONE, epoch, [])
    (member,) = described(wire, group).members
    assert [(row.topic_name, row.partitions) for row in member.assignment.topic_partitions] == [(topic, [0, 1])]


# -- coordinators ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 3])
def test_a_found_coordinator_comes_with_the_word_none_up_to_version_3(wire: Wire, group: str, version: int) -> None:
    answer = wire.ask(ApiKey.FIND_COORDINATOR, version, FindCoordinatorRequest(key=group))
    assert (answer.error_code, answer.error_message) == (NONE, "NONE")


@pytest.mark.parametrize("version", [4, 6])
def test_a_found_coordinator_comes_without_a_word_from_version_4_on(wire: Wire, group: str, version: int) -> None:
    answer = wire.ask(ApiKey.FIND_COORDINATOR, version, FindCoordinatorRequest(coordinator_keys=[group]))
    assert [(row.error_code, row.error_message) for row in answer.coordinators] == [(NONE, "")]


# -- with a client ---------------------------------------------------------------------------------------------------


def test_an_admin_client_removes_members(wire: Wire, bootstrap: str, topic: str, group: str) -> None:
    consumer_joins(wire, group, "a", topic)
    consumer_joins(wire, group, "b", topic, "two")
    wanted = [MemberToRemove(member_id="a"), MemberToRemove(group_instance_id="two"), MemberToRemove(member_id="z")]
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        told = admin.remove_group_members(group, wanted)
    finally:
        admin.close()
    assert [error.errno for error in told.values()] == [NONE, NONE, UNKNOWN_MEMBER_ID]
    assert described(wire, group).members == []
