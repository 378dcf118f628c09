"""`partition.metadata` lost or damaged: the partition is served with its records, and the file is written again."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from moldau.core.metadata.commands import DeleteTopics, TopicRef
from moldau.storage.checkpoints import decode_partition_metadata, encode_partition_metadata

from .nodes import DATA, Machine, append, create, on_a_machine, submit

FILE = f"{DATA}/orders-0/partition.metadata"


def flipped(bit: int) -> Callable[[bytes], bytes]:
    def flip(data: bytes) -> bytes:
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << (bit % 8)
        return bytes(changed)

    return flip


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "missing": lambda data: None,
    "empty": lambda data: b"",
    "zeroed": lambda data: bytes(len(data)),
    "half": lambda data: data[: len(data) // 2],
    "bit of the version flipped": flipped(1),
    "bit of the key flipped": flipped(8 * 12 + 1),
    "low bit of the id flipped": flipped(8 * 23),
    "high bit of the id flipped": flipped(8 * 24 + 7),
    "bit of the last line end flipped": flipped(8 * 43 + 2),
}


@pytest.mark.parametrize("clean", [True, False], ids=["clean stop", "kill"])
@pytest.mark.parametrize("how", DAMAGES)
def test_records_stay_with_their_topic(how: str, clean: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        created = await create(node, "orders")
        append(node, "orders")
        if clean:
            await machine.host.stop()
        else:
            machine.kill()
        changed = DAMAGES[how](encode_partition_metadata(created.topic_id))
        machine.disk().remove(FILE)
        if changed is not None:
            machine.disk().replace(FILE, changed)
        with caplog.at_level(logging.WARNING, "moldau.host"):
            again = await machine.start()
        assert append(again, "orders") == 1
        assert machine.folders() == ["orders-0"]
        assert decode_partition_metadata(again._ports.disk.read(FILE)) == created.topic_id
        if decode_partition_metadata(changed or b"") != created.topic_id:
            assert "orders-0: partition.metadata was lost or damaged" in caplog.text

    on_a_machine(scenario)


def test_a_sound_id_of_another_topic_is_believed() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "orders")
        append(node, "orders")
        node._ports.disk.replace(FILE, encode_partition_metadata(bytes(range(16))))
        again = await machine.restart()
        assert append(again, "orders") == 0
        assert [name.rpartition("-")[2] for name in machine.folders()] == ["0", "stray"]

    on_a_machine(scenario)


def test_a_deleted_topic_does_not_come_back_through_one_made_again() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        first = await create(node, "orders")
        append(node, "orders")
        await submit(node, DeleteTopics((TopicRef("orders"),)))
        await create(node, "orders")
        # As if the node had died before it renamed the first topic's folder.
        node._ports.disk.replace(FILE, encode_partition_metadata(first.topic_id))
        again = await machine.restart()
        assert append(again, "orders") == 0

    on_a_machine(scenario)
