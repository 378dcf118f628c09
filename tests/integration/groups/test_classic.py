"""The classic protocol with three real clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.groups.conftest import Topics
from tests.integration.groups.members import Member, Members, wait_until_shared

CLIENTS = ["confluent", "kafka-python", "aiokafka"]
Unique = Callable[[], str]


def four(topic: str) -> list[tuple[str, int]]:
    return [(topic, index) for index in range(4)]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_group_continues_where_it_committed(
    client: str, topics: Topics, members: Members, a_topic: str, unique: Unique
) -> None:
    group = unique()
    first = topics.fill(a_topic, 40, 4)
    member = members.start(client, group, [a_topic])
    member.wait_for_values(first)
    member.ask("commit")
    member.close()
    second = topics.fill(a_topic, 20, 4, start=100)
    again = members.start(client, group, [a_topic])
    again.wait_for_values(second)


@pytest.mark.parametrize("client", CLIENTS)
def test_commits_by_themselves(client: str, topics: Topics, members: Members, a_topic: str, unique: Unique) -> None:
    group = unique()
    first = topics.fill(a_topic, 20, 4)
    member = members.start(client, group, [a_topic], auto_commit=True)
    member.wait_for_values(first)
    member.close()
    second = topics.fill(a_topic, 4, 4, start=100)
    members.start(client, group, [a_topic]).wait_for_values(second)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_pattern_follows_new_topics(client: str, topics: Topics, members: Members, unique: Unique) -> None:
    stem, other = unique(), topics.create(unique())
    first = topics.create(f"{stem}-one")
    values = topics.fill(first, 3)
    topics.fill(other, 3)
    member = members.start(client, unique(), pattern=f"{stem}-.*")
    member.wait_for_values(values)
    second = topics.create(f"{stem}-two", 2)
    wait_until_shared([member], [(first, 0), (second, 0), (second, 1)])
    values += topics.fill(second, 4, 2, start=100)
    # An eager rebalance starts over from what was committed, which is nothing here: values may come twice.
    member.wait("values of the new topic", lambda: set(values) <= set(member.values))
    assert set(member.values) == set(values)


@pytest.mark.parametrize("client", CLIENTS)
def test_partitions_move_on_join_and_leave(client: str, members: Members, a_topic: str, unique: Unique) -> None:
    group = unique()
    one = members.start(client, group, [a_topic])
    wait_until_shared([one], four(a_topic))
    two = members.start(client, group, [a_topic])
    wait_until_shared([one, two], four(a_topic))
    assert len(one.assignment) == len(two.assignment) == 2
    two.close()
    wait_until_shared([one], four(a_topic))


@pytest.mark.parametrize("client", CLIENTS)
def test_partitions_move_when_a_member_dies(client: str, members: Members, a_topic: str, unique: Unique) -> None:
    group = unique()
    one = members.start(client, group, [a_topic], session_timeout_ms=1500)
    two = members.start(client, group, [a_topic], session_timeout_ms=1500)
    wait_until_shared([one, two], four(a_topic))
    two.kill()
    wait_until_shared([one], four(a_topic))


@pytest.mark.parametrize("client", CLIENTS)
def test_new_partitions_are_taken_up(
    client: str, topics: Topics, members: Members, a_topic: str, unique: Unique
) -> None:
    member = members.start(client, unique(), [a_topic])
    wait_until_shared([member], four(a_topic))
    topics.grow(a_topic, 6)
    wait_until_shared([member], [(a_topic, index) for index in range(6)])


@pytest.mark.parametrize("client", CLIENTS)
def test_a_static_member_comes_back_without_a_rebalance(
    client: str, topics: Topics, members: Members, a_topic: str, unique: Unique
) -> None:
    group = unique()
    one = members.start(client, group, [a_topic], instance="one", session_timeout_ms=30_000)
    two = members.start(client, group, [a_topic], instance="two", session_timeout_ms=30_000)
    wait_until_shared([one, two], four(a_topic))
    owned, rebalances = two.assignment, len(one.of("gained", "lost"))
    two.kill()
    again = members.start(client, group, [a_topic], instance="two", session_timeout_ms=30_000)
    wait_until_shared([one, again], four(a_topic))
    assert again.assignment == owned
    values = topics.fill(a_topic, 8, 4)
    one.wait("records", lambda: len(one.values) >= 4)
    assert len(one.of("gained", "lost")) == rebalances
    assert set(one.values) < set(values)


@pytest.mark.parametrize("client", ["confluent", "kafka-python"])
def test_a_second_instance_of_the_same_name_fences_the_first(
    client: str, members: Members, a_topic: str, unique: Unique
) -> None:
    # Not aiokafka: its heartbeats do not carry the instance id, so it never learns that it was replaced.
    group = unique()
    one = members.start(client, group, [a_topic], instance="only", session_timeout_ms=30_000)
    wait_until_shared([one], four(a_topic))
    two = members.start(client, group, [a_topic], instance="only", session_timeout_ms=30_000)
    wait_until_shared([two], four(a_topic))
    if client == "confluent":
        one.wait("fencing", lambda: any(event["code"] == "_FATAL" for event in one.of("error")))
    two.ask("commit", offsets=[[a_topic, 0, 0, ""]])


def test_cooperative_members_keep_what_they_do_not_give_away(
    topics: Topics, members: Members, a_topic: str, unique: Unique
) -> None:
    group = unique()
    one = members.start("confluent", group, [a_topic], assignor="cooperative-sticky")
    wait_until_shared([one], four(a_topic))
    two = members.start("confluent", group, [a_topic], assignor="cooperative-sticky")
    wait_until_shared([one, two], four(a_topic))
    given = [tuple(row) for event in one.of("lost") for row in event["partitions"]]
    assert sorted(given) == sorted(two.assignment)
    two.close()
    wait_until_shared([one], four(a_topic))
    assert len(one.of("lost")) == 1


def test_members_of_three_clients_share_a_group(topics: Topics, members: Members, unique: Unique) -> None:
    topic, group = topics.create(unique(), 6), unique()
    found = [members.start(client, group, [topic], auto_commit=True) for client in CLIENTS]
    partitions = [(topic, index) for index in range(6)]
    wait_until_shared(found, partitions)
    assert [len(member.assignment) for member in found] == [2, 2, 2]
    values = topics.fill(topic, 60, 6)
    for member in found:
        member.wait("its share", lambda member=member: len(member.values) >= 20)  # type: ignore[misc]
    assert sorted(value for member in found for value in member.values) == sorted(values)
    for leaving in (1, 0):
        found.pop(leaving).close()
        wait_until_shared(found, partitions)


@pytest.mark.parametrize("client", CLIENTS)
def test_reading_starts_at_the_earliest(
    client: str, topics: Topics, members: Members, a_topic: str, unique: Unique
) -> None:
    values = topics.fill(a_topic, 8, 4)
    members.start(client, unique(), [a_topic], reset="earliest").wait_for_values(values)


@pytest.mark.parametrize("client", CLIENTS)
def test_reading_starts_at_the_latest(client: str, topics: Topics, members: Members, unique: Unique) -> None:
    topic, group = topics.create(unique()), unique()
    topics.fill(topic, 8)
    member = members.start(client, group, [topic], reset="latest")
    wait_until_shared([member], [(topic, 0)])
    # Assigned is not yet positioned: offer records until the first is seen, then none may be missing.
    number = 0

    def offered() -> bool:
        nonlocal number
        topics.fill(topic, 1, start=100 + number)
        number += 1
        return bool(member.values)

    for _ in range(200):
        if offered():
            break
        member._changed.acquire()
        member._changed.wait(0.1)
        member._changed.release()
    assert member.values
    assert all(int(value) >= 100 for value in member.values)


@pytest.mark.parametrize("client", CLIENTS)
def test_reading_without_offsets_can_be_an_error(
    client: str, topics: Topics, members: Members, a_topic: str, unique: Unique
) -> None:
    topics.fill(a_topic, 8, 4)
    member = members.start(client, unique(), [a_topic], reset="error")
    member.wait("an error", lambda: bool(member.of("error")))
    code = member.of("error")[0]["code"]
    assert code in ("_AUTO_OFFSET_RESET", "NoOffsetForPartitionError")
    assert member.values == []


@pytest.mark.parametrize("client", CLIENTS)
def test_seeking_back_reads_again(client: str, topics: Topics, members: Members, unique: Unique) -> None:
    topic = topics.create(unique())
    values = topics.fill(topic, 10)
    member = members.start(client, unique(), [topic])
    member.wait_for_values(values)
    member.ask("seek", topic=topic, partition=0, offset=7)
    member.wait("three records again", lambda: len(member.values) >= 13)
    assert member.values[10:] == ["7", "8", "9"]


@pytest.mark.parametrize("client", CLIENTS)
def test_the_metadata_of_a_commit_comes_back(client: str, members: Members, a_topic: str, unique: Unique) -> None:
    group = unique()
    member = members.start(client, group, [a_topic])
    wait_until_shared([member], four(a_topic))
    note = "straße ✓ 42"
    member.ask("commit", offsets=[[a_topic, 2, 5, note]])
    assert member.ask("committed", topic=a_topic, partition=2)[0] == 5
    assert member.ask("committed", topic=a_topic, partition=3)[0] is None
    reader: Member = member if client != "aiokafka" else members.start("kafka-python", unique(), [a_topic])
    if reader is not member:
        member.close()
        reader = members.start("kafka-python", group, [a_topic])
        wait_until_shared([reader], four(a_topic))
    found: Any = reader.ask("committed", topic=a_topic, partition=2)
    assert found == [5, note]
