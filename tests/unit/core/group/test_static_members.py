from __future__ import annotations

import pytest

from moldau.core.group.commands import LeaveGroup, LeavingMember, OffsetCommit, Protocol, SyncGroup
from moldau.model.errors import ErrorCode
from tests.unit.core.group.stage import REBALANCE_MS, SESSION_MS, Stage, ranged


def static_group(stage: Stage, *instances: str) -> list[str]:
    tickets = [stage.join(instance_id=instance) for instance in instances]
    stage.advance(10_000)
    members = stage.settle(tickets)
    for member in members:
        stage.heartbeat(member, 1)
    return members


def test_a_static_member_needs_no_second_join() -> None:
    stage = Stage()
    ticket = stage.join(instance_id="a", requires_known_member_id=True)
    stage.advance(3_000)
    assert stage.joined(ticket).member_id == "a-1"


def test_a_restarted_follower_takes_over_without_a_rebalance_and_this_is_stored() -> None:
    stage = Stage()
    leader, follower = static_group(stage, "a", "b")
    reply = stage.joined(stage.join(instance_id="b"))
    assert reply.member_id != follower
    assert (reply.generation, reply.leader, reply.members, reply.skip_assignment) == (1, leader, (), False)
    assert stage.state() == "Stable"
    assert stage.heartbeat(leader, 1) is ErrorCode.NONE
    assert stage.synced(stage.sync(reply.member_id, 1, instance_id="b")).assignment == follower.encode()
    stage.restart()
    assert stage.heartbeat(reply.member_id, 1, instance_id="b") is ErrorCode.NONE


def test_a_restarted_leader_is_told_of_a_leader_that_is_gone_so_that_it_does_not_assign() -> None:
    stage = Stage()
    leader, _ = static_group(stage, "a", "b")
    reply = stage.joined(stage.join(instance_id="a"))
    assert (reply.leader, reply.members) == (leader, ())
    assert reply.member_id != leader
    assert stage.live().leader == reply.member_id


def test_a_restarted_leader_that_can_skip_the_assignment_leads_on() -> None:
    stage = Stage()
    static_group(stage, "a", "b")
    reply = stage.joined(stage.join(instance_id="a", supports_skipping_assignment=True))
    assert reply.skip_assignment
    assert reply.leader == reply.member_id
    assert [member.instance_id for member in reply.members] == ["b", "a"]
    follower = stage.joined(stage.join(instance_id="b", supports_skipping_assignment=True))
    assert not follower.skip_assignment
    assert follower.members == ()


def test_the_replaced_member_is_fenced_in_everything() -> None:
    stage = Stage()
    _, old = static_group(stage, "a", "b")
    stage.join(instance_id="b")
    assert stage.heartbeat(old, 1, instance_id="b") is ErrorCode.FENCED_INSTANCE_ID
    assert stage.heartbeat(old, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.answers[stage.join(old, instance_id="b")].error is ErrorCode.FENCED_INSTANCE_ID
    assert stage.do(SyncGroup(-1, "g", 1, old, "b")).error is ErrorCode.FENCED_INSTANCE_ID
    assert stage.do(OffsetCommit("g", 1, old, "b", ())).code is ErrorCode.FENCED_INSTANCE_ID
    left = stage.do(LeaveGroup("g", (LeavingMember(old, "b"),))).members
    assert left[0].error is ErrorCode.FENCED_INSTANCE_ID
    assert stage.state() == "Stable"


def test_an_instance_that_is_no_member_is_unknown() -> None:
    stage = Stage()
    (member,) = static_group(stage, "a")
    assert stage.heartbeat(member, 1, instance_id="z") is ErrorCode.UNKNOWN_MEMBER_ID


def test_two_processes_with_one_instance_id_fence_each_other_while_they_wait() -> None:
    stage = Stage()
    first = stage.join(instance_id="a")
    second = stage.join(instance_id="a")
    assert stage.answers[first].error is ErrorCode.FENCED_INSTANCE_ID
    stage.advance(3_000)
    assert stage.joined(second).generation == 1
    waiting = stage.join(instance_id="b")
    stage.join(stage.joined(second).member_id, instance_id="a")
    sync = stage.sync(stage.joined(waiting).member_id, 2, instance_id="b")
    stage.join(instance_id="b")
    assert stage.synced(sync).error is ErrorCode.FENCED_INSTANCE_ID


def test_a_restart_between_join_and_sync_rebalances_because_the_leader_assigns_to_the_old_id() -> None:
    stage = Stage()
    tickets = [stage.join(instance_id="a"), stage.join(instance_id="b")]
    stage.advance(10_000)
    leader = stage.joined(tickets[0]).member_id
    back = stage.join(instance_id="b")
    assert stage.state() == "PreparingRebalance"
    assert stage.joined(stage.join(leader, instance_id="a")).generation == stage.joined(back).generation == 2


def test_a_restart_that_changes_the_chosen_protocol_rebalances() -> None:
    stage = Stage()
    both = (*ranged("orders"), Protocol("sticky", b"s"))
    tickets = [stage.join(instance_id=name, protocols=both) for name in "ab"]
    stage.advance(10_000)
    stage.settle(tickets)
    assert stage.join(instance_id="b", protocols=(Protocol("sticky", b"s"),)) in stage.waiting
    assert stage.state() == "PreparingRebalance"


def test_absent_static_members_are_kept_over_a_rebalance_and_the_group_does_not_stall() -> None:
    stage = Stage()
    leader, absent = static_group(stage, "a", "b")
    tickets = [stage.join(leader, instance_id="a")]
    for _ in range(REBALANCE_MS // 5_000):
        stage.heartbeat(absent, 1, instance_id="b")
        stage.advance(5_000)
    reply = stage.joined(tickets[0])
    assert (reply.generation, len(reply.members)) == (2, 2)
    assert stage.heartbeat(absent, 1, instance_id="b") is ErrorCode.ILLEGAL_GENERATION


def test_when_only_absent_static_members_are_left_the_rebalance_waits_until_their_sessions_end() -> None:
    stage = Stage()
    dynamic = stage.join()
    static = stage.join(instance_id="a", session_timeout_ms=100_000)
    stage.advance(10_000)
    member, _ = stage.settle([dynamic, static])
    stage.leave(member)
    stage.advance(REBALANCE_MS)
    assert stage.state() == "PreparingRebalance"
    stage.advance(100_000)
    assert stage.state() == "Empty"


def test_a_static_member_is_removed_by_its_session_or_by_an_administrator() -> None:
    stage = Stage()
    _, second, _ = static_group(stage, "a", "b", "c")
    reply = stage.do(LeaveGroup("g", (LeavingMember("", "b"), LeavingMember("", "z"), LeavingMember(second, "b"))))
    assert [member.error for member in reply.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    stage.advance(SESSION_MS)
    assert stage.state() == "Empty"


def test_a_restarted_member_that_never_syncs_is_out_like_the_one_it_replaced() -> None:
    stage = Stage()
    tickets = [stage.join(instance_id=name, session_timeout_ms=200_000) for name in "ab"]
    stage.advance(6_000)
    leader = stage.joined(tickets[0]).member_id
    stage.sync(leader, 1, assignments=((leader, b"all"),))
    back = stage.joined(stage.join(instance_id="b", session_timeout_ms=200_000)).member_id
    stage.advance(REBALANCE_MS)
    assert stage.heartbeat(back, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_static_churn_never_rebalances() -> None:
    stage = Stage()
    static_group(stage, "a", "b", "c")
    for turn in range(12):
        reply = stage.joined(stage.join(instance_id="abc"[turn % 3], supports_skipping_assignment=bool(turn % 2)))
        assert reply.generation == 1
        assert stage.synced(stage.sync(reply.member_id, 1)).error is ErrorCode.NONE
    stage.restart()
    assert len(stage.live().members) == 3


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_a_pending_id_cannot_be_used_with_an_instance_id(order: tuple[str, str]) -> None:
    stage = Stage()
    member = stage.answers[stage.join(requires_known_member_id=True)].member_id
    assert stage.answers[stage.join(member, instance_id=order[0])].error is ErrorCode.UNKNOWN_MEMBER_ID
