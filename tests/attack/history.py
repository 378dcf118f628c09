"""What the good client was promised, how long it waited, and whether the promises are kept."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.attack.good_client import PARTITIONS, TOPIC, number_of
from tests.attack.watch import Watched
from tests.fault.outside import STURDY

READ_S_MAX = 120.0


@dataclass(frozen=True)
class Wait:
    """For an acknowledgement (ack), a record that was sent (read), or an answer about metadata (asked)."""

    kind: str
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.begin


@dataclass
class Journal:
    """The good client's journal, read on as it grows."""

    path: Path
    acknowledged: list[dict[int, int]] = field(default_factory=lambda: [{} for _ in range(PARTITIONS)])
    """Per partition: the number of the record at each offset."""
    waits: list[Wait] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    _position: int = 0

    def refresh(self) -> None:
        if not self.path.exists():
            return
        with self.path.open() as file:
            file.seek(self._position)
            text = file.read()
        whole = text[: text.rfind("\n") + 1]
        self._position += len(whole.encode())
        for line in whole.splitlines():
            self._take(line)

    def _take(self, line: str) -> None:
        kind, begin, end, *facts = line.split(" ", 3)
        if kind == "problem":
            self.problems.append(facts[0])
            return
        if kind == "ack":
            partition, offset, number = map(int, facts[0].split())
            before = self.acknowledged[partition].setdefault(offset, number)
            if before != number:
                self.problems.append(f"partition {partition}: offset {offset} was given to {before} and to {number}")
        if kind in ("ack", "read", "asked"):
            self.waits.append(Wait(kind, float(begin), float(end)))

    @property
    def acknowledged_count(self) -> int:
        return sum(map(len, self.acknowledged))

    def last_answered(self, kind: str = "ack") -> float:
        """When the newest request that was answered had been sent."""
        return max((wait.begin for wait in self.waits if wait.kind == kind), default=0.0)

    def acknowledged_between(self, begin: float, end: float) -> int:
        """Records that were both sent and acknowledged in this time."""
        return sum(wait.kind == "ack" and begin <= wait.begin and wait.end <= end for wait in self.waits)

    def longest(self, watched: Watched, begin: float, end: float) -> tuple[Wait | None, float]:
        """The wait of this time that was longest, and its seconds without what the machine took."""
        longest, longest_s = None, 0.0
        for wait in self.waits:
            if wait.end < begin or wait.begin > end or wait.seconds <= longest_s:
                continue
            net = wait.seconds - watched.machine_s(wait.begin, wait.end)
            if net > longest_s:
                longest, longest_s = wait, net
        return longest, longest_s


def read_back(bootstrap: str, journal: Journal) -> tuple[int, list[str]]:
    """How many acknowledged records are not where they were acknowledged, and what else is wrong."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
        | {"auto.offset.reset": "error", **STURDY}
    )
    lost, problems = 0, []
    try:
        for partition in range(PARTITIONS):
            found = _read_partition(consumer, partition, problems)
            wrong = [at for at, number in journal.acknowledged[partition].items() if found.get(at) != number]
            lost += len(wrong)
            if wrong:
                problems.append(f"partition {partition}: {len(wrong)} acknowledged records are gone, from {min(wrong)}")
            if (numbers := [found[at] for at in sorted(found)]) != sorted(set(numbers)):
                problems.append(f"partition {partition}: records are there twice or out of order")
    except KafkaException as failure:
        problems.append(f"the good client's topic cannot be read: {failure}")
        lost += journal.acknowledged_count
    finally:
        consumer.close()
    return lost, problems


def _read_partition(consumer: Consumer, partition: int, problems: list[str]) -> dict[int, int]:
    low, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=60)
    found: dict[int, int] = {}
    consumer.assign([TopicPartition(TOPIC, partition, low)])
    at, deadline = low, time.monotonic() + READ_S_MAX
    while at < high and time.monotonic() < deadline:
        for message in consumer.consume(min(1000, high - at), timeout=1.0):
            if message.error() is not None:
                problems.append(f"partition {partition} at {at}: {message.error()}")
                return found
            try:
                found[message.offset()] = number_of(message.value())
            except ValueError as spoiled:
                problems.append(f"partition {partition}, offset {message.offset()}: {spoiled}")
            at = message.offset() + 1
    return found
