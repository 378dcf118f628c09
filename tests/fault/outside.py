"""What a client that is not ours sees of a topic: watched through every outage, or read to its end."""

from __future__ import annotations

import threading
import time

from confluent_kafka import Consumer, TopicPartition

# librdkafka 2.16 may get stuck for good when it bootstraps anew after its only broker went away: it then waits,
# spinning, for the end of a broker thread that never ends. Without that strategy it simply connects again.
STURDY: dict[str, str | int | float] = {
    "metadata.recovery.strategy": "none",
    "reconnect.backoff.max.ms": 200,
    "log_level": 0,
}
Place = tuple[int, int]
"""Partition and offset."""


def reader(bootstrap: str, topic: str, partitions: int, isolation: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            **STURDY,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    return consumer


def note(found: dict[Place, bytes], message: object, problems: list[str]) -> None:
    place = (message.partition(), message.offset())  # type: ignore[attr-defined]
    value: bytes = message.value()  # type: ignore[attr-defined]
    if found.setdefault(place, value) != value:
        problems.append(f"{place} was {found[place]!r} and is {value!r}")


class Observer(threading.Thread):
    """Reads a topic under read_committed through every outage: what it saw once must stay."""

    def __init__(
        self, bootstrap: str, topic: str, partitions: int, seen: dict[Place, bytes], problems: list[str]
    ) -> None:
        super().__init__(name=f"observer-{topic}", daemon=True)
        self.seen, self.problems = seen, problems
        self.stopping = threading.Event()
        self.consumer = reader(bootstrap, topic, partitions, "read_committed")

    def run(self) -> None:
        while not self.stopping.is_set():
            for message in self.consumer.consume(1000, timeout=0.1):
                if message.error() is None:
                    note(self.seen, message, self.problems)
        self.consumer.close()

    def finish(self) -> None:
        self.stopping.set()
        self.join()


def read_to_end(
    bootstrap: str, topic: str, partitions: int, isolation: str, problems: list[str], *, within_s: float
) -> dict[Place, bytes]:
    """Everything there is now. That the end is out of reach, as behind an open transaction, is a problem."""
    found: dict[Place, bytes] = {}
    consumer, ended = reader(bootstrap, topic, partitions, isolation), set[int]()
    deadline = time.monotonic() + within_s
    while len(ended) < partitions:
        if time.monotonic() > deadline:
            problems.append(f"{topic}: a {isolation} reader did not come to the end: is a transaction left open?")
            break
        for message in consumer.consume(10_000, timeout=0.5):
            error = message.error()
            if error is None:
                note(found, message, problems)
            elif error.name() == "_PARTITION_EOF":
                index = message.partition()
                assert index is not None
                ended.add(index)
    consumer.close()
    return found
