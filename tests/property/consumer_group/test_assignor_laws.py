"""What the assignors promise, whatever the members and topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from moldau.core.group.consumer.assignors import ASSIGNORS
from moldau.core.group.consumer.assignors.spec import Assignment, Subscriber
from moldau.core.group.consumer.topics import TopicFacts

RACKS = ("r1", "r2", "r3")


def facts(name: str, count: int, racks: tuple[tuple[str, ...], ...] = ()) -> TopicFacts:
    return TopicFacts(name, name.encode().ljust(16, b"\0"), count, racks)


@st.composite
def topics(draw: st.DrawFn, *, same_size: bool = False, racks: bool = False) -> dict[bytes, TopicFacts]:
    count = draw(st.integers(1, 5))
    sizes = (
        [draw(st.integers(1, 9))] * count
        if same_size
        else draw(st.lists(st.integers(1, 9), min_size=count, max_size=count))
    )
    found = []
    for number, size in enumerate(sizes):
        where = tuple(tuple(sorted(draw(st.sets(st.sampled_from(RACKS), min_size=1, max_size=2)))) for _ in range(size))
        found.append(facts(f"t{number}", size, where if racks else ()))
    return {topic.topic_id: topic for topic in found}


@st.composite
def groups(draw: st.DrawFn, known: Mapping[bytes, TopicFacts], *, equal: bool) -> list[Subscriber]:
    """Members with a former target: any split of any partitions, also of topics that are gone."""
    ids = sorted(known)
    everything = frozenset(draw(st.sets(st.sampled_from(ids), min_size=1)))
    names = [f"m{number}" for number in range(draw(st.integers(1, 8)))]
    owners = draw(
        st.dictionaries(st.tuples(st.sampled_from([*ids, b"gone"]), st.integers(0, 9)), st.sampled_from(names))
    )
    return [
        Subscriber(
            name,
            draw(st.sampled_from([None, f"i-{name}"])),
            draw(st.sampled_from([None, *RACKS])),
            everything if equal else frozenset(draw(st.sets(st.sampled_from(ids)))),
            frozenset(partition for partition, owner in owners.items() if owner == name),
        )
        for name in names
    ]


def check_complete(members: list[Subscriber], known: Mapping[bytes, TopicFacts], assigned: Assignment) -> None:
    wanted = {topic_id for member in members for topic_id in member.topics}
    partitions = sorted(partition for given in assigned.values() for partition in given)
    assert partitions == sorted((topic_id, i) for topic_id in wanted for i in range(known[topic_id].partition_count))
    for member in members:
        assert {topic_id for topic_id, _ in assigned[member.member_id]} <= member.topics


def again(members: list[Subscriber], assigned: Assignment) -> list[Subscriber]:
    return [member._replace(target=assigned[member.member_id]) for member in members if member.member_id in assigned]


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@pytest.mark.parametrize("equal", [True, False])
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_every_partition_goes_to_one_subscriber(name: str, equal: bool, data: st.DataObject) -> None:
    known = data.draw(topics(racks=data.draw(st.booleans())))
    members = data.draw(groups(known, equal=equal))
    assigned = ASSIGNORS[name](members, known)
    check_complete(members, known, assigned)
    shuffled = data.draw(st.permutations(members))
    assert ASSIGNORS[name](shuffled, known) == assigned
    assert ASSIGNORS[name](again(members, assigned), known) == assigned, "a group at rest stays at rest"


def moves(members: list[Subscriber], assigned: Assignment) -> int:
    return sum(len(member.target - assigned[member.member_id]) for member in members)


def fewest_moves(members: list[Subscriber], known: Mapping[bytes, TopicFacts]) -> int:
    """Of all balanced assignments, with equal subscriptions: who has more than the share keeps one above it, as many
    as may; everything else beyond the share moves, and so does what nobody subscribes to any more."""
    topic_ids = members[0].topics
    held = [{p for p in m.target if p[0] in topic_ids and p[1] < known[p[0]].partition_count} for m in members]
    share, extra = divmod(sum(known[topic_id].partition_count for topic_id in topic_ids), len(members))
    above = min(extra, sum(len(parts) > share for parts in held))
    beyond = sum(max(len(parts) - share, 0) for parts in held) - above
    return beyond + sum(len(m.target) - len(parts) for m, parts in zip(members, held, strict=True))


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_uniform_is_balanced_and_moves_as_little_as_possible(data: st.DataObject) -> None:
    known = data.draw(topics(racks=data.draw(st.booleans())))
    members = data.draw(groups(known, equal=True))
    assigned = ASSIGNORS["uniform"](members, known)
    sizes = [len(given) for given in assigned.values()]
    assert max(sizes) - min(sizes) <= 1
    assert moves(members, assigned) == fewest_moves(members, known)


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_uniform_leaves_no_single_move_that_would_help(data: st.DataObject) -> None:
    known = data.draw(topics())
    members = data.draw(groups(known, equal=False))
    assigned = ASSIGNORS["uniform"](members, known)
    for giver in members:
        for topic_id, _ in assigned[giver.member_id]:
            for taker in members:
                if topic_id in taker.topics:
                    assert len(assigned[giver.member_id]) - len(assigned[taker.member_id]) <= 1


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_member_that_comes_takes_from_others_only_what_it_gets(data: st.DataObject) -> None:
    known = data.draw(topics())
    members = data.draw(groups(known, equal=True))
    assume(len(members) > 1)
    newcomer, settled = members[0], members[1:]
    settled = again(settled, ASSIGNORS["uniform"](settled, known))
    after = ASSIGNORS["uniform"]([*settled, newcomer._replace(target=frozenset())], known)
    lost: set[Any] = set()
    for member in settled:
        lost |= member.target - after[member.member_id]
    assert lost <= after[newcomer.member_id]


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_range_cuts_topics_of_one_size_at_the_same_places(data: st.DataObject) -> None:
    known = data.draw(topics(same_size=True))
    members = data.draw(groups(known, equal=True))
    assigned = ASSIGNORS["range"](members, known)
    for given_partitions in assigned.values():
        by_topic: dict[bytes, set[int]] = {}
        for topic_id, index in given_partitions:
            by_topic.setdefault(topic_id, set()).add(index)
        assert len({frozenset(indexes) for indexes in by_topic.values()}) <= 1
        for indexes in by_topic.values():
            assert sorted(indexes) == list(range(min(indexes), max(indexes) + 1))


def test_uniform_reads_from_its_own_rack_where_balance_allows() -> None:
    topic = facts("t", 6, (("r1",), ("r2",), ("r1",), ("r2",), ("r1",), ("r2",)))
    members = [Subscriber(f"m{rack}", None, rack, frozenset((topic.topic_id,)), frozenset()) for rack in ("r1", "r2")]
    assigned = ASSIGNORS["uniform"](members, {topic.topic_id: topic})
    assert {index for _, index in assigned["mr1"]} == {0, 2, 4}
    assert {index for _, index in assigned["mr2"]} == {1, 3, 5}


def test_balance_comes_before_racks() -> None:
    topic = facts("t", 4, (("r1",),) * 4)
    members = [Subscriber(f"m{rack}", None, rack, frozenset((topic.topic_id,)), frozenset()) for rack in ("r1", "r2")]
    assigned = ASSIGNORS["uniform"](members, {topic.topic_id: topic})
    assert [len(given_partitions) for given_partitions in assigned.values()] == [2, 2]


def test_range_keeps_the_places_of_instances() -> None:
    topic = facts("t", 3)
    one = Subscriber("z", "i1", None, frozenset((topic.topic_id,)), frozenset())
    two = Subscriber("a", None, None, frozenset((topic.topic_id,)), frozenset())
    assigned = ASSIGNORS["range"]([two, one], {topic.topic_id: topic})
    assert {index for _, index in assigned["z"]} == {0, 1}
