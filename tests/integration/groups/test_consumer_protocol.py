"""KIP-848 with librdkafka, and the way between the two protocols."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.groups.conftest import Topics
from tests.integration.groups.members import Member, Members, wait_until_shared

Unique = Callable[[], str]


def start(members: Members, group: str, topic: str, **options: Any) -> Member:
    return members.start("confluent", group, [topic], protocol="consumer", **options)


def four(topic: str) -> list[tuple[str, int]]:
    return [(topic, index) for index in range(4)]


def test_a_group_continues_where_it_committed(topics: Topics, members: Members, a_topic: str, unique: Unique) -> None:
    group = unique()
    first = topics.fill(a_topic, 40, 4)
    member = start(members, group, a_topic)
    member.wait_for_values(first)
    member.ask("commit")
    member.close()
    second = topics.fill(a_topic, 20, 4, start=100)
    start(members, group, a_topic).wait_for_values(second)


def test_members_share_without_stopping(topics: Topics, members: Members, a_topic: str, unique: Unique) -> None:
    group = unique()
    one = start(members, group, a_topic)
    wait_until_shared([one], four(a_topic))
    two = start(members, group, a_topic)
    wait_until_shared([one, two], four(a_topic))
    given = [tuple(row) for event in one.of("lost") for row in event["partitions"]]
    assert sorted(given) == sorted(two.assignment)
    two.close()
    wait_until_shared([one], four(a_topic))
    assert len(one.of("lost")) == 1


def test_partitions_move_when_a_member_dies(topics: Topics, members: Members, a_topic: str, unique: Unique) -> None:
    group = unique()
    topics.set_for_group(group, "consumer.session.timeout.ms", "3000")
    one, two = start(members, group, a_topic), start(members, group, a_topic)
    wait_until_shared([one, two], four(a_topic))
    two.kill()
    wait_until_shared([one], four(a_topic))


def test_new_partitions_are_taken_up(topics: Topics, members: Members, a_topic: str, unique: Unique) -> None:
    member = start(members, unique(), a_topic)
    wait_until_shared([member], four(a_topic))
    topics.grow(a_topic, 6)
    wait_until_shared([member], [(a_topic, index) for index in range(6)])


def test_a_pattern_is_matched_by_the_broker(topics: Topics, members: Members, unique: Unique) -> None:
    stem, other = unique(), topics.create(unique())
    first = topics.create(f"{stem}-one")
    values = topics.fill(first, 3)
    topics.fill(other, 3)
    member = members.start("confluent", unique(), pattern=f"{stem}-.*", protocol="consumer")
    member.wait_for_values(values)
    second = topics.create(f"{stem}-two", 2)
    wait_until_shared([member], [(first, 0), (second, 0), (second, 1)])
    values += topics.fill(second, 4, 2, start=100)
    member.wait_for_values(values)


def test_a_static_member_comes_back_to_what_it_had(members: Members, a_topic: str, unique: Unique) -> None:
    group = unique()
    one = start(members, group, a_topic, instance="one")
    two = start(members, group, a_topic, instance="two")
    wait_until_shared([one, two], four(a_topic))
    owned, changes = two.assignment, len(one.of("gained", "lost"))
    two.close()
    again = start(members, group, a_topic, instance="two")
    wait_until_shared([one, again], four(a_topic))
    assert again.assignment == owned
    assert len(one.of("gained", "lost")) == changes


def test_commits_with_metadata_come_back(members: Members, a_topic: str, unique: Unique) -> None:
    member = start(members, unique(), a_topic)
    wait_until_shared([member], four(a_topic))
    member.ask("commit", offsets=[[a_topic, 2, 5, "a note"]])
    assert member.ask("committed", topic=a_topic, partition=2) == [5, "a note"]


def test_a_group_is_listed_and_described(topics: Topics, members: Members, a_topic: str, unique: Unique) -> None:
    group = unique()
    member = start(members, group, a_topic)
    wait_until_shared([member], four(a_topic))
    listed = {row.group_id: row for row in topics.admin.list_consumer_groups().result(30).valid}
    assert (listed[group].state.name, listed[group].type.name) == ("STABLE", "CONSUMER")
    described = topics.admin.describe_consumer_groups([group])[group].result(30)
    assert (described.state.name, described.partition_assignor) == ("STABLE", "uniform")
    (row,) = described.members
    assert sorted((p.topic, p.partition) for p in row.assignment.topic_partitions) == four(a_topic)


@pytest.mark.parametrize("classic", ["confluent", "kafka-python", "aiokafka"])
def test_a_classic_group_moves_over_while_it_reads(
    classic: str, topics: Topics, members: Members, a_topic: str, unique: Unique
) -> None:
    group = unique()
    old = members.start(classic, group, [a_topic], auto_commit=True)
    wait_until_shared([old], four(a_topic))
    new = start(members, group, a_topic, auto_commit=True)
    wait_until_shared([old, new], four(a_topic))
    old.close()
    wait_until_shared([new], four(a_topic))
    back = members.start(classic, group, [a_topic], auto_commit=True)
    wait_until_shared([new, back], four(a_topic))
    new.close()
    wait_until_shared([back], four(a_topic))
    listed = {row.group_id: row for row in topics.admin.list_consumer_groups().result(30).valid}
    assert listed[group].type.name == "CLASSIC"
