from __future__ import annotations

import pytest

from moldau.core.group.commands import LeaveGroup, LeavingMember, ListGroups, Protocol, SyncGroup
from moldau.core.group.consumer.embedded import read_assignment
from moldau.core.group.consumer.records import GroupEpochStored
from moldau.core.group.records import GroupStored
from moldau.core.group.replies import JoinReply, LeftMember
from moldau.core.group.settings import GroupSettings
from moldau.model.errors import ErrorCode, Refused
from tests.unit.core.group.consumer.crowd import EAGER, Client, Crowd, Guest, partitions_of, subscription

JOIN = {"topics": ("orders",), "owned": frozenset(), "rebalance_timeout_ms": 60_000}


def group_type(crowd: Crowd) -> str:
    kind: str = crowd.do(ListGroups()).groups[0].type
    return kind


def classic_pair(crowd: Crowd) -> list[Guest]:
    guests = [Guest(crowd, "x"), Guest(crowd, "y")]
    for _ in range(6):
        for guest in guests:
            guest.step()
        crowd.advance(10)
    crowd.settle(guests)
    assert sorted(partitions_of(*guests)) == [3, 3]
    return guests


# -- upgrade ---------------------------------------------------------------------------------------------------------


def test_a_classic_group_moves_over_member_by_member_and_everything_is_read_all_the_time() -> None:
    crowd = Crowd()
    guests = classic_pair(crowd)
    generation = guests[0].generation
    new = [Client(crowd, "a")]
    new[0].step()
    assert group_type(crowd) == "consumer"
    assert crowd.group().epoch == generation + 1
    assert partitions_of(*guests, *new) == [3, 3, 0]
    crowd.settle([*guests, *new])
    assert sorted(partitions_of(*guests, *new)) == [2, 2, 2]
    assert {member.member_type for member in crowd.described().members} == {0, 1}
    for guest in guests:
        guest.leave()
        new.append(Client(crowd, f"b{len(new)}"))
        crowd.settle(new)
    assert sorted(partitions_of(*new)) == [2, 2, 2]


def test_members_that_wait_in_a_classic_rebalance_are_told_to_join_again() -> None:
    crowd = Crowd(EAGER._replace(initial_rebalance_delay_ms=3_000))
    ticket = crowd.join(protocols=(Protocol("range", subscription(["orders"])),))
    crowd.joins("a")
    assert crowd.answers[ticket] == JoinReply(ErrorCode.REBALANCE_IN_PROGRESS, "c-1")
    assert list(crowd.group().members) == ["c-1", "a"]
    assert not crowd.shard.soft.classic


def test_what_members_had_before_an_unfinished_rebalance_is_not_given_away() -> None:
    crowd = Crowd()
    guests = classic_pair(crowd)
    third = Guest(crowd, "z")
    third.join()  # the door is open: the others have not come yet, and read on
    client = Client(crowd, "a")
    client.step()
    assert partitions_of(client) == [0]
    crowd.settle([*guests, third, client])
    assert sum(partitions_of(*guests, third, client)) == 6


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_the_policy_may_forbid_upgrades(policy: str) -> None:
    crowd = Crowd(EAGER._replace(consumer_migration_policy=policy))
    guests = classic_pair(crowd)
    reply = crowd.heartbeats("a", 0, **JOIN)
    assert reply.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert "group.consumer.migration.policy" in reply.detail
    guests[0].step()
    assert guests[0].last_error is ErrorCode.NONE


def test_a_group_of_something_else_than_consumers_is_left_alone() -> None:
    crowd = Crowd()
    crowd.join(protocol_type="connect", protocols=(Protocol("default", b"?"),))
    crowd.advance(10)
    assert crowd.error("a", 0, **JOIN) is ErrorCode.GROUP_ID_NOT_FOUND


def test_members_whose_bytes_are_not_those_of_consumers_stop_the_upgrade() -> None:
    crowd = Crowd()
    crowd.join(protocols=(Protocol("range", b"\0\1\0"),))
    crowd.advance(10)
    reply = crowd.heartbeats("a", 0, **JOIN)
    assert reply.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert "malformed" in reply.detail
    assert crowd.state() == "CompletingRebalance"


def test_an_empty_classic_group_and_its_offsets_are_taken_over() -> None:
    crowd = Crowd(GroupSettings(consumer_migration_policy="disabled"))
    ticket = crowd.join()
    crowd.advance(3_000)
    crowd.leave(crowd.joined(ticket).member_id)
    crowd.commit()
    crowd.joins("a")
    assert group_type(crowd) == "consumer"
    assert crowd.fetch(0).offset == 5


def test_an_upgrade_the_log_does_not_take_leaves_the_classic_group_as_it_was() -> None:
    crowd = Crowd()
    guests = classic_pair(crowd)
    crowd.fails = Refused(ErrorCode.MESSAGE_TOO_LARGE)
    assert crowd.error("a", 0, **JOIN) is ErrorCode.MESSAGE_TOO_LARGE
    assert group_type(crowd) == "classic"
    for guest in guests:
        guest.step()
        assert guest.last_error is ErrorCode.NONE
    crowd.advance(11_000)
    assert crowd.state() == "Empty"


# -- guests ----------------------------------------------------------------------------------------------------------


def mixed(crowd: Crowd) -> tuple[Client, Guest]:
    client = Client(crowd, "a")
    client.step()
    guest = Guest(crowd, "x")
    crowd.settle([client, guest])
    assert partitions_of(client, guest) == [3, 3]
    return client, guest


def test_a_guest_is_told_to_join_again_only_when_that_takes_it_further() -> None:
    crowd = Crowd()
    client = Client(crowd, "a")
    client.step()
    guest = Guest(crowd, "x")
    guest.join()
    assert partitions_of(guest) == [0]
    guest.step()
    assert guest.last_error is ErrorCode.NONE, "its partitions are still with the other"
    crowd.settle([client])
    guest.step()
    assert guest.last_error is ErrorCode.REBALANCE_IN_PROGRESS
    crowd.settle([client, guest])
    assert partitions_of(client, guest) == [3, 3]


def test_a_guest_learns_its_id_first() -> None:
    crowd = Crowd()
    Client(crowd, "a").step()
    ticket = crowd.join(protocols=(Protocol("range", subscription(["orders"])),), requires_known_member_id=True)
    reply = crowd.answers[ticket]
    assert (reply.error, reply.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "c-1")
    ticket = crowd.join("c-1", protocols=(Protocol("range", subscription(["orders"])),))
    assert crowd.joined(ticket).generation == 3


def test_a_guest_that_joins_must_share_a_protocol_with_the_other_guests() -> None:
    crowd = Crowd()
    mixed(crowd)
    for wrong in ({"protocols": (Protocol("sticky", subscription(["orders"])),)}, {"protocol_type": "connect"}):
        assert crowd.answers[crowd.join(**wrong)].error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    ticket = crowd.join(protocols=(Protocol("range", b"\0"),))
    assert crowd.answers[ticket].error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_sync_answers_with_the_members_assignment_or_says_why_not() -> None:
    crowd = Crowd()
    client, guest = mixed(crowd)
    sync = SyncGroup(-1, "g", guest.generation, guest.member_id)
    assert len(read_assignment(crowd.do(sync).assignment)) == 3
    assert crowd.do(sync._replace(generation=9)).error is ErrorCode.ILLEGAL_GENERATION
    assert crowd.do(sync._replace(protocol_name="sticky")).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert crowd.do(sync._replace(member_id="stranger")).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert crowd.do(sync._replace(member_id=client.member_id)).error is ErrorCode.UNKNOWN_MEMBER_ID
    Client(crowd, "b").step()
    assert crowd.do(sync).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_guest_that_does_not_join_again_in_time_is_fenced() -> None:
    crowd = Crowd()
    client, guest = mixed(crowd)
    another = Client(crowd, "b")
    another.step()
    for _ in range(12):
        assert crowd.heartbeat(guest.member_id, guest.generation) is ErrorCode.REBALANCE_IN_PROGRESS
        crowd.advance(5_000)
        client.step()
        another.step()
    crowd.settle([client, another])
    assert guest.member_id not in crowd.group().members
    assert partitions_of(client, another) == [3, 3]


def test_a_guest_that_joins_but_does_not_sync_is_fenced() -> None:
    crowd = Crowd()
    client, guest = mixed(crowd)
    guest.crowd.join(guest.member_id, protocols=(Protocol("range", subscription(["orders"])),))
    for _ in range(12):
        crowd.heartbeat(guest.member_id, guest.generation)
        crowd.advance(5_000)
        client.step()
    crowd.settle([client])
    assert list(crowd.group().members) == ["a"]


def test_a_silent_guest_is_fenced_after_its_own_session_timeout() -> None:
    crowd = Crowd()
    _, guest = mixed(crowd)
    crowd.advance(9_999)
    assert guest.member_id in crowd.group().members
    crowd.advance(1)
    assert guest.member_id not in crowd.group().members


def test_guests_commit_with_their_generation() -> None:
    crowd = Crowd()
    _, guest = mixed(crowd)
    assert crowd.commit(guest.member_id, guest.generation).topics
    assert crowd.commit(guest.member_id, guest.generation - 1).code is ErrorCode.ILLEGAL_GENERATION


def test_a_guest_leaves_by_its_own_call() -> None:
    crowd = Crowd()
    client, guest = mixed(crowd)
    left = crowd.leave(guest.member_id, "stranger").members
    assert [member.error for member in left] == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    crowd.settle([client])
    assert partitions_of(client) == [6]


def test_an_administrator_removes_members_of_the_consumer_protocol() -> None:
    crowd = Crowd()
    one, two = Client(crowd, "a"), Client(crowd, "b")
    crowd.settle([one, two])
    epoch = crowd.group().epoch
    left = crowd.leave("a", "a", "stranger").members
    assert [member.error for member in left] == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert crowd.group().epoch == epoch + 1
    assert crowd.error("a", epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    crowd.settle([two])
    assert partitions_of(two) == [6]


def test_an_administrator_removes_an_instance_by_its_name() -> None:
    crowd = Crowd()
    crowd.joins("a", instance_id="i")
    reply = crowd.do(LeaveGroup("g", (LeavingMember("", "i"), LeavingMember("", "nobody"))))
    assert reply.members == (
        LeftMember("", "i", ErrorCode.NONE),
        LeftMember("", "nobody", ErrorCode.UNKNOWN_MEMBER_ID),
    )
    assert crowd.group().is_empty


def test_removing_all_members_of_the_consumer_protocol_gives_the_group_back_to_its_guests() -> None:
    crowd = Crowd()
    client, guest = mixed(crowd)
    second = Client(crowd, "second")
    crowd.settle([client, second, guest])
    assert {member.error for member in crowd.leave(client.member_id, second.member_id).members} == {ErrorCode.NONE}
    assert group_type(crowd) == "classic"
    crowd.settle([guest])
    assert partitions_of(guest) == [6]


def test_removing_everybody_leaves_an_empty_consumer_group() -> None:
    crowd = Crowd()
    client, guest = mixed(crowd)
    crowd.leave(client.member_id, guest.member_id)
    assert group_type(crowd) == "consumer"
    assert crowd.group().is_empty


def test_an_instance_may_come_back_with_the_other_protocol() -> None:
    crowd = Crowd()
    client, guest = mixed(crowd)
    static = Guest(crowd, "s")
    static.instance_id = "i"
    crowd.settle([client, guest, static])
    had = static.owned
    upgraded = Client(crowd, "s2", instance_id="i")
    upgraded.step()
    assert upgraded.owned == had
    assert crowd.heartbeat(static.member_id, static.generation, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID


# -- downgrade -------------------------------------------------------------------------------------------------------


def test_when_the_last_member_of_the_consumer_protocol_leaves_the_guests_are_a_classic_group_again() -> None:
    crowd = Crowd()
    client, guest = mixed(crowd)
    epoch = crowd.group().epoch
    crowd.commit(guest.member_id, guest.generation)
    client.leave()
    assert group_type(crowd) == "classic"
    assert crowd.live().generation == epoch
    for _ in range(3):
        guest.step()
    crowd.settle([guest])
    assert partitions_of(guest) == [6]
    assert guest.generation == epoch + 1
    assert crowd.fetch(0).offset == 5
    kinds = [type(entry[2]) for entry in crowd.log]
    assert kinds.index(GroupStored) > kinds.index(GroupEpochStored)
    crowd.restart()
    guest.step()
    assert guest.last_error is ErrorCode.NONE


def test_the_policy_may_forbid_downgrades() -> None:
    crowd = Crowd(EAGER._replace(consumer_migration_policy="upgrade"))
    client, guest = mixed(crowd)
    client.leave()
    assert group_type(crowd) == "consumer"
    crowd.settle([guest])
    assert partitions_of(guest) == [6]


def test_a_downgrade_the_log_does_not_take_leaves_the_group_as_it_was() -> None:
    crowd = Crowd()
    client, guest = mixed(crowd)
    crowd.fails = Refused(ErrorCode.MESSAGE_TOO_LARGE)
    assert crowd.error("a", -1) is ErrorCode.MESSAGE_TOO_LARGE
    assert group_type(crowd) == "consumer"
    assert not crowd.shard.soft.classic
    guest.step()
    client.step()
    assert guest.last_error is ErrorCode.NONE


def test_the_last_instance_that_comes_back_with_the_classic_protocol_takes_the_group_along() -> None:
    crowd = Crowd()
    client = Client(crowd, "a", instance_id="i")
    guest = Guest(crowd, "x")
    crowd.settle([client, guest])
    back = Guest(crowd, "back")
    back.instance_id = "i"
    back.join()
    assert group_type(crowd) == "classic"
    crowd.settle([guest, back])
    assert sorted(partitions_of(guest, back)) == [3, 3]


def test_a_classic_member_finds_an_empty_consumer_group_and_makes_it_classic() -> None:
    crowd = Crowd()
    crowd.joins("a")
    crowd.commit("a", 2)
    crowd.heartbeats("a", -1)
    guest = Guest(crowd, "x")
    guest.join()
    crowd.advance(10)
    crowd.settle([guest])
    assert group_type(crowd) == "classic"
    assert partitions_of(guest) == [6]
    assert crowd.fetch(0).offset == 5


def test_a_classic_stranger_does_not_change_an_empty_consumer_group() -> None:
    crowd = Crowd()
    crowd.joins("a")
    crowd.heartbeats("a", -1)
    before = len(crowd.log)
    assert crowd.answers[crowd.join("stranger")].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(crowd.log) == before
