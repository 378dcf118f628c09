"""The plugin as an application's tests use it: a real socket, a foreign client, unique topics, a clock that moves."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from moldau.testing.broker import InProcessBroker
from moldau.testing.plugin import Moldau
from moldau.testing.topics import NotEnoughRecords


def test_values_come_back_as_they_went_in(moldau: Moldau) -> None:
    orders = moldau.topic("orders", partitions=3)
    orders.produce([{"id": 1}, {"id": 2}, "text", None])
    assert sorted(orders.read(4), key=str) == sorted([{"id": 1}, {"id": 2}, "text", None], key=str)


def test_a_foreign_client_sees_the_same_topic(moldau: Moldau) -> None:
    topic = moldau.topic("shared")
    topic.produce([b"from the test"])
    consumer = Consumer({"bootstrap.servers": moldau.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic.name, 0, 0)])
    (message,) = consumer.consume(1, timeout=60)
    consumer.close()
    assert message.value() == b"from the test"

    producer = Producer({"bootstrap.servers": moldau.bootstrap})
    producer.produce(topic.name, b"from the application", key=b"k")
    assert producer.flush(60) == 0
    records = topic.read_records(2)
    assert (records[1].key, records[1].value) == (b"k", b"from the application")


def test_a_partition_is_read_in_its_order_whatever_the_clocks_say(moldau: Moldau) -> None:
    topic = moldau.topic("clocks")
    moldau.clock.advance("2h")
    topic.produce(["by the broker's clock"])
    producer = Producer({"bootstrap.servers": moldau.bootstrap})
    producer.produce(topic.name, b"by the wall clock")
    assert producer.flush(60) == 0
    assert topic.read(2) == ["by the broker's clock", "by the wall clock"]


def test_topics_of_the_same_name_do_not_meet(moldau: Moldau) -> None:
    one, other = moldau.topic("same"), moldau.topic("same")
    one.produce(["a"])
    with pytest.raises(NotEnoughRecords, match="wanted 1 records, 0 came"):
        other.read(1, timeout=0.2)


def test_retention_without_waiting(moldau: Moldau) -> None:
    topic = moldau.topic("short", configs={"retention.ms": "3600000"})
    topic.produce(["old"])
    moldau.clock.advance("2h")
    with pytest.raises(NotEnoughRecords):
        topic.read(1, timeout=0.2)
    topic.produce(["new"])
    assert topic.read(1) == ["new"]


def test_time_moves_only_forward(moldau: Moldau) -> None:
    with pytest.raises(ValueError, match="only forward"):
        moldau.clock.advance(-1)


def test_topics_are_gone_after_the_test(moldau_broker: InProcessBroker) -> None:
    view = Moldau(moldau_broker)
    name = view.topic("brief").name
    view.clean_up()

    async def names(cluster):  # type: ignore[no-untyped-def]
        await cluster.refresh(None)
        return set(cluster.topics)

    assert name not in moldau_broker.with_cluster(names)
