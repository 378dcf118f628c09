"""Which topics and partitions a read subscribes to, and the group it is known by. Pure."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from moldau.model.ids import TopicPartition, topic_name_problem
from moldau.spark.source.positions import parse_assignment

GROUP_CHARACTERS_MAX: Final = 200
WORKINGS: Final = ("__moldau_decisions", "__pipelines")
"""Topics that moldau keeps for itself. Brokers flag their own internal topics and do not know about these."""


@dataclass(frozen=True)
class Subscription:
    """Which partitions to read: exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()

    def names(self) -> str:
        """For people: what was asked for."""
        if self.pattern is not None:
            return self.pattern
        return ",".join(self.topics or sorted({partition.topic for partition in self.assigned}))

    def includes(self, partition: TopicPartition) -> bool:
        """Whether it would be read if it existed."""
        if self.assigned:
            return partition in self.assigned
        return partition.topic in self.topics or self.matches(partition.topic)

    def matches(self, topic: str, *, internal: bool = False) -> bool:
        """Of patterns. As in Spark's Kafka source internal topics are never meant."""
        return self.pattern is not None and not internal and finds(self.pattern, topic)


def finds(pattern: str, topic: str) -> bool:
    """As in Spark's Kafka source anywhere in the name: `^` and `$` bind a pattern to its ends."""
    if topic in WORKINGS and not pattern.lstrip("^").startswith("__"):
        return False
    return re.search(pattern, topic) is not None


def _subscribe(text: str) -> Subscription:
    topics = tuple(dict.fromkeys(filter(None, (part.strip() for part in text.split(",")))))
    if not topics:
        raise ValueError(f"'{text}' names no topic")
    for topic in topics:
        problem = topic_name_problem(topic)
        if problem is not None:
            raise ValueError(f"'{topic}' is not a topic name: {problem}")
    return Subscription(topics=topics)


def _subscribe_pattern(text: str) -> Subscription:
    pattern = text.strip()
    if not pattern:
        raise ValueError("the pattern is empty")
    try:
        with warnings.catch_warnings():
            # Python warns of what means something else in other dialects, such as Java's [a-z&&[^b]].
            warnings.simplefilter("error", FutureWarning)
            re.compile(pattern)
    except (re.error, FutureWarning) as mistake:
        raise ValueError(f"'{pattern}' is not a regular expression of Python: {mistake}") from None
    return Subscription(pattern=pattern)


def _assign(text: str) -> Subscription:
    return Subscription(assigned=parse_assignment(text))


SUBSCRIPTIONS: Final[dict[str, Callable[[str], Subscription]]] = {
    "subscribe": _subscribe,
    "subscribePattern": _subscribe_pattern,
    "assign": _assign,
}


def group_name(prefix: str, subscription: Subscription) -> str:
    """The default group: the same after a restart, and telling in a list of groups."""
    name = f"{prefix}-{subscription.names()}"
    if len(name) <= GROUP_CHARACTERS_MAX:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    return f"{name[: GROUP_CHARACTERS_MAX - 13]}-{digest}"
