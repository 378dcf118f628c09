"""`uniform`: everybody gets equally many partitions, and keeps what it had as far as that allows.

Balance comes before stickiness, stickiness before racks. With equal subscriptions the outcome is exact: sizes differ by
at most one, and no balanced assignment moves fewer partitions. With unequal ones it starts from what members keep and
moves partitions, topic by topic, from those with more to those with less, until no single move helps.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from moldau.core.group.consumer.assignors.spec import Assignment, Subscriber, in_order
from moldau.core.group.consumer.records import TopicIdPartition
from moldau.core.group.consumer.topics import TopicFacts

BALANCING_ROUNDS_MAX: Final = 16
"""Overlapping subscriptions settle within a few rounds; each roughly halves what is uneven. Kafka's bound."""

Given = dict[str, set[TopicIdPartition]]


def assign_uniform(members: Sequence[Subscriber], topics: Mapping[bytes, TopicFacts]) -> Assignment:
    ordered = sorted(members, key=lambda member: member.member_id)
    if not ordered:
        return {}
    if all(member.topics == ordered[0].topics for member in ordered):
        given = _assign_equal(ordered, topics)
    else:
        given = _assign_unequal(ordered, topics)
    return {member_id: frozenset(partitions) for member_id, partitions in given.items()}


def _subscribed(members: Sequence[Subscriber], topics: Mapping[bytes, TopicFacts]) -> list[TopicFacts]:
    wanted = frozenset[bytes]().union(*(member.topics for member in members))
    return [facts for facts in in_order(topics) if facts.topic_id in wanted]


def _keep(members: Sequence[Subscriber], topics: Mapping[bytes, TopicFacts]) -> Given:
    """What everybody still subscribes to and still exists."""
    return {
        member.member_id: {
            (topic_id, index)
            for topic_id, index in member.target
            if topic_id in member.topics and index < topics[topic_id].partition_count
        }
        for member in members
    }


def _is_near(member: Subscriber, facts: TopicFacts, index: int) -> bool:
    return member.rack_id is not None and bool(facts.racks) and member.rack_id in facts.racks[index]


# -- equal subscriptions ---------------------------------------------------------------------------------------------


def _assign_equal(members: Sequence[Subscriber], topics: Mapping[bytes, TopicFacts]) -> Given:
    subscribed = _subscribed(members, topics)
    total = sum(facts.partition_count for facts in subscribed)
    share, extra = divmod(total, len(members))
    given = _keep(members, topics)
    # Those who already hold more than the equal share are the ones who may hold one more: nothing else moves less.
    above = [member for member in members if len(given[member.member_id]) > share][:extra]
    room = {member.member_id: share for member in members}
    room.update((member.member_id, share + 1) for member in above)
    for member in members:
        _trim(given[member.member_id], room[member.member_id], member, topics)
    spare = extra - len(above)
    for member in members:
        if spare and room[member.member_id] == share:
            room[member.member_id] += 1
            spare -= 1
    _hand_out(given, room, members, subscribed)
    return given


def _trim(held: set[TopicIdPartition], room: int, member: Subscriber, topics: Mapping[bytes, TopicFacts]) -> None:
    """Give up what lies far away first, and of the rest the last."""
    if len(held) > room:
        ordered = sorted(held, key=lambda part: (not _is_near(member, topics[part[0]], part[1]), part))
        held.difference_update(ordered[room:])


def _hand_out(given: Given, room: dict[str, int], members: Sequence[Subscriber], subscribed: list[TopicFacts]) -> None:
    held = set[TopicIdPartition]().union(*given.values())
    free = [
        (facts, index)
        for facts in subscribed
        for index in range(facts.partition_count)
        if (facts.topic_id, index) not in held
    ]
    by_rack: dict[str, deque[str]] = {}
    for member in members:
        if member.rack_id is not None:
            by_rack.setdefault(member.rack_id, deque()).append(member.member_id)
    if by_rack:
        free = [part for part in free if not _give_near(part, given, room, by_rack)]
    open_members = deque(member.member_id for member in members)
    for facts, index in free:
        while len(given[open_members[0]]) >= room[open_members[0]]:
            open_members.popleft()
        given[open_members[0]].add((facts.topic_id, index))


def _give_near(
    part: tuple[TopicFacts, int], given: Given, room: dict[str, int], by_rack: dict[str, deque[str]]
) -> bool:
    facts, index = part
    for rack in facts.racks[index] if facts.racks else ():
        waiting = by_rack.get(rack, deque())
        while waiting:
            if len(given[waiting[0]]) < room[waiting[0]]:
                given[waiting[0]].add((facts.topic_id, index))
                waiting.rotate(-1)
                return True
            waiting.popleft()
    return False


# -- unequal subscriptions -------------------------------------------------------------------------------------------


def _assign_unequal(members: Sequence[Subscriber], topics: Mapping[bytes, TopicFacts]) -> Given:
    given = _keep(members, topics)
    by_topic = {
        facts.topic_id: [member for member in members if facts.topic_id in member.topics]
        for facts in _subscribed(members, topics)
    }
    # Topics with few subscribers first: their partitions have the least choice.
    ordered = sorted(
        _subscribed(members, topics),
        key=lambda facts: (len(by_topic[facts.topic_id]), -facts.partition_count, facts.name),
    )
    for facts in ordered:
        _place_free(facts, by_topic[facts.topic_id], given)
    for _ in range(BALANCING_ROUNDS_MAX):
        moved = [_even_out(facts, by_topic[facts.topic_id], given) for facts in ordered]
        if not any(moved):
            break
    return given


def _place_free(facts: TopicFacts, subscribers: Sequence[Subscriber], given: Given) -> None:
    topic_id = facts.topic_id
    held = {
        index for member in subscribers for owner_topic, index in given[member.member_id] if owner_topic == topic_id
    }
    free = [index for index in range(facts.partition_count) if index not in held]
    if facts.racks:
        for index in free:
            taker = min(
                subscribers, key=lambda m: (len(given[m.member_id]), not _is_near(m, facts, index), m.member_id)
            )
            given[taker.member_id].add((topic_id, index))
        return
    heap = [(len(given[member.member_id]), member.member_id) for member in subscribers]
    heapq.heapify(heap)
    for index in free:
        size, member_id = heap[0]
        given[member_id].add((topic_id, index))
        heapq.heapreplace(heap, (size + 1, member_id))


def _even_out(facts: TopicFacts, subscribers: Sequence[Subscriber], given: Given) -> bool:
    """Move this topic's partitions from its fullest owners to its emptiest subscribers; whether any moved.

    Sizes change while entries for them are in the heaps: an entry that tells an old size is thrown away when met.
    """
    topic_id = facts.topic_id
    owned = {
        member.member_id: sorted(part for part in given[member.member_id] if part[0] == topic_id)
        for member in subscribers
    }
    emptiest = [(len(given[member_id]), member_id) for member_id in owned]
    fullest = [(-size, member_id) for size, member_id in emptiest if owned[member_id]]
    heapq.heapify(emptiest)
    heapq.heapify(fullest)
    moved = False
    while True:
        while fullest and (-fullest[0][0] != len(given[fullest[0][1]]) or not owned[fullest[0][1]]):
            heapq.heappop(fullest)
        while emptiest and emptiest[0][0] != len(given[emptiest[0][1]]):
            heapq.heappop(emptiest)
        if not fullest or -fullest[0][0] - emptiest[0][0] <= 1:
            return moved
        giver, taker = fullest[0][1], emptiest[0][1]
        part = owned[giver].pop()
        given[giver].remove(part)
        given[taker].add(part)
        owned[taker].append(part)
        for member_id in (giver, taker):
            heapq.heappush(emptiest, (len(given[member_id]), member_id))
            heapq.heappush(fullest, (-len(given[member_id]), member_id))
        moved = True
