from __future__ import annotations

import pytest

from moldau.core.group.consumer.records import RegexResolved
from moldau.core.group.settings import GroupSettings
from moldau.model.errors import ErrorCode
from tests.unit.core.group.consumer.crowd import EAGER, Client, Crowd, partitions_of, topic_id

SLOW = GroupSettings(consumer_assignment_interval_ms=1_000)
JOIN = {"owned": frozenset(), "rebalance_timeout_ms": 60_000}


def by_pattern(crowd: Crowd, member_id: str, regex: str) -> Client:
    client = Client(crowd, member_id, regex=regex)
    client.topics = ()
    return client


def test_new_partitions_raise_the_epoch_at_the_next_heartbeat() -> None:
    crowd = Crowd()
    client = Client(crowd, "a")
    client.step()
    crowd.topics.put("orders", 8)
    assert client.step().member_epoch == 3
    assert partitions_of(client) == [8]


def test_a_change_of_other_topics_changes_nothing() -> None:
    crowd = Crowd()
    client = Client(crowd, "a")
    client.step()
    before = len(crowd.log)
    crowd.topics.put("users", 8)
    client.step()
    assert len(crowd.log) == before


def test_a_topic_may_be_subscribed_to_before_it_exists_and_after_it_is_gone() -> None:
    crowd = Crowd(users=1)
    client = Client(crowd, "a", "orders")
    client.step()
    assert partitions_of(client) == [0]
    crowd.topics.put("orders", 2)
    client.step()
    assert partitions_of(client) == [2]
    crowd.topics.remove("orders")
    crowd.settle([client])
    assert partitions_of(client) == [0]


def test_a_topic_made_anew_is_another_topic() -> None:
    crowd = Crowd()
    client = Client(crowd, "a")
    client.step()
    facts = crowd.topics.known["orders"]
    crowd.topics.put("orders", 6)
    crowd.topics.known["orders"] = facts._replace(topic_id=topic_id("new orders"))
    crowd.settle([client])
    assert {topic for topic, _ in client.owned} == {topic_id("new orders")}


def test_racks_count_as_a_change() -> None:
    crowd = Crowd(orders=1)
    client = Client(crowd, "a")
    client.step()
    crowd.topics.put("orders", 1, (("r1",),))
    assert client.step().member_epoch == 3


def test_subscribing_to_something_else_moves_partitions() -> None:
    crowd = Crowd(orders=2, users=2)
    one, two = Client(crowd, "a", "orders", "users"), Client(crowd, "b", "orders")
    crowd.settle([one, two])
    one.topics = ("users",)
    crowd.settle([one, two])
    assert {topic for topic, _ in one.owned} == {topic_id("users")}
    assert {topic for topic, _ in two.owned} == {topic_id("orders")}


# -- patterns --------------------------------------------------------------------------------------------------------


def test_a_pattern_is_matched_against_the_topics_there_are() -> None:
    crowd = Crowd(orders=2, orders_eu=1, users=2)
    client = by_pattern(crowd, "a", "^orders.*")
    client.step()
    assert {topic for topic, _ in client.owned} == {topic_id("orders"), topic_id("orders_eu")}
    assert crowd.group().regexes["^orders.*"].topics == ("orders", "orders_eu")


def test_a_pattern_follows_topics_that_come_and_go() -> None:
    crowd = Crowd(orders=2)
    client = by_pattern(crowd, "a", "^orders.*")
    client.step()
    crowd.topics.put("orders_us", 3)
    client.step()
    assert partitions_of(client) == [5]
    crowd.topics.remove("orders_us")
    crowd.settle([client])
    assert partitions_of(client) == [2]


def test_a_pattern_is_evaluated_once_for_all_who_use_it_and_forgotten_with_the_last() -> None:
    crowd = Crowd(orders=2)
    clients = [by_pattern(crowd, name, "o.*") for name in "ab"]
    crowd.settle(clients)
    clients[0].leave()
    assert list(crowd.group().regexes) == ["o.*"]
    clients[1].leave()
    assert not crowd.group().regexes
    values = [entry[2].value is None for entry in crowd.log if isinstance(entry[2], RegexResolved)]
    assert values == [False, True]


def test_an_empty_pattern_ends_the_subscription() -> None:
    crowd = Crowd(orders=2)
    client = by_pattern(crowd, "a", "o.*")
    client.step()
    client.fields["regex"] = ""
    crowd.settle([client])
    assert partitions_of(client) == [0]
    assert not crowd.group().regexes


def test_names_and_a_pattern_add_up() -> None:
    crowd = Crowd(orders=2, users=1)
    client = Client(crowd, "a", "users", regex="o.*")
    client.step()
    assert partitions_of(client) == [3]


def test_patterns_are_looked_at_again_after_a_while() -> None:
    crowd = Crowd(EAGER._replace(consumer_regex_refresh_interval_ms=20_000), orders=2)
    client = by_pattern(crowd, "a", "o.*")
    client.step()
    first = crowd.group().regexes["o.*"]
    crowd.advance(20_000)
    client.step()
    again = crowd.group().regexes["o.*"]
    assert again.timestamp_ms == first.timestamp_ms + 20_000
    assert crowd.group().epoch == 2


def test_a_pattern_is_evaluated_again_after_a_fail_over_if_topics_changed() -> None:
    crowd = Crowd(orders=2)
    client = by_pattern(crowd, "a", "o.*")
    client.step()
    crowd.restart()
    crowd.topics.put("other", 1)
    client.step()
    assert partitions_of(client) == [3]


@pytest.mark.parametrize("regex", ["(", "(?=a)", "\\1", "x{1001}", "a" * 1_001])
def test_what_is_no_pattern_is_refused(regex: str) -> None:
    crowd = Crowd()
    assert crowd.error("a", 0, topics=(), regex=regex, **JOIN) is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert not crowd.log


def test_a_pattern_made_to_cost_much_is_refused_and_leaves_no_trace() -> None:
    crowd = Crowd(GroupSettings())
    for number in range(300):
        crowd.topics.put("".join("ab"[number * prime // 7 % 2] for prime in range(1, 200)) + str(number), 1)
    assert crowd.error("a", 0, topics=(), regex="(.*a.{300})*", **JOIN) is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert not crowd.log


def test_offsets_are_kept_for_topics_that_a_pattern_finds() -> None:
    crowd = Crowd(orders=2)
    by_pattern(crowd, "a", "o.*").step()
    assert crowd.group().is_subscribed_to("orders")
    assert not crowd.group().is_subscribed_to("users")


def test_who_subscribes_to_nothing_changes_nothing() -> None:
    crowd = Crowd()
    assert crowd.heartbeats("a", 0, topics=(), **JOIN).member_epoch == 1
    assert (crowd.group().epoch, crowd.group().target_epoch) == (1, 1)
    assert crowd.joins("b").member_epoch == 2
    assert crowd.heartbeats("c", 0, topics=(), **JOIN).member_epoch == 2
    assert crowd.group().epoch == 2


def test_what_is_no_longer_wanted_is_given_up_before_the_next_sharing_out() -> None:
    crowd = Crowd(SLOW, orders=2, users=2)
    everything = frozenset((topic_id("orders"), index) for index in (0, 1))
    crowd.joins("a", "orders")
    told = crowd.heartbeats("a", 2, topics=("users",))
    assert (told.member_epoch, told.assigned) == (2, ())
    assert (crowd.group().epoch, crowd.group().target_epoch) == (3, 2)
    described = crowd.described().members[0]
    assert [(topic.topic, topic.partitions) for topic in described.assigned] == [("orders", (0, 1))]
    assert crowd.heartbeats("a", 2, owned=everything) == told._replace(assigned=None)
    crowd.heartbeats("a", 2, owned=frozenset())
    assert not crowd.group().owners
    assert crowd.group().members["a"].epoch == 2
    crowd.advance(1_000)
    told = crowd.heartbeats("a", 2, owned=frozenset())
    assert told.member_epoch == 3
    assert [index for topic, index in told.assigned if topic == topic_id("users")] == [0, 1]


def test_others_keep_what_they_have_until_the_next_sharing_out() -> None:
    crowd = Crowd(SLOW, orders=2)
    crowd.joins("a")
    assert crowd.joins("b").assigned == ()
    assert crowd.heartbeats("a", 2).assigned is None
    assert len(crowd.group().owners) == 2
