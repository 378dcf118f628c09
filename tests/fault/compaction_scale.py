"""Compact a topic of many records with few keys while produce and fetch go on.

    python -m tests.fault.compaction_scale --records 10000000 --keys 100000

States the broker's memory before, the most while compacting, and what produce and fetch felt of it; then reads the
topic back and checks that each key's last value is there.
"""

from __future__ import annotations

import argparse
import os
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from moldau.cli.broker_process import BrokerProcess
from tests.machine import seconds_queued, slowness

TOPIC, SIDE_TOPIC = "sparse", "meanwhile"
SETTINGS = {
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.dedupe.buffer.size": "16777216",  # 16 MiB in all: the bound that is to be kept
    "log.cleaner.threads": "1",
}
VALUE = struct.Struct(">q")


@dataclass
class Facts:
    records: int
    keys: int
    rss_before_mib: float = 0.0
    rss_most_mib: float = 0.0
    records_after: int = 0
    compaction_s: float = 0.0
    side_produced: int = 0
    side_longest_s: float = 0.0
    fetches: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def growth_mib(self) -> float:
        return self.rss_most_mib - self.rss_before_mib


def key_sequence(records: int, keys: int) -> Iterator[int]:
    """A walk over the keys that visits all of them, some much later than others."""
    for number in range(records):
        yield (number * 7919) % keys


def fill(bootstrap: str, facts: Facts) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "batch.size": 500_000,
            "queue.buffering.max.messages": 1_000_000,
            "acks": 1,
            "log_level": 0,
        }
    )
    for number, key in enumerate(key_sequence(facts.records, facts.keys)):
        while True:
            try:
                producer.produce(TOPIC, VALUE.pack(number), key=b"key-%d" % key, partition=0)
                break
            except BufferError:
                producer.poll(0.05)
        if number % 1000 == 0:
            producer.poll(0)
    if producer.flush(300):
        facts.problems.append("not every record was acknowledged")


class Meanwhile(threading.Thread):
    """Produces to another topic, one record at a time, and reads it back: what a user feels."""

    def __init__(self, broker: BrokerProcess, facts: Facts) -> None:
        super().__init__(name="meanwhile")
        self.bootstrap, self.pid, self.facts = broker.bootstrap, broker.pid, facts
        self.stopping = threading.Event()

    def run(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0, "acks": 1, "log_level": 0})
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "unused", "enable.auto.commit": False, "log_level": 0}
        )
        consumer.assign([TopicPartition(SIDE_TOPIC, 0, 0)])
        while not self.stopping.is_set():
            begin, queued_s = time.monotonic(), self.queued_s()
            producer.produce(SIDE_TOPIC, b"still here", partition=0)
            if producer.flush(30):
                self.facts.problems.append("a produce was not answered while compacting")
                break
            self.facts.side_produced += 1
            if consumer.poll(30) is None:
                self.facts.problems.append("a fetch was not answered while compacting")
                break
            self.facts.fetches += 1
            took_s = time.monotonic() - begin - max(0.0, self.queued_s() - queued_s)
            self.facts.side_longest_s = max(self.facts.side_longest_s, took_s / slowness())
        consumer.close()

    def queued_s(self) -> float:
        """What other programs on this machine cost is not felt because of the compaction."""
        return seconds_queued(self.pid, os.getpid())


class MemoryWatch(threading.Thread):
    def __init__(self, pid: int, facts: Facts) -> None:
        super().__init__(name="memory")
        self.process, self.facts = psutil.Process(pid), facts
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.wait(0.02):
            self.facts.rss_most_mib = max(self.facts.rss_most_mib, anonymous_mib(self.process.pid))


def anonymous_mib(pid: int) -> float:
    """Memory of the process's own; mapped segments are page cache, which the kernel takes back at will."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return 0.0


def read_back(bootstrap: str) -> tuple[int, dict[bytes, int]]:
    """How many records there are, and the last value of each key."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    low, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=60)
    consumer.assign([TopicPartition(TOPIC, 0, low)])
    count, last, at = 0, {}, low
    while at < high:
        messages = consumer.consume(10_000, timeout=60)
        for message in messages:
            error = message.error()
            if error is not None:
                if error.name() == "_PARTITION_EOF":
                    at = high
                    continue
                raise KafkaException(error)
            key, value, offset = message.key(), message.value(), message.offset()
            assert key is not None
            assert value is not None
            assert offset is not None
            count += 1
            last[key] = VALUE.unpack(value)[0]
            at = offset + 1
        if not messages:
            raise TimeoutError(f"no record after offset {at} of {high}")
    consumer.close()
    return count, last


def expected_last(records: int, keys: int) -> dict[bytes, int]:
    return {b"key-%d" % key: number for number, key in enumerate(key_sequence(records, keys))}


def wait_until_compacted(directory: Path, facts: Facts, patience_s: float) -> None:
    """Done when the closed segments of the partition hold little more than one record per key, twice in a row."""
    begin, sizes = time.monotonic(), [-1, -2]
    while time.monotonic() - begin < patience_s:
        size = sum(file.stat().st_size for file in sorted(directory.glob("*.log"))[:-1] if file.exists())
        sizes = [sizes[1], size]
        if sizes[0] == sizes[1] and size < facts.keys * 100 * 2:
            facts.compaction_s = time.monotonic() - begin
            return
        time.sleep(0.5)
    facts.problems.append(f"not compacted after {patience_s:.0f} s")


def run(folder: Path, records: int, keys: int, say: Callable[[str], None] = print) -> Facts:
    facts = Facts(records, keys)
    broker = BrokerProcess(folder / "data", SETTINGS)
    broker.start()
    try:
        # Cleaning waits until the topic is full: the dirty ratio is set to 1 first.
        segment_bytes = max(1_048_576, min(64 * 2**20, records * 5))
        config = {"cleanup.policy": "compact", "segment.bytes": str(segment_bytes), "min.cleanable.dirty.ratio": "1.0"}
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for answer in admin.create_topics([NewTopic(TOPIC, 1, 1, config=config), NewTopic(SIDE_TOPIC, 1, 1)]).values():
            answer.result(30)
        fill(broker.bootstrap, facts)
        directory = next((folder / "data").glob(f"**/{TOPIC}-0"))
        say(f"filled: {sum(f.stat().st_size for f in directory.glob('*.log')) / 1e6:.0f} MB")
        compact(broker, directory, admin, facts)
        facts.records_after, last = read_back(broker.bootstrap)
        if last != expected_last(records, keys):
            facts.problems.append("a key lost its last value")
        return facts
    finally:
        broker.stop()


def compact(broker: BrokerProcess, directory: Path, admin: AdminClient, facts: Facts) -> None:
    facts.rss_before_mib = facts.rss_most_mib = anonymous_mib(broker.pid)
    meanwhile, watch = Meanwhile(broker, facts), MemoryWatch(broker.pid, facts)
    meanwhile.start()
    watch.start()
    try:
        set_config(admin, "min.cleanable.dirty.ratio", "0.01")
        wait_until_compacted(directory, facts, patience_s=600)
    finally:
        for thread in (meanwhile, watch):
            thread.stopping.set()
            thread.join()


def set_config(admin: AdminClient, key: str, value: str) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource  # type: ignore[attr-defined]

    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=[entry])
    for answer in admin.incremental_alter_configs([resource]).values():
        answer.result(30)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="moldau-compact-") as folder:
        facts = run(Path(folder), arguments.records, arguments.keys)
    print(facts)
    print(f"memory grew by {facts.growth_mib:.1f} MiB while compacting")
    return 1 if facts.problems else 0


if __name__ == "__main__":
    sys.exit(main())
