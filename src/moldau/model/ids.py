"""Names and numbers that identify things, and the rules for topic names."""

from __future__ import annotations

from typing import Final, NamedTuple

TOPIC_NAME_CHARACTERS_MAX: Final = 249
NO_PRODUCER_ID: Final = -1
NO_TOPIC_ID: Final = bytes(16)
"""Topic ids are the 16 raw bytes of a UUID; all zero means "none"."""

CONSUMER_OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC})

_NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class TopicPartition(NamedTuple):
    """One partition of one topic, by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def topic_name_problem(name: str) -> str | None:
    """Say what is wrong with a topic name, or None. The rules are Kafka's; they also keep paths safe."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return "'.' or '..' is not allowed"
    if len(name) > TOPIC_NAME_CHARACTERS_MAX:
        return f"the length of '{name[:32]}...' is longer than {TOPIC_NAME_CHARACTERS_MAX} characters"
    if not _NAME_CHARACTERS.issuperset(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def collision_key(name: str) -> str:
    """Topics whose names differ only in '.' and '_' collide in metric names; Kafka refuses the second."""
    return name.replace(".", "_")
