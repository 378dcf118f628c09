from __future__ import annotations

from moldau.core.group.commands import DeleteGroups, DescribeGroups, ListGroups
from moldau.core.group.replies import ListedGroup
from moldau.model.errors import ErrorCode
from tests.unit.core.group.stage import Stage, subscription


def test_groups_are_listed_by_state_and_type() -> None:
    stage = Stage()
    stage.stable(1, "working", session_timeout_ms=100_000)
    stage.commit(group="simple")
    stage.stable(1, "gone", protocol_type="connect")
    stage.leave(stage.live("gone").leader, group="gone")
    stage.join(group="new")
    everything = stage.do(ListGroups()).groups
    assert everything == (
        ListedGroup("working", "consumer", "Stable", "classic"),
        ListedGroup("simple", "", "Empty", "classic"),
        ListedGroup("gone", "connect", "Empty", "classic"),
        ListedGroup("new", "consumer", "PreparingRebalance", "classic"),
    )
    names = lambda **filters: [group.group_id for group in stage.do(ListGroups(**filters)).groups]  # noqa: E731
    assert names(states=("empty",)) == ["simple", "gone"]
    assert names(states=(" STABLE ", "PreparingRebalance")) == ["working", "new"]
    assert names(types=("Classic",)) == [group.group_id for group in everything]
    assert names(types=("consumer", "nonsense")) == []
    assert names(types=("classic",), states=("Dead",)) == []


def test_a_stable_group_is_described_with_metadata_and_assignments() -> None:
    stage = Stage()
    member, _ = stage.stable(2)
    (group,) = stage.do(DescribeGroups(("g",))).groups
    assert (group.found, group.state, group.protocol_type, group.protocol) == (True, "Stable", "consumer", "range")
    described = group.members[0]
    assert (described.member_id, described.client_id, described.client_host) == (member, "c", "/10.0.0.1")
    assert (described.metadata, described.assignment) == (subscription("orders"), member.encode())
    stage.join(member)
    (group,) = stage.do(DescribeGroups(("g",))).groups
    assert (group.state, group.protocol, group.members[0].metadata) == ("PreparingRebalance", "", b"")


def test_a_group_that_is_not_there_is_dead() -> None:
    stage = Stage()
    (group,) = stage.do(DescribeGroups(("g",))).groups
    assert (group.found, group.state, group.detail) == (False, "Dead", "Group g not found.")


def test_only_empty_groups_are_deleted_with_all_their_offsets() -> None:
    stage = Stage()
    stage.stable(1, "busy")
    stage.commit(group="simple")
    stage.txn_commit(7, 1, group="simple", partition=3)
    reply = stage.do(DeleteGroups(("busy", "simple", "nowhere")))
    assert reply.groups == (
        ("busy", ErrorCode.NON_EMPTY_GROUP),
        ("simple", ErrorCode.NONE),
        ("nowhere", ErrorCode.GROUP_ID_NOT_FOUND),
    )
    assert list(stage.shard.state.groups) == ["busy"]
    stage.end_transaction(7, committed=True)
    assert stage.fetch(3, group="simple").offset == -1


def test_deleting_a_group_somebody_is_about_to_join_makes_them_start_again() -> None:
    stage = Stage()
    member = stage.answers[stage.join(requires_known_member_id=True)].member_id
    assert stage.do(DeleteGroups(("g",))).groups == (("g", ErrorCode.NONE),)
    assert stage.answers[stage.join(member)].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(stage.shard.soft.deadlines) == 1
