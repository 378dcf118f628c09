"""What an operator asks about afterwards is in the log, once and with the reason."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from moldau.testing.plugin import Moldau


@pytest.fixture
def own(new_moldau: Callable[..., Moldau], caplog: pytest.LogCaptureFixture) -> Moldau:
    caplog.set_level(logging.DEBUG, "moldau")
    return new_moldau()


def said(caplog: pytest.LogCaptureFixture, level: int, *parts: str) -> list[str]:
    """The lines of a level that hold all of these."""
    lines = [record.getMessage() for record in caplog.records if record.levelno == level]
    return [line for line in lines if all(part in line for part in parts)]


def test_retention_tells_what_it_took_and_why(own: Moldau, caplog: pytest.LogCaptureFixture) -> None:
    topic = own.topic("aged", configs={"retention.ms": "3600000"})
    topic.produce(["one", "two", "three"])
    own.clock.advance("2h")
    (line,) = said(caplog, logging.INFO, f"{topic.name}-0", "retention deleted")
    assert "offsets 0 to 2" in line
    assert "older than retention.ms (3600000)" in line
    own.clock.advance("2h")
    assert len(said(caplog, logging.INFO, "retention deleted")) == 1, "once"


def test_retention_by_size_says_so(own: Moldau, caplog: pytest.LogCaptureFixture) -> None:
    topic = own.topic("large", configs={"retention.bytes": "3000000", "segment.bytes": "1048576"})
    for _ in range(6):
        topic.produce([b"x" * 900_000])
    own.clock.advance(1)
    (line,) = said(caplog, logging.INFO, f"{topic.name}-0", "retention deleted")
    assert "larger than retention.bytes (3000000)" in line
    rolled = said(caplog, logging.DEBUG, f"{topic.name}-0", "a new segment begins at offset 1;")
    assert rolled[0].endswith("segment.bytes")


def test_compaction_tells_what_is_left(own: Moldau, caplog: pytest.LogCaptureFixture) -> None:
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0", "segment.bytes": "1048576"}
    topic = own.topic("keyed", configs=configs)
    for _ in range(4):
        topic.produce([b"x" * 900_000], key="same")
    own.clock.advance(1)
    (line,) = said(caplog, logging.DEBUG, f"{topic.name}-0 compacted")
    assert "records kept" in line


def test_topics_settings_and_deletions_with_who_asked(own: Moldau, caplog: pytest.LogCaptureFixture) -> None:
    admin = AdminClient({"bootstrap.servers": own.bootstrap, "client.id": "the-operator"})
    admin.create_topics([NewTopic("t", 2, 1, config={"retention.ms": "5000"})])["t"].result(60)
    admin.create_partitions([NewPartitions("t", 5)])["t"].result(60)
    change = ConfigEntry("retention.ms", "7000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(60)
    producer = Producer({"bootstrap.servers": own.bootstrap})
    producer.produce("t", b"x", partition=1)
    assert producer.flush(60) == 0
    admin.delete_records([ClientPartition("t", 1, 1)])[ClientPartition("t", 1, 1)].result(60)
    admin.delete_topics(["t"])["t"].result(60)
    for parts in (
        ("topic t created with 2 partitions", "retention.ms=5000"),
        ("topic t grew from 2 to 5 partitions",),
        ("topic t: retention.ms changed from 5000 to 7000",),
        ("t-1: records before offset 1 deleted", "client the-operator at 127.0.0.1"),
        ("topic t deleted", "client the-operator at 127.0.0.1"),
    ):
        assert len(said(caplog, logging.INFO, *parts)) == 1, parts


def test_a_password_is_not_told(own: Moldau, caplog: pytest.LogCaptureFixture) -> None:
    admin = AdminClient({"bootstrap.servers": own.bootstrap})
    change = ConfigEntry("log.retention.ms", "987654321", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result(60)
    assert said(caplog, logging.INFO, "broker 1: log.retention.ms changed")
    assert not said(caplog, logging.INFO, "987654321"), "nor any other value of a broker's setting"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_and_connections_at_debug(own: Moldau, caplog: pytest.LogCaptureFixture, protocol: str) -> None:
    topic = own.topic("read")
    topic.produce("x")
    group = f"g-{uuid.uuid4().hex[:8]}"
    consumer = Consumer(
        {
            "bootstrap.servers": own.bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "client.id": "reader\nforged line",
        }
    )
    consumer.subscribe([topic.name])
    assert len(consumer.consume(1, timeout=60)) == 1
    consumer.close()
    assert said(caplog, logging.DEBUG, "connected to PLAINTEXT")
    assert said(caplog, logging.DEBUG, f"group {group}", "generation" if protocol == "classic" else "epoch")
    assert not [line for line in said(caplog, logging.DEBUG, group) if "\n" in line]
