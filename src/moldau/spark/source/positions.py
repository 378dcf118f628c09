"""Where a read starts and ends, as options say it. Pure: nothing here asks a cluster or a clock.

Spark's words (`earliest`, `latest`, JSON with -2 and -1, timestamps) and those people miss there: `-10m` (ten minutes
ago), `2026-11-15T08:00Z`, `-1000` (the last thousand records of each partition), `+5`, `@timestamp`.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.model.ids import TopicPartition, topic_name_problem
from moldau.model.quantities import is_duration, iso_ms, parse_duration_ms
from moldau.spark.option_values import LONG_MAX

EARLIEST: Final = -2
LATEST: Final = -1

_START_WORDS: Final = frozenset({"earliest", "start", "beginning", "oldest"})
_END_WORDS: Final = frozenset({"latest", "end", "newest"})
OFFSET_FORMS: Final = (
    'earliest, latest, JSON such as {"orders":{"0":23,"1":-2}} (-2 earliest, -1 latest), a time back such as -10m, '
    "an ISO-8601 time, or -1000 (the last thousand records of each partition)"
)
TIME_FORMS: Final = "milliseconds since 1970, an ISO-8601 time, or a time back such as -10m"


class Anchor(enum.Enum):
    EARLIEST = "earliest"
    """`shift` offsets after the first one."""
    LATEST = "latest"
    """`shift` offsets after the end; negative means before it."""
    OFFSETS = "offsets"
    """An offset of its own for every partition."""
    EXACT = "exact"
    """The same offset in every partition."""
    TIME = "time"
    """The first record at or after `timestamp_ms`."""
    AGO = "ago"
    """The first record that is at most `timestamp_ms` old, counted when the read is planned."""
    TIMES = "times"
    """A timestamp of its own for every partition."""


@dataclass(frozen=True)
class Limit:
    """One end of a read."""

    anchor: Anchor
    shift: int = 0
    timestamp_ms: int = 0
    partitions: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Offsets or timestamps, by partition."""
    latest_if_none: bool = True
    """Of times: no record is that new. True means the end of the log, False means that it is an error."""
    option: str = field(default="", compare=False)
    """Where it comes from, for errors."""

    @property
    def depends_on_now(self) -> bool:
        """True when resolving it again later gives another place though nothing was deleted."""
        if self.anchor in (Anchor.LATEST, Anchor.AGO):
            return True
        if self.anchor is Anchor.OFFSETS:
            return LATEST in self.partitions.values()
        return self.anchor in (Anchor.TIME, Anchor.TIMES) and self.latest_if_none


def parse_offsets_option(text: str) -> Limit:
    """`startingOffsets` and `endingOffsets`. ValueError says what is wrong."""
    word = text.strip().lower()
    if word in _START_WORDS:
        return Limit(Anchor.EARLIEST)
    if word in _END_WORDS:
        return Limit(Anchor.LATEST)
    if word.startswith("{"):
        return Limit(Anchor.OFFSETS, partitions=parse_partition_numbers(text, "an offset", least=EARLIEST))
    if re.fullmatch(r"\+\d+", word):
        return Limit(Anchor.EARLIEST, shift=int(word))
    if re.fullmatch(r"-\d+", word):
        return Limit(Anchor.LATEST, shift=int(word))
    if word.isdigit():
        return Limit(Anchor.EXACT, shift=_within_long(int(word)))
    try:
        return parse_time_option(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a place in a topic: use {OFFSET_FORMS}") from None


def parse_time_option(text: str, *, latest_if_none: bool = True) -> Limit:
    """`startingTimestamp` and `endingTimestamp`. ValueError says what is wrong."""
    word = text.strip().removeprefix("@")
    if word.startswith("-") and is_duration(word[1:]):
        return Limit(Anchor.AGO, timestamp_ms=parse_duration_ms(word[1:]))
    return Limit(Anchor.TIME, timestamp_ms=_parse_time_ms(word), latest_if_none=latest_if_none)


def parse_times_option(text: str, *, latest_if_none: bool) -> Limit:
    """`startingOffsetsByTimestamp` and `endingOffsetsByTimestamp`. ValueError says what is wrong."""
    times = parse_partition_numbers(text, "a timestamp", least=0)
    return Limit(Anchor.TIMES, partitions=times, latest_if_none=latest_if_none)


def _parse_time_ms(word: str) -> int:
    # As in Spark, every bare number is milliseconds; elsewhere in moldau a short one would be seconds.
    if re.fullmatch(r"\d+", word):
        return _within_long(int(word))
    try:
        return iso_ms(word)
    except ValueError:
        raise ValueError(f"'{word}' is not a time: use {TIME_FORMS}") from None


# -- Spark's JSON ------------------------------------------------------------------------------------------------------


def parse_partition_numbers(text: str, what: str, *, least: int) -> dict[TopicPartition, int]:
    """`{"topic":{"0":23}}` -> {(topic, 0): 23}. ValueError says what is wrong and where."""
    found: dict[TopicPartition, int] = {}
    for topic, rows in _topics_of(text, '{"orders":{"0":23,"1":42}}').items():
        if not isinstance(rows, dict):
            raise ValueError(f'topic \'{topic}\' must hold partitions, as in {{"{topic}":{{"0":23}}}}')
        for key, value in rows.items():
            if not key.isdigit():
                raise ValueError(f"'{key}' is not a partition number (topic '{topic}')")
            number = _number(value, f"{what} (topic '{topic}', partition {key})")
            if number < least:
                raise ValueError(f"{number} is not {what} (topic '{topic}', partition {key})")
            found[TopicPartition(topic, int(key))] = _within_long(number)
    return found


def parse_assignment(text: str) -> tuple[TopicPartition, ...]:
    """`{"topicA":[0,1],"topicB":[2]}`, the option `assign`. ValueError says what is wrong."""
    found: set[TopicPartition] = set()
    for topic, numbers in _topics_of(text, '{"orders":[0,1],"views":[0]}').items():
        if not isinstance(numbers, list) or not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError(f"topic '{topic}' must hold a list of partition numbers, as in {{\"{topic}\":[0,1]}}")
        found.update(TopicPartition(topic, number) for number in numbers)
    if not found:
        raise ValueError("names no partition")
    return tuple(sorted(found))


def _topics_of(text: str, example: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as mistake:
        raise ValueError(f"is not JSON ({mistake}); it should look like {example}") from None
    if not isinstance(document, dict):
        raise ValueError(f"should look like {example}")
    for topic in document:
        problem = topic_name_problem(topic)
        if problem is not None:
            raise ValueError(f"'{topic}' is not a topic name: {problem}")
    return document


def _within_long(number: int) -> int:
    if number > LONG_MAX:
        raise ValueError(f"{number} is too large: the largest is {LONG_MAX}")
    return number


def _number(value: Any, what: str) -> int:
    if type(value) is int:
        return value
    if isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        return int(value)
    raise ValueError(f"{json.dumps(value)} is not {what}")
