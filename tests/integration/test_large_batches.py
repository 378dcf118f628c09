"""Large compressed batches of a real producer, idempotent and in transactions, in order and complete."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

RECORDS = 9_000
VALUES = [Random(number).randbytes(500) + bytes(1_500) for number in range(50)]
QUIET = {"log_level": 2}


def value(number: int) -> bytes:
    return number.to_bytes(4, "big") + VALUES[number % len(VALUES)]


@pytest.mark.parametrize("transactional", [False, True], ids=["idempotent", "transactional"])
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_18_megabytes_in_batches_of_6(
    bootstrap: str, unique: Callable[[], str], codec: str, transactional: bool
) -> None:
    topic = unique()
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    admin.create_topics([NewTopic(topic, 1, 1, config={"max.message.bytes": "9000000"})])[topic].result(60)
    settings = {
        "bootstrap.servers": bootstrap,
        "compression.type": codec,
        "enable.idempotence": True,
        "message.max.bytes": 9_000_000,
        "batch.size": 6_000_000,
        "linger.ms": 200,
        "queue.buffering.max.kbytes": 100_000,
        **QUIET,
    }
    producer = Producer({**settings, "transactional.id": topic} if transactional else settings)
    if transactional:
        producer.init_transactions(60)
        producer.begin_transaction()
    for number in range(RECORDS):
        producer.produce(topic, value(number), partition=0)
    if transactional:
        producer.commit_transaction(60)
    assert producer.flush(60) == 0

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, **QUIET})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes | None] = []
    while len(found) < RECORDS:
        messages = consumer.consume(1000, timeout=60)
        assert messages, "nothing came"
        found += [message.value() for message in messages]
    consumer.close()
    assert found == [value(number) for number in range(RECORDS)]
