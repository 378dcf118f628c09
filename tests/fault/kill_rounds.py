"""Rounds of `kill -9` while an idempotent producer writes.

    python -m tests.fault.kill_rounds --rounds 100

One producer lives through all rounds and never gives up on a record. In each round the broker is killed at a random
moment, started again on the same directory and address, and what it then shows is compared with what was acknowledged
and with what earlier rounds saw.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from moldau.cli.broker_process import BrokerProcess

PARTITIONS = 3
VALUE_BYTES = 400
TOPIC = "survivors"
# Small segments, so that kills also meet rolling; one megabyte is the least Kafka allows.
TOPIC_CONFIG = {"segment.bytes": "1048576"}
IN_FLIGHT_MAX = 5000
RECORDS_PER_SECOND = 5000  # enough that each kill meets requests on their way


@dataclass
class History:
    """What was sent, acknowledged and seen, per partition."""

    sent: list[int] = field(default_factory=lambda: [0] * PARTITIONS)
    acknowledged: list[dict[int, int]] = field(default_factory=lambda: [{} for _ in range(PARTITIONS)])
    seen: list[dict[int, int]] = field(default_factory=lambda: [{} for _ in range(PARTITIONS)])
    problems: list[str] = field(default_factory=list)

    def acknowledge(self, partition: int, offset: int, number: int) -> None:
        self.acknowledged[partition][offset] = number

    def see(self, partition: int, offset: int, number: int) -> None:
        before = self.seen[partition].setdefault(offset, number)
        if before != number:
            self.problems.append(f"offset {offset} of partition {partition} was record {before}, is now {number}")

    @property
    def acknowledged_count(self) -> int:
        return sum(map(len, self.acknowledged))

    def judge(self) -> list[str]:
        """After everything was read once more: nothing lost, nothing twice, nothing moved."""
        problems = list(self.problems)
        for partition in range(PARTITIONS):
            seen, acknowledged = self.seen[partition], self.acknowledged[partition]
            for offset, number in acknowledged.items():
                if seen.get(offset) != number:
                    problems.append(f"partition {partition}: acknowledged record {number} is not at offset {offset}")
            numbers = [seen[offset] for offset in sorted(seen)]
            if numbers != list(range(self.sent[partition])):
                problems.append(f"partition {partition}: {describe(numbers, self.sent[partition])}")
        return problems


def describe(numbers: list[int], sent: int) -> str:
    twice = len(numbers) - len(set(numbers))
    missing = sent - len(set(numbers))
    return f"{sent} records sent, {len(numbers)} in the log: {twice} twice, {missing} missing, or out of order"


class Writer(threading.Thread):
    """Sends numbered records for as long as it may, through every outage."""

    def __init__(self, bootstrap: str, history: History) -> None:
        super().__init__(name="writer")
        self.history = history
        self.in_flight = 0
        self.stopping = threading.Event()
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 600_000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "linger.ms": 1,
                "batch.num.messages": 100,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        turn, began = 0, time.monotonic()
        while not self.stopping.is_set():
            if self.in_flight >= IN_FLIGHT_MAX or turn > (time.monotonic() - began) * RECORDS_PER_SECOND:
                self.producer.poll(0.005)
                continue
            partition = turn % PARTITIONS
            number = self.history.sent[partition]
            value = b"%d:" % number + b"x" * VALUE_BYTES
            self.producer.produce(TOPIC, value, partition=partition, on_delivery=self._delivered)
            self.history.sent[partition] += 1
            self.in_flight += 1
            turn += 1
            self.producer.poll(0)

    def finish(self) -> None:
        self.stopping.set()
        self.join()
        if left := self.producer.flush(120):
            self.history.problems.append(f"{left} records were never answered")

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self.in_flight -= 1
        value, offset, partition = message.value(), message.offset(), message.partition()
        if error is not None:
            self.history.problems.append(f"a send failed: {error}")
            return
        assert value is not None
        assert offset is not None
        assert partition is not None
        self.history.acknowledge(partition, offset, number_of(value))


def number_of(value: bytes) -> int:
    return int(value.partition(b":")[0])


def read_all(bootstrap: str, history: History, from_start: bool) -> None:
    """See every record from where an earlier round stopped (or from the start) to the present end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    try:
        for partition in range(PARTITIONS):
            low, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), timeout=60)
            start = low if from_start else max(history.seen[partition], default=low - 1) + 1
            acknowledged_end = max(list(history.acknowledged[partition]), default=-1) + 1
            if high < min(acknowledged_end, start):
                history.problems.append(f"partition {partition} ends at {high}, before what was seen")
            consumer.assign([TopicPartition(TOPIC, partition, start)])
            read_range(consumer, history, partition, start, high)
    finally:
        consumer.close()


def read_range(consumer: Consumer, history: History, partition: int, start: int, end: int) -> None:
    at, deadline = start, time.monotonic() + 120
    while at < end and time.monotonic() < deadline:
        for message in consumer.consume(min(10_000, end - at), timeout=1.0):
            value, offset, error = message.value(), message.offset(), message.error()
            if error is not None:
                history.problems.append(f"reading partition {partition} at {at}: {error}")
                return
            assert value is not None
            assert offset is not None
            if offset != at:
                history.problems.append(f"partition {partition}: offset {offset} follows {at - 1}")
            history.see(partition, offset, number_of(value))
            at = offset + 1
    if at < end:
        history.problems.append(f"partition {partition} could not be read from {at} to {end}")


def run(folder: Path, rounds: int, seed: int, tell: object = None) -> History:
    rng = random.Random(seed)
    history = History()
    broker = BrokerProcess(folder / "data")
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=TOPIC_CONFIG)])[TOPIC].result(30)
        writer = Writer(broker.bootstrap, history)
        writer.start()
        try:
            for number in range(rounds):
                kill_once(broker, history, rng)
                if callable(tell):
                    tell(number + 1, history)
        finally:
            writer.finish()
        read_all(broker.bootstrap, history, from_start=True)
        return history
    finally:
        broker.stop()


def kill_once(broker: BrokerProcess, history: History, rng: random.Random) -> None:
    """Wait until this incarnation acknowledges, let it run for a random moment, kill it, start the next one."""
    before, deadline = history.acknowledged_count, time.monotonic() + 300
    while history.acknowledged_count == before and not history.problems:
        if time.monotonic() > deadline:
            history.problems.append("nothing was acknowledged for five minutes after a restart")
        time.sleep(0.002)
    time.sleep(rng.uniform(0, 0.3))  # the fault's own timing, not a synchronisation
    broker.kill()
    broker.start()
    read_all(broker.bootstrap, history, from_start=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    def tell(number: int, history: History) -> None:
        print(
            f"round {number}: {history.acknowledged_count:,} acknowledged, {len(history.problems)} problems", flush=True
        )

    with tempfile.TemporaryDirectory(prefix="moldau-kill-") as folder:
        history = run(Path(folder), arguments.rounds, arguments.seed, tell)
    problems = history.judge()
    print("\n".join(problems[:20]) or f"{sum(history.sent):,} records, none lost, none twice, none moved")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
