"""What a generator makes, and how it makes it look real: popular things are popular, and events arrive late."""

from __future__ import annotations

import heapq
import itertools
import json
import random
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

# A Monday morning. Fixed, so that a seed always gives the same records.
START_MS: Final = int(datetime(2026, 1, 5, 9, tzinfo=UTC).timestamp() * 1000)


class Event(NamedTuple):
    """One record and when it arrives, in the time of the story it tells."""

    topic: str
    key: bytes | None
    value: bytes | None
    arrival_ms: int


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that an example needs."""

    name: str
    partitions: int = 2
    configs: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """All that a test, the demo and the command line need to know about an example."""

    name: str
    topics: tuple[Topic, ...]
    events: Callable[[int], Iterator[Event]]
    """The seed -> records without end, in the order in which they arrive."""
    expected: Callable[[Sequence[Event]], Any]
    """The right result, from the records alone."""
    flush_every_ms: int = 15_000
    """Of the story's time. Partitions fill evenly, or the watermark runs ahead of what still sits in a buffer."""

    def generate(self, records: int, seed: int) -> list[Event]:
        return list(itertools.islice(self.events(seed), records))


class Zipf:
    """Picks from a sequence; the second is picked about half as often as the first, the third a third as often."""

    def __init__(self, choices: Sequence[str], exponent: float = 1.0) -> None:
        self._choices = choices
        self._heights = list(itertools.accumulate(1.0 / rank**exponent for rank in range(1, len(choices) + 1)))

    def pick(self, chance: random.Random) -> str:
        return self._choices[bisect(self._heights, chance.random() * self._heights[-1])]


class Arrivals:
    """Puts events into the order in which they arrive, which is not the order in which they happen."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, Event]] = []
        self._numbers = itertools.count()

    def add(self, event: Event) -> None:
        heapq.heappush(self._waiting, (event.arrival_ms, next(self._numbers), event))

    def until(self, now_ms: int) -> Iterator[Event]:
        """What has arrived by now. Nothing that arrives earlier may be added afterwards."""
        while self._waiting and self._waiting[0][0] <= now_ms:
            yield heapq.heappop(self._waiting)[2]


def network_delay_ms(chance: random.Random, *, longest_ms: int) -> int:
    """Mostly well under a second; one in ten takes seconds; one in a hundred was offline, up to the longest."""
    luck = chance.random()
    if luck < 0.01:
        return chance.randrange(longest_ms)
    typical_ms = 3_000 if luck < 0.1 else 200
    return min(longest_ms, int(chance.expovariate(1 / typical_ms)))


def iso(time_ms: int) -> str:
    """Milliseconds since 1970 as people and Spark read it."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_iso(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return round(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)


def to_json(row: Mapping[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode()
