"""`range`: consecutive partitions of each topic, in the order of the members.

Topics with equally many partitions and the same subscribers are cut at the same places, so that a member which gets
partition 3 of one gets partition 3 of all: that is what joins on equal keys need. Members are ordered by instance id,
then by member id, so static members keep their place over restarts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moldau.core.group.consumer.assignors.spec import Assignment, Subscriber, in_order
from moldau.core.group.consumer.records import TopicIdPartition
from moldau.core.group.consumer.topics import TopicFacts


def assign_range(members: Sequence[Subscriber], topics: Mapping[bytes, TopicFacts]) -> Assignment:
    ordered = sorted(members, key=_place)
    given: dict[str, set[TopicIdPartition]] = {member.member_id: set() for member in ordered}
    for facts in in_order(topics):
        subscribers = [member.member_id for member in ordered if facts.topic_id in member.topics]
        if not subscribers:
            continue
        share, extra = divmod(facts.partition_count, len(subscribers))
        start = 0
        for place, member_id in enumerate(subscribers):
            end = start + share + (place < extra)
            given[member_id].update((facts.topic_id, index) for index in range(start, end))
            start = end
    return {member_id: frozenset(partitions) for member_id, partitions in given.items()}


def _place(member: Subscriber) -> tuple[bool, str, str]:
    return member.instance_id is None, member.instance_id or "", member.member_id
