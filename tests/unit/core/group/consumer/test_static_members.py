from __future__ import annotations

from moldau.model.errors import ErrorCode
from tests.unit.core.group.consumer.crowd import Client, Crowd, partitions_of

JOIN = {"topics": ("orders",), "owned": frozenset(), "rebalance_timeout_ms": 60_000}


def pair(crowd: Crowd) -> tuple[Client, Client]:
    clients = Client(crowd, "a", instance_id="i"), Client(crowd, "b")
    crowd.settle(clients)
    return clients


def test_an_instance_that_restarts_gets_back_what_it_had_and_nobody_notices() -> None:
    crowd = Crowd()
    one, two = pair(crowd)
    had, epoch = one.owned, crowd.group().epoch
    assert one.leave(-2).member_epoch == -2
    crowd.advance(20_000)
    two.step()
    assert partitions_of(two) == [3]
    again = Client(crowd, "a2", instance_id="i")
    again.step()
    assert again.owned == had
    assert (again.epoch, crowd.group().epoch) == (epoch, epoch)
    assert list(crowd.group().members) == ["b", "a2"]
    assert crowd.heartbeats("a", epoch, instance_id="i").code is ErrorCode.FENCED_INSTANCE_ID


def test_an_instance_id_in_use_is_not_given_away() -> None:
    crowd = Crowd()
    one, _ = pair(crowd)
    assert crowd.error("thief", 0, instance_id="i", **JOIN) is ErrorCode.UNRELEASED_INSTANCE_ID
    assert one.step().member_epoch == one.epoch


def test_an_instance_that_does_not_come_back_is_given_up() -> None:
    crowd = Crowd()
    one, two = pair(crowd)
    one.leave(-2)
    for _ in range(9):
        crowd.advance(5_000)
        two.step()
    assert list(crowd.group().members) == ["b"]
    crowd.settle([two])
    assert partitions_of(two) == [6]


def test_an_instance_may_leave_for_good() -> None:
    crowd = Crowd()
    one, two = pair(crowd)
    one.leave(-1)
    two.step()
    assert partitions_of(two) == [6]
    assert not crowd.group().static_members


def test_unknown_and_fenced_instances_are_told_apart() -> None:
    crowd = Crowd()
    pair(crowd)
    assert crowd.error("a", 1, instance_id="j") is ErrorCode.UNKNOWN_MEMBER_ID
    assert crowd.error("x", 1, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert crowd.error("x", -1, instance_id="i") is ErrorCode.FENCED_INSTANCE_ID
    assert crowd.error("x", -2, instance_id="j") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_has_room_for_an_instance_that_comes_back() -> None:
    crowd = Crowd()
    one, _ = pair(crowd)
    crowd.shard.settings = crowd.shard.settings._replace(consumer_max_size=2)
    one.leave(-2)
    assert crowd.joins("a2", instance_id="i").member_epoch == crowd.group().epoch


def test_what_was_being_given_up_is_free_when_the_process_ends() -> None:
    crowd = Crowd()
    one = Client(crowd, "a", instance_id="i")
    crowd.settle([one])
    two = Client(crowd, "b")
    two.step()
    one.heartbeat()
    one.leave(-2)
    two.step()
    assert partitions_of(two) == [3]
    crowd.advance(44_000)
    assert "a" in crowd.group().members, "its session goes on, whatever its rebalance timeout says"


def test_an_instance_survives_a_fail_over_while_it_is_away() -> None:
    crowd = Crowd()
    one, two = pair(crowd)
    had = one.owned
    one.leave(-2)
    crowd.restart()
    again = Client(crowd, "a2", instance_id="i")
    again.step()
    two.step()
    assert again.owned == had
