from __future__ import annotations

import pytest

from moldau.core.group.commands import LeaveGroup, LeavingMember, SyncGroup
from moldau.core.group.records import GroupStored
from moldau.core.group.replies import LeftMember
from moldau.model.errors import ErrorCode, Refused
from tests.unit.core.group.stage import REBALANCE_MS, SESSION_MS, Stage


def joined(stage: Stage, count: int) -> list[str]:
    tickets = [stage.join() for _ in range(count)]
    stage.advance(10_000)
    return [stage.joined(ticket).member_id for ticket in tickets]


def test_followers_wait_for_the_leader_whose_sync_stores_the_generation() -> None:
    stage = Stage()
    leader, follower, forgotten = joined(stage, 3)
    waiting = [stage.sync(follower, 1), stage.sync(forgotten, 1)]
    assert stage.waiting == set(waiting)
    own = stage.sync(leader, 1, assignments=((leader, b"L"), (follower, b"F"), ("stranger", b"?")))
    assert [stage.synced(ticket).assignment for ticket in (own, *waiting)] == [b"L", b"F", b""]
    assert stage.synced(own).protocol_name == "range"
    stored = stage.log[-1][2]
    assert isinstance(stored, GroupStored)
    assert stored.value is not None
    assert {m.member_id: m.assignment for m in stored.value.members} == {leader: b"L", follower: b"F", forgotten: b""}
    assert (stored.value.generation, stored.value.leader, stored.value.protocol) == (1, leader, "range")
    assert stage.synced(stage.sync(follower, 1)).assignment == b"F"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_sync_that_does_not_fit_is_refused(changes: dict[str, object], error: ErrorCode) -> None:
    stage = Stage()
    leader, _ = joined(stage, 2)
    assert stage.do(SyncGroup(-1, "g", 1, leader)._replace(**changes)).error is error


def test_a_waiting_sync_is_sent_back_when_the_door_opens_again() -> None:
    stage = Stage()
    _leader, follower = joined(stage, 2)
    ticket = stage.sync(follower, 1)
    stage.join()
    assert stage.synced(ticket).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.synced(stage.sync(follower, 1)).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_members_that_never_sync_are_out_after_the_rebalance_timeout() -> None:
    stage = Stage()
    leader, follower = stage.stable(2)
    again = [stage.join(leader), stage.join(follower)]
    assert [stage.joined(ticket).generation for ticket in again] == [2, 2]
    stage.sync(leader, 2, assignments=((leader, b"x"),))
    for _ in range(REBALANCE_MS // 5_000):
        for member in (leader, follower):
            assert stage.heartbeat(member, 2) is ErrorCode.NONE
        stage.advance(5_000)
    assert stage.heartbeat(follower, 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.heartbeat(leader, 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_heartbeats_keep_a_member_and_silence_removes_it() -> None:
    stage = Stage()
    first, second = stage.stable(2)
    for _ in range(3):
        stage.advance(SESSION_MS - 1)
        assert stage.heartbeat(first, 1) in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
    assert stage.heartbeat(second, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.state() == "PreparingRebalance"


@pytest.mark.parametrize(
    ("member", "generation", "group", "error"),
    [
        (None, 0, "g", ErrorCode.ILLEGAL_GENERATION),
        (None, 2, "g", ErrorCode.ILLEGAL_GENERATION),
        ("x", 1, "g", ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 1, "h", ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 1, "", ErrorCode.INVALID_GROUP_ID),
    ],
)
def test_a_heartbeat_that_does_not_fit_is_refused(
    member: str | None, generation: int, group: str, error: ErrorCode
) -> None:
    stage = Stage()
    (known,) = stage.stable(1)
    assert stage.heartbeat(member or known, generation, group) is error


def test_waiting_members_need_not_heartbeat() -> None:
    stage = Stage()
    first, second = stage.stable(2, rebalance_timeout_ms=100_000)
    stage.heartbeat(second, 1)
    ticket = stage.join(first, rebalance_timeout_ms=100_000)
    for _ in range(5):
        stage.advance(SESSION_MS - 1)
        assert stage.heartbeat(second, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert ticket in stage.waiting
    stage.joined(stage.join(second))
    assert stage.joined(ticket).generation == 2


def test_when_all_have_left_the_group_is_stored_empty_with_the_next_generation() -> None:
    stage = Stage()
    members = stage.stable(2)
    reply = stage.leave(*members, "stranger")
    assert [left.error for left in reply.members] == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    stored = stage.log[-1][2].value
    assert (stored.generation, stored.members, stored.protocol, stored.leader) == (2, (), None, None)
    assert stored.protocol_type == "consumer"
    assert stage.state() == "Empty"
    assert not stage.shard.soft.classic


def test_the_rest_rebalances_when_one_leaves_and_completes_when_the_last_absent_one_leaves() -> None:
    stage = Stage()
    first, second, third = stage.stable(3)
    stage.leave(first)
    assert stage.heartbeat(second, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    ticket = stage.join(second)
    stage.leave(third)
    assert stage.joined(ticket).leader == second


def test_a_member_that_leaves_while_it_waits_is_told_so() -> None:
    stage = Stage()
    first, second = stage.stable(2)
    ticket = stage.join(first)
    stage.leave(first)
    assert stage.answers[ticket].error is ErrorCode.UNKNOWN_MEMBER_ID
    leader = stage.joined(stage.join(second))
    newcomer = stage.join()
    stage.join(second)
    waiting = stage.sync(stage.joined(newcomer).member_id, leader.generation + 1)
    stage.leave(stage.joined(newcomer).member_id)
    assert stage.synced(waiting).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_member_can_leave() -> None:
    stage = Stage()
    member = stage.answers[stage.join(requires_known_member_id=True)].member_id
    assert stage.leave(member).members[0].error is ErrorCode.NONE
    assert not stage.shard.soft.classic


def test_leaving_nowhere_is_refused() -> None:
    stage = Stage()
    reply = stage.do(LeaveGroup("nowhere", (LeavingMember("x", None), LeavingMember("", "i"))))
    assert reply.members == (
        LeftMember("x", None, ErrorCode.UNKNOWN_MEMBER_ID),
        LeftMember("", "i", ErrorCode.UNKNOWN_MEMBER_ID),
    )
    assert stage.leave("x", group="").code is ErrorCode.INVALID_GROUP_ID
    stage.stable(1)
    reply = stage.do(LeaveGroup("g", (LeavingMember("", None), LeavingMember("", "nobody"))))
    assert [left.error for left in reply.members] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert stage.state() == "Stable"


def test_after_a_restart_members_have_a_full_session_and_go_on_where_they_were() -> None:
    stage = Stage()
    first, second = stage.stable(2)
    stage.advance(SESSION_MS - 1)
    stage.restart()
    stage.advance(SESSION_MS - 1)
    assert stage.heartbeat(first, 1) is ErrorCode.NONE
    assert stage.synced(stage.sync(second, 1)).assignment == second.encode()


def test_a_generation_the_log_does_not_take_is_agreed_on_anew() -> None:
    stage = Stage()
    leader, follower = joined(stage, 2)
    waiting = stage.sync(follower, 1)
    stage.fails = Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "too large")
    own = stage.sync(leader, 1, assignments=((leader, b"L"), (follower, b"F")))
    assert stage.answers[own].code is stage.answers[waiting].code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert stage.state() == "PreparingRebalance"
    tickets = [stage.join(leader), stage.join(follower)]
    assert stage.settle(tickets) == [leader, follower]


def test_a_group_that_could_not_be_stored_at_first_is_not_there() -> None:
    stage = Stage()
    stage.fails = Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    ticket = stage.join()
    assert stage.answers[ticket].code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not stage.shard.soft.classic
    stage.stable(1)


def test_members_are_watched_again_if_their_leaving_could_not_be_stored() -> None:
    stage = Stage()
    (member,) = stage.stable(1)
    stage.fails = Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert stage.leave(member).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.heartbeat(member, 1) is ErrorCode.ILLEGAL_GENERATION
    stage.advance(SESSION_MS)
    assert stage.state() == "Empty"
    assert stage.log[-1][2].value.generation == 3
