"""Reading what Kafka's own metadata log says, from files made here byte by byte."""

from __future__ import annotations

from moldau.model.ids import TopicPartition
from moldau.model.options import ResourceType
from moldau.node.kafka_metadata import CONFIG_RECORD, PRODUCER_IDS_RECORD, REMOVE_TOPIC_RECORD, TOPIC_RECORD
from moldau.records.builder import BatchBuilder
from moldau.wire.primitives import Writer

from .nodes import DATA, Machine, append, create, on_a_machine

FOLDER = f"{DATA}/__cluster_metadata-0"


def value(kind: int, *parts: object) -> bytes:
    """A metadata record: str and None as compact strings, bytes as they are."""
    writer = Writer()
    for number in (1, kind, 0):
        writer.uvarint(number)
    for part in parts:
        if isinstance(part, bytes):
            writer.raw(part)
        else:
            assert part is None or isinstance(part, str)
            writer.compact_nullable_string(part)
    writer.uvarint(0)
    return writer.take_bytes()


def config(kind: int, name: str, key: str, text: str | None) -> bytes:
    return value(CONFIG_RECORD, bytes([kind]), name, key, text)


def batch(base_offset: int, *values: bytes) -> bytes:
    builder = BatchBuilder(base_offset=base_offset)
    for one in values:
        builder.append(None, one, timestamp=1)
    return builder.build()


def test_settings_and_producer_ids_of_kafka_are_carried_over() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        orders = await create(node, "orders")
        await create(node, "plain")
        append(node, "orders")
        await machine.host.stop()
        machine.leave_as_kafka()
        topic = int(ResourceType.TOPIC)
        old = batch(
            0,
            value(TOPIC_RECORD, "orders", orders.topic_id),
            config(topic, "orders", "cleanup.policy", "delete"),
        )
        snapshot = batch(
            0,
            value(TOPIC_RECORD, "orders", orders.topic_id),
            value(TOPIC_RECORD, "gone", b"g" * 16),
            config(topic, "orders", "cleanup.policy", "compact"),
            config(topic, "orders", "retention.ms", "5"),
            config(topic, "gone", "retention.ms", "5"),
        )
        new = batch(
            10,
            config(topic, "orders", "retention.ms", None),
            value(REMOVE_TOPIC_RECORD, b"g" * 16),
            config(int(ResourceType.BROKER), "", "log.retention.ms", "123456"),
            value(PRODUCER_IDS_RECORD, bytes(12), (7000).to_bytes(8, "big")),
        )
        machine.host.drive.make_dirs(FOLDER, durable=True)
        for name, data in {
            "00000000000000000000.log": old + new,
            "00000000000000000010-0000000001.checkpoint": snapshot,
        }.items():
            _write(machine, f"{FOLDER}/{name}", data)
        again = await machine.start()
        image = again.images.image
        assert image.config(topic, "orders") == {"cleanup.policy": "compact"}
        assert image.config(topic, "plain") == {"moldau.retention.hold": "true"}, "Kafka's metadata does not know it"
        assert image.next_producer_id == 7000
        assert again.settings.int("log.retention.ms") == 123456
        assert again.log_dirs is not None
        assert again.log_dirs.logs[TopicPartition("orders", 0)].settings.compact
        assert again.log_dirs.logs[TopicPartition("plain", 0)].settings.retention_ms == 123456

    on_a_machine(scenario)


def test_damage_in_kafkas_metadata_does_not_stop_the_node() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "orders")
        await machine.host.stop()
        machine.leave_as_kafka()
        machine.host.drive.make_dirs(FOLDER, durable=True)
        good = batch(0, config(2, "orders", "retention.ms", "5"))
        _write(machine, f"{FOLDER}/00000000000000000000.log", good + b"\x00" * 30)
        again = await machine.start()
        assert again.images.image.config(2, "orders") == {"retention.ms": "5", "moldau.retention.hold": "true"}

    on_a_machine(scenario)


def _write(machine: Machine, path: str, data: bytes) -> None:
    from moldau_sim.disk import SimulatedDisk
    from moldau_sim.process import Process

    SimulatedDisk(machine.host.drive, Process("kafka")).replace(path, data)
