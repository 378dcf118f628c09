"""What lies in the data directory that is damaged, and what a client then finds of it."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.fault.outside import STURDY

# Small coordinators and quick checks of retention: settings that are lost must have had the time to do harm.
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "100",
    "log.retention.ms": "600000",
    "auto.create.topics.enable": "false",
}
SMALL_SEGMENTS = {"internal.segment.bytes": "16384", "retention.ms": "-1"}
PLAIN, TRIMMED, TORN, OLD = "plain", "trimmed", "transactions", "old"
GROUP, OFFSETS = "readers", "__consumer_offsets"
RECORDS = 150
TRIM_AT = 70
CALL_S = 30.0
OLD_MS = 10 * 24 * 3600 * 1000
RETENTION_S = 0.6
"""Long enough that retention has looked at least once."""


@dataclass
class World:
    """Topic and partition to offset and value, of what `read_committed` shows."""

    records: dict[tuple[str, int], dict[int, bytes]] = field(default_factory=dict)
    late: dict[tuple[str, int], dict[int, bytes]] = field(default_factory=dict)
    """Written after the clean stop."""
    committed: int = 0

    @classmethod
    def fill(cls, bootstrap: str, rng: random.Random) -> World:
        world = cls()
        admin = AdminClient({"bootstrap.servers": bootstrap, **STURDY})
        topics = [
            NewTopic(name, 2 if name == PLAIN else 1, 1, config=SMALL_SEGMENTS) for name in (PLAIN, TRIMMED, TORN, OLD)
        ]
        for made in admin.create_topics(topics).values():
            made.result(CALL_S)
        values = [b"%d:" % number + rng.randbytes(300) for number in range(RECORDS)]
        world._write(bootstrap, PLAIN, 0, values)
        world._write(bootstrap, PLAIN, 1, values[::-1])
        world._write(bootstrap, TRIMMED, 0, values)
        world._write(bootstrap, OLD, 0, values, timestamp=int(time.time() * 1000) - OLD_MS)
        for done in admin.delete_records([TopicPartition(TRIMMED, 0, TRIM_AT)]).values():
            done.result(CALL_S)
        world.records[TRIMMED, 0] = {at: value for at, value in world.records[TRIMMED, 0].items() if at >= TRIM_AT}
        world._write_transactions(bootstrap, values)
        world.committed = RECORDS // 2
        commit(bootstrap, world.committed)
        return world

    def touch(self, bootstrap: str) -> None:
        """A little more in every topic, for a log whose end is not known to be whole."""
        for topic, partition in ((PLAIN, 0), (PLAIN, 1), (OLD, 0)):
            self._write(bootstrap, topic, partition, [b"late:%d" % number for number in range(20)], late=True)
        commit(bootstrap, self.committed + 1)

    def expected(self, touched: bool) -> dict[tuple[str, int], dict[int, bytes]]:
        late = self.late if touched else {}
        return {key: found | late.get(key, {}) for key, found in self.records.items()}

    def _write(
        self, bootstrap: str, topic: str, partition: int, values: list[bytes], *, timestamp: int = 0, late: bool = False
    ) -> None:
        found = (self.late if late else self.records).setdefault((topic, partition), {})
        producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 10, "acks": "all", **STURDY})
        note = self._noted(found)
        for value in values:
            producer.produce(topic, value, partition=partition, timestamp=timestamp, on_delivery=note)
        assert producer.flush(CALL_S) == 0

    def _write_transactions(self, bootstrap: str, values: list[bytes]) -> None:
        found = self.records.setdefault((TORN, 0), {})
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "torn", **STURDY})
        producer.init_transactions(CALL_S)
        for number in range(15):
            producer.begin_transaction()
            aborted = number % 3 == 1
            note = None if aborted else self._noted(found)
            for value in values[number * 10 : number * 10 + 10]:
                producer.produce(TORN, value, partition=0, on_delivery=note)
            producer.flush(CALL_S)
            (producer.abort_transaction if aborted else producer.commit_transaction)(CALL_S)

    @staticmethod
    def _noted(found: dict[int, bytes]) -> object:
        def note(error: object, message: object) -> None:
            assert error is None, error
            found[message.offset()] = message.value()  # type: ignore[attr-defined]

        return note


def commit(bootstrap: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, **STURDY})
    consumer.commit(offsets=[TopicPartition(PLAIN, 0, offset)], asynchronous=False)
    consumer.close()


@dataclass(frozen=True)
class Difference:
    topic: str
    text: str
    refused: str = ""
    """The error that the reader got. Who gets one is not deceived."""


def differences(world: World, bootstrap: str, *, touched: bool) -> list[Difference]:
    """What is wrong with the topics, seen from outside after retention has run."""
    time.sleep(RETENTION_S)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
        | {"auto.offset.reset": "error", "enable.partition.eof": True, "check.crcs": True, **STURDY}
    )
    wrong: list[Difference] = []
    try:
        for (topic, partition), expected in world.expected(touched).items():
            found, refused = read(consumer, topic, partition)
            if text := compare(f"{topic}-{partition}", expected, found):
                wrong.append(Difference(topic, text, refused))
        committed = committed_offset(consumer)
        if committed != world.committed + touched:
            text = f"the group's offset is {committed}, not {world.committed + touched}"
            wrong.append(Difference(OFFSETS, text))
    finally:
        consumer.close()
    return wrong


def read(consumer: Consumer, topic: str, partition: int) -> tuple[dict[int, bytes] | None, str]:
    """What there is, and the error at which it ends. None: the partition is not served."""
    try:
        low, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=15)
    except KafkaException:
        return None, ""
    consumer.assign([TopicPartition(topic, partition, low)])
    found: dict[int, bytes] = {}
    deadline = time.monotonic() + CALL_S
    while time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found[message.offset()] = message.value()
        elif error.name() == "_PARTITION_EOF":
            return found, ""
        else:
            return found, error.name()  # what lies behind cannot be read
    return found, ""


def committed_offset(consumer: Consumer) -> int | None:
    try:
        return consumer.committed([TopicPartition(PLAIN, 0)], timeout=10)[0].offset
    except KafkaException:
        return None


def compare(name: str, expected: dict[int, bytes], found: dict[int, bytes] | None) -> str:
    if found is None:
        return f"{name} is not served"
    missing = [at for at in expected if at not in found]
    more = [at for at in found if at not in expected]
    other = [at for at in expected if at in found and found[at] != expected[at]]
    facts = [(missing, "missing"), (more, "more than there were"), (other, "changed")]
    told = [f"{len(offsets)} records {what} from {min(offsets)}" for offsets, what in facts if offsets]
    return f"{name}: {', '.join(told)}" if told else ""
