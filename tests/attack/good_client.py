"""The well-behaved client: a process of its own that writes, reads and asks at a steady pace, and writes a journal.

    python -m tests.attack.good_client ADDRESS JOURNAL

Every line of the journal is a fact with the moments between which it happened (`time.monotonic`, which all processes of
a machine share). It gives up on nothing and ends when its standard input does.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import zlib
from typing import TextIO

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.fault.outside import STURDY

TOPIC = "good"
SMALL_PARTITIONS = 3
LARGE_PARTITION = SMALL_PARTITIONS
PARTITIONS = SMALL_PARTITIONS + 1
SEND_EVERY_S = 0.02
LARGE_EVERY = 100
"""Of the records, one is large: it needs the broker's budget for requests, where small ones do not."""
LARGE_BYTES = 400_000
SMALL_BYTES = 100
ASK_EVERY_S = 0.2
UNANSWERED_MAX = 2_000


def value_of(number: int, sent_at: float) -> bytes:
    size = LARGE_BYTES if is_large(number) else SMALL_BYTES
    body = b"%d:%.6f:" % (number, sent_at)
    body += b"x" * (size - len(body))
    return body + b":%d" % zlib.crc32(body)


def number_of(value: bytes) -> int:
    """ValueError, if this is nothing that `value_of` has made."""
    body, _, checksum = value.rpartition(b":")
    if zlib.crc32(body) != int(checksum):
        raise ValueError(f"spoiled: {value[:40]!r}")
    return int(body.partition(b":")[0])


def sent_at_of(value: bytes) -> float:
    return float(value.split(b":", 2)[1])


def is_large(number: int) -> bool:
    return number % LARGE_EVERY == LARGE_EVERY - 1


def partition_of(number: int) -> int:
    return LARGE_PARTITION if is_large(number) else number % SMALL_PARTITIONS


class Journal:
    """Lines that other processes may read at any moment."""

    def __init__(self, out: TextIO) -> None:
        self.out, self.lock = out, threading.Lock()

    def note(self, kind: str, begin: float, end: float, *facts: object) -> None:
        with self.lock:
            self.out.write(" ".join([kind, f"{begin:.6f}", f"{end:.6f}", *map(str, facts)]) + "\n")
            self.out.flush()

    def problem(self, text: str) -> None:
        now = time.monotonic()
        self.note("problem", now, now, text)


class Writer:
    def __init__(self, bootstrap: str, journal: Journal) -> None:
        self.journal, self.unanswered, self.number = journal, 0, 0
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.timeout.ms": 0,  # never
                "reconnect.backoff.ms": 10,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                **STURDY,
            }
        )

    def run(self, stopping: threading.Event) -> None:
        due = time.monotonic()
        while not stopping.is_set():
            now = time.monotonic()
            if now < due or self.unanswered >= UNANSWERED_MAX:
                self.producer.poll(min(0.01, max(0.0, due - now)))
                continue
            self._send(now)
            due = max(due + SEND_EVERY_S, now)
        self.producer.flush(20)

    def _send(self, now: float) -> None:
        number, sent_at = self.number, now

        def delivered(error: KafkaError | None, message: Message) -> None:
            self.unanswered -= 1
            if error is not None:
                self.journal.problem(f"record {number} was refused: {error}")
            else:
                facts = (message.partition(), message.offset(), number)
                self.journal.note("ack", sent_at, time.monotonic(), *facts)

        self.producer.produce(TOPIC, value_of(number, now), partition=partition_of(number), on_delivery=delivered)
        self.number += 1
        self.unanswered += 1


def read(bootstrap: str, journal: Journal, stopping: threading.Event) -> None:
    """Follow the topic: every record comes whole, once and in order."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "fetch.wait.max.ms": 100}
        | {"auto.offset.reset": "error", **STURDY}
    )
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    next_offset = [0] * PARTITIONS
    while not stopping.is_set():
        message = consumer.poll(0.05)
        if message is None or message.error() is not None:
            continue  # nothing new, or an outage; the client tries again
        seen_at, index, offset = time.monotonic(), message.partition(), message.offset()
        if offset != next_offset[index]:
            journal.problem(f"partition {index}: offset {offset} came where {next_offset[index]} was due")
        next_offset[index] = offset + 1
        try:
            number_of(message.value())
        except ValueError as spoiled:
            journal.problem(f"partition {index}, offset {offset}: {spoiled}")
            continue
        journal.note("read", sent_at_of(message.value()), seen_at, index, offset)
    consumer.close()


def ask(bootstrap: str, journal: Journal, stopping: threading.Event) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **STURDY})
    while not stopping.wait(ASK_EVERY_S):
        begin = time.monotonic()
        with contextlib.suppress(KafkaException):
            admin.list_topics(TOPIC, timeout=30)
            journal.note("asked", begin, time.monotonic())


def main() -> int:
    bootstrap, path = sys.argv[1:]
    stopping = threading.Event()
    with open(path, "a") as out:
        journal = Journal(out)
        writer = Writer(bootstrap, journal)
        threads = [
            threading.Thread(target=writer.run, args=(stopping,)),
            threading.Thread(target=read, args=(bootstrap, journal, stopping)),
            threading.Thread(target=ask, args=(bootstrap, journal, stopping)),
        ]
        for thread in threads:
            thread.start()
        sys.stdin.read()
        stopping.set()
        for thread in threads:
            thread.join()
        journal.note("end", time.monotonic(), time.monotonic(), writer.number)
    return 0


if __name__ == "__main__":
    sys.exit(main())
