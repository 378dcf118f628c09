from __future__ import annotations

import pytest

from moldau.core.group.commands import Protocol
from moldau.core.group.records import GroupMetadata, GroupStored
from moldau.core.group.settings import GroupSettings
from moldau.model.errors import ErrorCode
from tests.unit.core.group.stage import REBALANCE_MS, SESSION_MS, WALL_MS, Stage, ranged, subscription

DELAY_MS = 3_000


def test_a_new_member_is_first_told_its_id_and_the_group_is_stored_empty() -> None:
    stage = Stage()
    reply = stage.answers[stage.join(requires_known_member_id=True)]
    assert (reply.error, reply.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "c-1")
    assert stage.log == [("record", -1, GroupStored("g", GroupMetadata("", 0, None, None, WALL_MS, ())))]
    ticket = stage.join("c-1", requires_known_member_id=True)
    stage.advance(DELAY_MS)
    assert stage.joined(ticket).generation == 1


def test_a_pending_member_that_never_comes_back_is_forgotten() -> None:
    stage = Stage()
    stage.join(requires_known_member_id=True)
    stage.advance(SESSION_MS)
    assert "g" not in stage.shard.soft.classic
    assert stage.answers[stage.join("c-1")].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_a_pending_member_until_it_expires() -> None:
    stage = Stage()
    (member,) = stage.stable(1)
    stage.join(requires_known_member_id=True)
    ticket = stage.join(member)
    assert ticket in stage.waiting
    stage.advance(SESSION_MS)
    assert stage.joined(ticket).generation == 2


def test_an_id_the_group_does_not_know_is_refused() -> None:
    stage = Stage()
    assert stage.answers[stage.join("somebody")].error is ErrorCode.UNKNOWN_MEMBER_ID
    stage.stable(1)
    assert stage.answers[stage.join("somebody")].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.state() == "Stable"


@pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001])
def test_session_timeouts_have_bounds(timeout_ms: int) -> None:
    stage = Stage()
    assert stage.answers[stage.join(session_timeout_ms=timeout_ms)].error is ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_group_needs_a_name() -> None:
    stage = Stage()
    assert stage.answers[stage.join(group="")].error is ErrorCode.INVALID_GROUP_ID


def test_the_initial_delay_is_extended_while_members_arrive_but_not_beyond_the_rebalance_timeout() -> None:
    stage = Stage()
    first = stage.join(rebalance_timeout_ms=8_000)
    for _ in range(2):
        stage.advance(DELAY_MS - 1)
        stage.join(rebalance_timeout_ms=8_000)
        stage.advance(1)
        assert first in stage.waiting
    stage.join(rebalance_timeout_ms=8_000)
    stage.advance(1_999)
    assert first in stage.waiting
    stage.advance(1)
    assert stage.joined(first).generation == 1
    assert len(stage.live().members) == 4


def test_without_newcomers_the_initial_delay_is_not_extended() -> None:
    stage = Stage()
    ticket = stage.join()
    stage.advance(DELAY_MS - 1)
    assert ticket in stage.waiting
    stage.advance(1)
    assert stage.joined(ticket).generation == 1


def test_only_the_leader_hears_of_the_members() -> None:
    stage = Stage()
    tickets = [stage.join() for _ in range(3)]
    stage.advance(10_000)
    replies = [stage.joined(ticket) for ticket in tickets]
    leader = replies[0]
    assert {reply.leader for reply in replies} == {leader.member_id}
    assert [member.member_id for member in leader.members] == [reply.member_id for reply in replies]
    assert {member.metadata for member in leader.members} == {subscription("orders")}
    assert replies[1].members == replies[2].members == ()


def protocols(*names: str) -> tuple[Protocol, ...]:
    return tuple(Protocol(name, name.encode()) for name in names)


def test_the_protocol_all_support_with_the_most_votes_is_chosen() -> None:
    stage = Stage()
    tickets = [
        stage.join(protocols=protocols("sticky", "roundrobin", "range")),
        stage.join(protocols=protocols("roundrobin", "range")),
        stage.join(protocols=protocols("x", "range", "roundrobin")),
    ]
    stage.advance(10_000)
    assert {stage.joined(ticket).protocol_name for ticket in tickets} == {"roundrobin"}


def test_members_without_a_common_protocol_or_type_are_turned_away() -> None:
    stage = Stage()
    stage.join(protocols=protocols("range"))
    for changes in (
        {"protocols": protocols("sticky")},
        {"protocol_type": "connect"},
        {"protocols": ()},
    ):
        assert stage.answers[stage.join(**changes)].error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_group_takes_any_protocol_but_not_none() -> None:
    stage = Stage()
    (member,) = stage.stable(1)
    stage.leave(member)
    assert stage.answers[stage.join(protocol_type="")].error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    ticket = stage.join(protocol_type="connect", protocols=protocols("sessioned"))
    stage.advance(DELAY_MS)
    assert stage.joined(ticket).protocol_type == "connect"


def test_a_follower_that_repeats_its_join_is_told_of_the_present_generation() -> None:
    stage = Stage()
    _, follower = stage.stable(2)
    reply = stage.joined(stage.join(follower))
    assert (reply.generation, reply.members, stage.state()) == (1, (), "Stable")


def test_the_leader_forces_a_rebalance_by_joining_again() -> None:
    stage = Stage()
    leader, follower = stage.stable(2)
    ticket = stage.join(leader)
    assert ticket in stage.waiting
    assert stage.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.joined(stage.join(follower)).generation == stage.joined(ticket).generation == 2


def test_a_member_with_new_metadata_forces_a_rebalance() -> None:
    stage = Stage()
    _, follower = stage.stable(2)
    assert stage.join(follower, protocols=ranged("orders", "payments")) in stage.waiting
    assert stage.state() == "PreparingRebalance"


def test_the_leader_that_lost_its_answer_gets_it_again_before_the_sync() -> None:
    stage = Stage()
    tickets = [stage.join(), stage.join()]
    stage.advance(10_000)
    first = stage.joined(tickets[0])
    assert stage.joined(stage.join(first.member_id)) == first


def test_members_that_do_not_rejoin_in_time_are_out() -> None:
    stage = Stage()
    first, second = stage.stable(2)
    ticket = stage.join(first)
    for _ in range(REBALANCE_MS // 5_000):
        stage.advance(4_999)
        stage.heartbeat(second, 1)  # alive, but not interested
        stage.advance(1)
    assert [member.member_id for member in stage.joined(ticket).members] == [first]
    assert stage.heartbeat(second, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_chained_rebalances_do_not_forget_members() -> None:
    """Each newcomer opens the door again before everybody has synced; nobody may lose its id over that."""
    stage = Stage()
    known = stage.stable(1)
    for _ in range(5):
        tickets = {member: stage.join(member) for member in known}
        newcomer = stage.join()
        tickets = {member: stage.join(member) if t not in stage.waiting else t for member, t in tickets.items()}
        replies = [stage.joined(ticket) for ticket in (*tickets.values(), newcomer)]
        assert len({reply.generation for reply in replies}) == 1
        for reply in replies:
            assert stage.heartbeat(reply.member_id, reply.generation) is ErrorCode.NONE
        known = [reply.member_id for reply in replies]
    assert len(known) == 6


def test_the_same_member_on_a_new_connection_takes_the_place_of_its_older_request() -> None:
    stage = Stage()
    first, _second = stage.stable(2)
    old = stage.join(first)
    new = stage.join(first)
    assert stage.answers[old].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert new in stage.waiting


def test_a_new_member_that_waits_too_long_is_taken_for_a_ghost() -> None:
    stage = Stage()
    (member,) = stage.stable(1, rebalance_timeout_ms=1_000_000)
    ghost = stage.join()
    for _ in range(60):
        stage.advance(5_000)
        stage.heartbeat(member, 1)
    assert stage.answers[ghost].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_takes_nobody_and_a_rebalance_takes_the_first_to_come() -> None:
    stage = Stage(GroupSettings(max_size=2))
    first, second = stage.stable(2)
    refused = stage.answers[stage.join(requires_known_member_id=True)]
    assert (refused.error, refused.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert stage.joined(stage.join(second)).generation == 1

    stage.shard.settings = GroupSettings(max_size=1)
    kept = stage.join(first)
    assert stage.answers[stage.join(second)].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert stage.heartbeat(second, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    stage.advance(REBALANCE_MS)
    assert [member.member_id for member in stage.joined(kept).members] == [first]


def test_a_loaded_group_larger_than_a_lowered_limit_rebalances() -> None:
    stage = Stage()
    stage.stable(2)
    stage.shard.settings = GroupSettings(max_size=1)
    stage.restart()
    assert stage.state() == "PreparingRebalance"
