"""The input, what must come out of it, and the comparison. Knows neither Spark nor moldau's source and sink."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from tests.fault.outside import Place, read_to_end

INPUT, COPY_OUTPUT, TOTALS_OUTPUT = "spark-input", "spark-copy", "spark-totals"
PARTITIONS = 4
WINDOW_S = 30
STEP_MS = 100  # event time between two records: a window holds three hundred of them
BASE_MS = 1_700_000_000_000
NAMES = 20
FAR_MS = 30 * 86_400_000
READ_SECONDS_MAX = 120.0


@dataclass
class Story:
    """What was done and what was seen."""

    records: int
    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    aimed: int = 0  # kills timed by a decision that was just being written
    drivers: int = 0
    own_ends: list[str] = field(
        default_factory=list
    )  # drivers that ended without being killed: the last of their words
    final: dict[str, dict[Place, bytes]] = field(default_factory=dict)
    uncommitted: dict[str, int] = field(default_factory=dict)
    expected: dict[str, Counter[bytes]] = field(default_factory=dict)
    seen: dict[str, dict[Place, bytes]] = field(default_factory=lambda: {COPY_OUTPUT: {}, TOTALS_OUTPUT: {}})
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def judge(self) -> list[str]:
        problems = list(self.problems)
        for topic, wanted in self.expected.items():
            found = self.final.get(topic, {})
            problems += [f"{topic}: {line}" for line in differences(Counter(found.values()), wanted)]
            vanished = [place for place, value in self.seen[topic].items() if found.get(place) != value]
            if vanished:
                problems.append(f"{topic}: {len(vanished)} records seen under read_committed are gone or changed")
        return problems


def differences(found: Counter[bytes], wanted: Counter[bytes]) -> list[str]:
    """Both as multisets."""
    lines = []
    for what, left in (("missing", wanted - found), ("too many", found - wanted)):
        if left:
            lines.append(f"{left.total()} {what}, such as {sorted(left)[:3]}")
    return lines


def watermark_s(per_trigger: int) -> int:
    """The event time of three batches.

    Partitions are read evenly, so no record is ever that late, whichever batch a kill puts it into: then the result
    does not depend on the kills and the comparison can be exact. Yet windows close all through the run.
    """
    return 3 * per_trigger * STEP_MS // 1000


def record(number: int, rng: random.Random) -> tuple[bytes, bytes]:
    name = b"n%d" % rng.randrange(NAMES)
    return name, b"%d,%s,%d" % (number, name, BASE_MS + number * STEP_MS)


def far_later(records: int) -> tuple[bytes, bytes]:
    """A record so much later that every window of the others closes. Its own window never does."""
    return b"end", b"%d,end,%d" % (records, BASE_MS + records * STEP_MS + FAR_MS)


def fill(bootstrap: str, records: int, seed: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topics = [NewTopic(name, PARTITIONS, 1) for name in (INPUT, COPY_OUTPUT, TOTALS_OUTPUT)]
    for answer in admin.create_topics(topics).values():
        answer.result(30)
    rng = random.Random(seed)
    send(bootstrap, [record(number, rng) for number in range(records)])


def send(bootstrap: str, records: Iterable[tuple[bytes, bytes]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0})
    for index, (key, value) in enumerate(records):
        producer.produce(INPUT, value, key, partition=index % PARTITIONS)
        if index % 1000 == 0:
            producer.poll(0.01)
    assert producer.flush(60) == 0


def one_shot(values: Iterable[bytes]) -> dict[str, Counter[bytes]]:
    """The results of the two queries, computed at once from the whole input."""
    copy: Counter[bytes] = Counter()
    sums: dict[tuple[int, bytes], list[int]] = defaultdict(lambda: [0, 0])
    for value in values:
        copy[b"copy," + value] += 1
        number, name, at_ms = value.split(b",")
        if name == b"end":
            continue
        start_s = int(at_ms) // 1000 // WINDOW_S * WINDOW_S
        total = sums[start_s, name]
        total[0] += 1
        total[1] += int(number)
    lines = (b"%d,%s,%d,%d" % (start_s, name, count, total) for (start_s, name), (count, total) in sums.items())
    return {COPY_OUTPUT: copy, TOTALS_OUTPUT: Counter(lines)}


def read_topic(bootstrap: str, topic: str, isolation: str, problems: list[str]) -> dict[Place, bytes]:
    return read_to_end(bootstrap, topic, PARTITIONS, isolation, problems, within_s=READ_SECONDS_MAX)


def held_back(bootstrap: str, topic: str) -> list[int]:
    """Partitions whose end a read_committed reader cannot reach: somebody left a transaction open."""
    from confluent_kafka import IsolationLevel  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = {TopicPartition(topic, index): OffsetSpec.latest() for index in range(PARTITIONS)}  # type: ignore[no-untyped-call]
    ends = []
    for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
        answers = admin.list_offsets(wanted, isolation_level=level, request_timeout=30)
        ends.append({partition.partition: answer.result().offset for partition, answer in answers.items()})
    return [index for index in range(PARTITIONS) if ends[0][index] != ends[1][index]]
