"""What a shard knows of KIP-848 groups but does not replicate. Deadlines are with all others in `group/soft.py`."""

from __future__ import annotations

from moldau.core.group.consumer.topics import NoTopics, Topics


class ConsumerSoft:
    def __init__(self) -> None:
        self.topics: Topics = NoTopics()
        self.seen_version: dict[str, int] = {}
        """By group: the version of the topics that its subscriptions were last compared with."""
