"""From a group and the topics there are to the next target assignment."""

from __future__ import annotations

from moldau.core.group.consumer.assignors import ASSIGNORS
from moldau.core.group.consumer.assignors.spec import Assignment, Subscriber
from moldau.core.group.consumer.state import NOTHING, ConsumerGroup, Member
from moldau.core.group.consumer.topics import TopicFacts, Topics


def share_out(group: ConsumerGroup, topics: Topics, assignor: str) -> Assignment:
    known: dict[bytes, TopicFacts] = {}
    ids: dict[str, bytes] = {}
    for name in group.subscribed_topics():
        facts = topics.get(name)
        if facts is not None:
            known[facts.topic_id] = facts
            ids[name] = facts.topic_id
    cache: dict[tuple[tuple[str, ...], str | None], frozenset[bytes]] = {}
    members = []
    for member in group.members.values():
        key = (member.metadata.topics, member.metadata.regex)
        if key not in cache:
            cache[key] = frozenset(ids[name] for name in topics_of(group, member) if name in ids)
        members.append(
            Subscriber(
                member.member_id,
                member.metadata.instance_id,
                member.metadata.rack_id,
                cache[key],
                group.targets.get(member.member_id, NOTHING),
            )
        )
    return ASSIGNORS[assignor](members, known)


def topics_of(group: ConsumerGroup, member: Member) -> set[str]:
    return {*member.metadata.topics, *group.resolved(member.metadata.regex)}
