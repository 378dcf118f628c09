from __future__ import annotations

from typing import Any

import pytest

from moldau.core.group.commands import DeleteGroups, DescribeGroups, ListGroups
from moldau.core.group.consumer.commands import ConsumerHeartbeat
from moldau.core.group.consumer.records import (
    CurrentStored,
    GroupEpochStored,
    MemberState,
    MemberStored,
    TargetEpochStored,
    TargetStored,
)
from moldau.core.group.consumer.replies import ConsumerHeartbeatReply
from moldau.core.group.settings import GroupSettings
from moldau.model.errors import ErrorCode
from tests.unit.core.group.consumer.crowd import EAGER, Client, Crowd, partitions_of, topic_id

ORDERS = topic_id("orders")


def all_of(count: int) -> tuple[tuple[bytes, int], ...]:
    return tuple((ORDERS, index) for index in range(count))


# -- joining ---------------------------------------------------------------------------------------------------------


def test_the_first_member_gets_everything_at_once() -> None:
    crowd = Crowd()
    assert crowd.joins("a") == ConsumerHeartbeatReply("a", 2, 5_000, all_of(6))
    kinds = [type(entry[2]) for entry in crowd.log]
    assert kinds == [MemberStored, GroupEpochStored, TargetStored, TargetEpochStored, CurrentStored]
    assert crowd.group().state_name == "Stable"


def test_a_member_without_a_name_is_given_one_by_version_0() -> None:
    crowd = Crowd()
    reply = crowd.joins("", makes_own_id=False, new_member_id="fresh")
    assert reply.member_id == "fresh"


def test_a_steady_heartbeat_writes_nothing_and_tells_nothing() -> None:
    crowd = Crowd()
    crowd.joins("a")
    before = len(crowd.log)
    assert crowd.heartbeats("a", 2) == ConsumerHeartbeatReply("a", 2, 5_000, None)
    assert len(crowd.log) == before


def test_a_full_heartbeat_is_told_everything_again() -> None:
    crowd = Crowd()
    crowd.joins("a")
    full = {"topics": ("orders",), "rebalance_timeout_ms": 60_000, "owned": frozenset(all_of(6))}
    assert crowd.heartbeats("a", 2, **full).assigned == all_of(6)


def test_a_join_whose_answer_was_lost_is_answered_again_without_a_rebalance() -> None:
    crowd = Crowd()
    crowd.joins("a")
    before = len(crowd.log)
    assert crowd.joins("a") == ConsumerHeartbeatReply("a", 2, 5_000, all_of(6))
    assert len(crowd.log) == before


def test_a_fenced_member_comes_back_under_its_own_id() -> None:
    crowd = Crowd()
    client = Client(crowd, "a")
    client.step()
    other = Client(crowd, "b")
    crowd.settle([client, other])
    assert crowd.error("a", 99) is ErrorCode.FENCED_MEMBER_EPOCH
    reply = crowd.joins("a")
    assert reply.member_epoch == crowd.group().epoch
    assert len(reply.assigned or ()) == 3


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"group_id": ""}, "GroupId"),
        ({"member_id": ""}, "MemberId"),
        ({"instance_id": ""}, "InstanceId"),
        ({"rack_id": ""}, "RackId"),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs"),
        ({"owned": None}, "TopicPartitions"),
        ({"owned": frozenset(all_of(1))}, "TopicPartitions"),
        ({"topics": None}, "SubscribedTopicNames"),
        ({"member_epoch": -3}, "MemberEpoch"),
        ({"member_epoch": -2}, "InstanceId"),
    ],
)
def test_requests_that_make_no_sense_are_refused(change: dict[str, Any], detail: str) -> None:
    crowd = Crowd()
    good = ConsumerHeartbeat("g", "a", 0, rebalance_timeout_ms=1, topics=("orders",), owned=frozenset())
    reply = crowd.do(good._replace(**change))
    assert reply.code is ErrorCode.INVALID_REQUEST
    assert detail in reply.detail
    assert not crowd.log


def test_an_unknown_assignor_is_refused_and_the_known_ones_are_named() -> None:
    reply = Crowd().heartbeats("a", 0, topics=("orders",), owned=frozenset(), rebalance_timeout_ms=1, assignor="sticky")
    assert reply.code is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "uniform, range" in reply.detail


def test_assignors_may_be_configured_by_kafkas_class_names_and_are_never_none() -> None:
    kafka = "org.apache.kafka.coordinator.group.assignor.RangeAssignor"
    for configured, default in (((kafka,), "range"), (("com.example.Mine",), "uniform")):
        crowd = Crowd(EAGER._replace(consumer_assignors=configured))
        crowd.joins("a")
        assert crowd.described().assignor == default


def test_a_full_group_takes_nobody_else() -> None:
    crowd = Crowd(EAGER._replace(consumer_max_size=1))
    crowd.joins("a")
    join = {"topics": ("orders",), "owned": frozenset(), "rebalance_timeout_ms": 1}
    assert crowd.error("b", 0, **join) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert crowd.joins("a").member_epoch == 2


def test_the_assignor_most_members_ask_for_is_used() -> None:
    crowd = Crowd(orders=4, users=4)
    clients = [Client(crowd, name, "orders", "users", assignor="range") for name in "ab"]
    crowd.settle([*clients, Client(crowd, "c", "orders", "users", assignor="uniform")])
    assert crowd.described().assignor == "range"
    assert {(t, i) for t, i in clients[0].owned} == {(topic_id(n), i) for n in ("orders", "users") for i in (0, 1)}


# -- fencing ---------------------------------------------------------------------------------------------------------


def test_strangers_and_strange_epochs_are_turned_away() -> None:
    crowd = Crowd()
    assert crowd.error("a", 1) is ErrorCode.GROUP_ID_NOT_FOUND
    crowd.joins("a")
    assert crowd.error("x", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert crowd.error("a", 3) is ErrorCode.FENCED_MEMBER_EPOCH


def test_the_epoch_before_is_accepted_from_a_member_that_missed_an_answer() -> None:
    crowd = Crowd()
    one, two = Client(crowd, "a"), Client(crowd, "b")
    crowd.settle([one])
    two.step()
    one.step()  # told to give up
    one.owned &= one.told
    one.heartbeat(lost=True)  # confirmed, but it does not hear of its new epoch
    assert crowd.group().members["a"].epoch == 3
    assert one.epoch == 2
    assert one.heartbeat().member_epoch == 3
    assert crowd.error("a", 2, owned=frozenset(all_of(6))) is ErrorCode.FENCED_MEMBER_EPOCH
    assert crowd.error("a", 2) is ErrorCode.FENCED_MEMBER_EPOCH


def test_silence_ends_a_membership() -> None:
    crowd = Crowd()
    one, two = Client(crowd, "a"), Client(crowd, "b")
    crowd.settle([one, two])
    for _ in range(9):
        crowd.advance(5_000)
        one.step()
    assert list(crowd.group().members) == ["a"]
    crowd.settle([one])
    assert partitions_of(one) == [6]
    assert two.heartbeat().code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_may_have_its_own_timeouts() -> None:
    crowd = Crowd()
    crowd.topics.overrides["g"] = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "7000"}
    assert crowd.joins("a").heartbeat_interval_ms == 7_000
    crowd.advance(49_999)
    assert not crowd.group().is_empty
    crowd.advance(1)
    assert crowd.group().is_empty


def test_who_does_not_give_up_in_time_is_fenced_and_nobody_waits_longer() -> None:
    crowd = Crowd()
    one, two = Client(crowd, "a"), Client(crowd, "b")
    crowd.settle([one])
    two.step()
    one.heartbeat()
    assert crowd.group().members["a"].current.state is MemberState.UNREVOKED_PARTITIONS
    for _ in range(11):
        crowd.advance(5_000)
        one.heartbeat()  # alive, but it holds on
        two.step()
    assert partitions_of(two) == [0]
    crowd.advance(5_000)
    assert list(crowd.group().members) == ["b"]
    two.step()
    assert partitions_of(two) == [6]


def test_deadlines_begin_anew_after_a_fail_over() -> None:
    crowd = Crowd()
    one, two = Client(crowd, "a"), Client(crowd, "b")
    crowd.settle([one])
    two.step()
    one.heartbeat()
    crowd.advance(40_000)
    crowd.restart()
    crowd.advance(44_999)
    assert len(crowd.group().members) == 2
    crowd.advance(1)
    assert crowd.group().is_empty


# -- moving ----------------------------------------------------------------------------------------------------------


def test_a_partition_is_handed_on_only_when_it_was_given_up() -> None:
    crowd = Crowd()
    one, two = Client(crowd, "a"), Client(crowd, "b")
    crowd.settle([one])
    assert two.step().assigned == ()
    assert crowd.group().members["b"].current.state is MemberState.UNRELEASED_PARTITIONS
    assert crowd.group().state_name == "Reconciling"
    one.heartbeat()
    assert partitions_of(one, two) == [6, 0]
    two.step()
    assert partitions_of(one, two) == [6, 0]
    one.step()
    two.step()
    assert partitions_of(one, two) == [3, 3]
    assert crowd.group().state_name == "Stable"


def test_leaving_frees_what_one_had() -> None:
    crowd = Crowd()
    one, two = Client(crowd, "a"), Client(crowd, "b")
    crowd.settle([one, two])
    assert two.leave() == ConsumerHeartbeatReply("b", -1)
    one.step()
    assert partitions_of(one) == [6]
    assert one.leave().member_epoch == -1
    assert crowd.group().state_name == "Empty"
    assert crowd.error("a", -1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_come_together_are_served_together() -> None:
    crowd = Crowd(GroupSettings(consumer_assignment_interval_ms=1_000))
    crowd.joins("a")
    assert crowd.joins("b").assigned == ()
    assert crowd.joins("c").member_epoch == 2
    assert crowd.group().state_name == "Assigning"
    assert (crowd.group().epoch, crowd.group().target_epoch) == (4, 2)
    crowd.advance(1_000)
    crowd.heartbeats("a", 2)
    assert (crowd.group().epoch, crowd.group().target_epoch) == (4, 4)
    assert [len(target) for target in crowd.group().targets.values()] == [2, 2, 2]


def test_a_clock_that_was_set_back_does_not_stop_a_group() -> None:
    crowd = Crowd(GroupSettings(consumer_assignment_interval_ms=1_000))
    crowd.joins("a")
    crowd.now = crowd.now._replace(wall_ms=crowd.now.wall_ms - 3_600_000)
    crowd.joins("b")
    assert crowd.group().target_epoch == 3


# -- what tools see --------------------------------------------------------------------------------------------------


def test_groups_are_listed_described_and_deleted() -> None:
    crowd = Crowd()
    client = Client(crowd, "a", rack_id="r1")
    client.step()
    assert [tuple(row) for row in crowd.do(ListGroups()).groups] == [("g", "consumer", "Stable", "consumer")]
    assert crowd.do(ListGroups(types=("classic",))).groups == ()
    group = crowd.described()
    assert (group.state, group.epoch, group.target_epoch, group.assignor) == ("Stable", 2, 2, "uniform")
    member = group.members[0]
    assert (member.member_id, member.rack_id, member.topics, member.member_type) == ("a", "r1", ("orders",), 1)
    assert [(topic.topic, topic.partitions) for topic in member.assigned] == [("orders", (0, 1, 2, 3, 4, 5))]
    assert member.target == member.assigned
    assert "not a classic group" in crowd.do(DescribeGroups(("g",))).groups[0].detail
    assert crowd.do(DeleteGroups(("g",))).groups == (("g", ErrorCode.NON_EMPTY_GROUP),)
    client.leave()
    assert crowd.do(DeleteGroups(("g",))).groups == (("g", ErrorCode.NONE),)
    assert crowd.described().error is ErrorCode.GROUP_ID_NOT_FOUND
    assert not crowd.shard.state.groups


def test_a_classic_group_is_not_described_as_a_consumer_group() -> None:
    crowd = Crowd()
    crowd.join()
    group = crowd.described()
    assert (group.error, group.detail) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a consumer group.")
