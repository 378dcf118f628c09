"""What an assignor is told, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from moldau.core.group.consumer.records import TopicIdPartition
from moldau.core.group.consumer.topics import TopicFacts


class Subscriber(NamedTuple):
    member_id: str
    instance_id: str | None
    rack_id: str | None
    topics: frozenset[bytes]
    """Ids of topics that exist."""
    target: frozenset[TopicIdPartition]
    """What it was meant to have so far; the assignor keeps what it can."""


Assignment: TypeAlias = dict[str, frozenset[TopicIdPartition]]
Assign: TypeAlias = Callable[[Sequence[Subscriber], Mapping[bytes, TopicFacts]], Assignment]
"""Complete: every partition of a topic that somebody subscribes to goes to one of its subscribers. The answer depends
on nothing but the arguments, and not on the order of the members."""


def in_order(topics: Mapping[bytes, TopicFacts]) -> list[TopicFacts]:
    """By name, so that people can foretell what happens."""
    return sorted(topics.values(), key=lambda facts: (facts.name, facts.topic_id))
