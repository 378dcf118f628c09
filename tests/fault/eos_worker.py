"""One worker of the exactly-once copy: reads, transforms, writes, and commits its offsets inside the transaction.

Started by `eos_copy` as a process of its own, so that it can be killed, stopped and resumed. Tells each transaction's
outcome as a line of its output: `commit 100`, `abort _REASON`, `deliberate`, `fatal REASON`.
"""

from __future__ import annotations

import random
import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.fault.outside import STURDY

INPUT, OUTPUT, GROUP = "numbers", "squares", "copiers"
DELIBERATE_SHARE = 0.05  # of the transactions are written and then aborted
PAUSE_SHARE = 0.3  # of the transactions wait in the middle, where a kill or a stop is to find them
CALL_S = 30.0


def transformed(number: int) -> int:
    return number * number


class Worker:
    def __init__(
        self, bootstrap: str, name: str, instance: str | None, seed: int, records_per_transaction: int
    ) -> None:
        self.records_per_transaction = records_per_transaction
        self.rng = random.Random(seed)
        self.gathered: list[Message] = []
        self.doomed = False
        common: dict[str, Any] = {"bootstrap.servers": bootstrap, **STURDY}
        reading = {
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 2000,
            "heartbeat.interval.ms": 300,
            "isolation.level": "read_committed",
        }
        if instance is not None:
            reading["group.instance.id"] = instance
        self.consumer = Consumer({**common, **reading})
        writing = {"transactional.id": f"copy-{name}", "transaction.timeout.ms": 20_000, "linger.ms": 1}
        self.producer = Producer({**common, **writing})

    def run(self) -> None:
        self.producer.init_transactions(CALL_S)
        self.consumer.subscribe([INPUT], on_assign=self._moved, on_revoke=self._moved, on_lost=self._moved)
        while True:
            if self._gather():
                self._copy()

    def _moved(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """What was read under the assignment before is another member's to copy."""
        self.gathered.clear()

    def _gather(self) -> bool:
        self.gathered.clear()
        until = time.monotonic() + 0.2
        while len(self.gathered) < self.records_per_transaction and time.monotonic() < until:
            message = self.consumer.poll(0.05)
            if message is None:
                continue
            error = message.error()
            if error is None:
                self.gathered.append(message)
            elif error.fatal() or error.name() == "_FATAL":
                raise KafkaException(error)
        return bool(self.gathered)

    def _copy(self) -> None:
        self.producer.begin_transaction()
        try:
            self.doomed = self.rng.random() < DELIBERATE_SHARE
            offsets = self._write()
            group = self.consumer.consumer_group_metadata()
            self._insist(lambda: self.producer.send_offsets_to_transaction(offsets, group, CALL_S))
            if self.doomed:
                self._undo("deliberate")
                return
            self._insist(lambda: self.producer.commit_transaction(CALL_S))
            tell(f"commit {len(self.gathered)}")
        except KafkaException as failure:
            error = failure.args[0]
            if not error.txn_requires_abort():
                raise
            self._undo(f"abort {error.name()}")

    def _write(self) -> list[TopicPartition]:
        """The transformed records; returns where the group would go on."""
        ends: dict[int, int] = {}
        for message in self.gathered:
            value, partition, offset = message.value(), message.partition(), message.offset()
            assert value is not None
            assert partition is not None
            assert offset is not None
            told = b"%d=%d" % (int(value), transformed(int(value))) + (b" doomed" if self.doomed else b"")
            self.producer.produce(OUTPUT, told, partition=partition)
            ends[partition] = offset + 1
        if self.rng.random() < PAUSE_SHARE:
            self.producer.flush(1)
            time.sleep(self.rng.uniform(0, 0.05))
        return [TopicPartition(INPUT, partition, end) for partition, end in ends.items()]

    def _insist(self, call: Any) -> None:
        while True:
            try:
                call()
                return
            except KafkaException as failure:
                if not failure.args[0].retriable():
                    raise

    def _undo(self, why: str) -> None:
        """Abort, and read again from what is committed."""
        self._insist(lambda: self.producer.abort_transaction(CALL_S))
        tell(why)
        mine = self.consumer.assignment()
        if not mine:
            return
        found: list[TopicPartition] = []

        def ask() -> None:
            found[:] = self.consumer.committed(mine, timeout=CALL_S)

        self._insist(ask)
        for place in found:
            self.consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))


def tell(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    bootstrap, name, instance, seed, size = sys.argv[1:6]
    try:
        Worker(bootstrap, name, instance or None, int(seed), int(size)).run()
    except KafkaException as failure:
        tell(f"fatal {failure.args[0].name()}")
    return 3


if __name__ == "__main__":
    sys.exit(main())
