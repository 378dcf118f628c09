"""Logs without their metadata: a directory of moldau's does not start, and whoever insists loses nothing by it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from moldau.cli.lost_metadata import explained
from moldau.core.metadata.commands import (
    ConfigEdit,
    ConfigEdits,
    ConfigOperation,
    CreatePartitions,
    IncrementalAlterConfigs,
    MorePartitions,
)
from moldau.model.ids import TopicPartition
from moldau.model.options import RETENTION_HOLD, ResourceType
from moldau.node.compose import Node
from moldau.node.failures import MetadataLost, UnknownLogs
from moldau.records.builder import BatchBuilder
from moldau.storage.checkpoints import decode_meta
from moldau.store.copies import newest_copy
from moldau.store.files import COPY_FILES
from moldau_sim.store import StoreEngine

from .nodes import DATA, Machine, append, create, on_a_machine, submit

LONG_AGO_MS = 1_000_000_000_000


async def kept_for_ever(machine: Machine) -> Node:
    node = await machine.start()
    await create(node, "ledger", retention_ms="-1")
    builder = BatchBuilder()
    builder.append(timestamp=LONG_AGO_MS, key=b"key", value=b"value")
    partition = node.partitions.get("ledger", 0)
    assert partition is not None
    assert partition.append(builder.build(), 1, node._ports.clock.wall_ms()).error == 0
    node.flush_set.flush_all()
    return node


def held(node: Node, topic: str) -> bool:
    return node.images.image.config(ResourceType.TOPIC, topic).get(RETENTION_HOLD) == "true"


def contents(machine: Machine) -> dict[str, bytes]:
    disk = machine.disk()
    return {name: disk.read(name) for name, _ in machine.host.drive.files(DATA)}


async def edit(node: Node, topic: str, key: str, value: str | None) -> None:
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    edits = ConfigEdits(ResourceType.TOPIC, topic, (ConfigEdit(key, operation, value),))
    await submit(node, IncrementalAlterConfigs((edits,)))


async def start_after_retention(node: Node, topic: str) -> int:
    """Where the log starts once retention has looked at it."""
    await node.run_housekeeping()
    assert node.log_dirs is not None
    return int(node.log_dirs.logs[TopicPartition(topic, 0)].start_offset)


def test_a_directory_says_that_moldau_wrote_it_once_its_metadata_is_there() -> None:
    async def scenario(machine: Machine) -> None:
        node = await kept_for_ever(machine)
        assert b"written.by=moldau\n" in node._ports.disk.read(f"{DATA}/meta.properties")
        assert decode_meta(node._ports.disk.read(f"{DATA}/meta.properties")).written_by == "moldau"

    on_a_machine(scenario)


@pytest.mark.parametrize("clean", [True, False], ids=["clean stop", "kill"])
def test_without_its_metadata_it_does_not_start_and_nothing_is_touched(clean: bool) -> None:
    async def scenario(machine: Machine) -> None:
        await kept_for_ever(machine)
        await machine.host.stop() if clean else machine.kill()
        engine = machine.host.world.store
        machine.lose_metadata()
        before = contents(machine)
        with pytest.raises(MetadataLost, match=r"metadata\.db holds nothing"):
            await machine.start()
        assert contents(machine) == before
        machine.host.world.store = engine
        again = await machine.start()
        assert append(again, "ledger") == 1

    on_a_machine(scenario)


def test_adopted_topics_are_kept_whole_over_restarts_until_somebody_sets_retention(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(machine: Machine) -> None:
        await kept_for_ever(machine)
        await machine.host.stop()
        machine.lose_metadata()
        machine.host.adopt_logs = True
        node = await machine.start()
        assert held(node, "ledger")
        assert await start_after_retention(node, "ledger") == 0
        machine.host.adopt_logs = False
        with caplog.at_level(logging.WARNING, "moldau.node"):
            node = await machine.restart()
        assert "neither retention nor compaction touches it (ledger)" in caplog.text
        await edit(node, "ledger", "max.message.bytes", "2000000")
        assert await start_after_retention(node, "ledger") == 0
        await edit(node, "ledger", "retention.ms", "1000")
        assert not held(node, "ledger")
        assert await start_after_retention(node, "ledger") == 1

    on_a_machine(scenario)


def test_a_confirmed_topic_lives_by_the_settings_it_has() -> None:
    async def scenario(machine: Machine) -> None:
        await kept_for_ever(machine)
        await machine.host.stop()
        machine.leave_as_kafka()
        node = await machine.start()
        assert held(node, "ledger"), "Kafka's metadata is not there, so its settings are not known"
        await edit(node, "ledger", RETENTION_HOLD, None)
        assert await start_after_retention(node, "ledger") == 1

    on_a_machine(scenario)


def test_a_held_topic_is_not_compacted() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "table", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
        await edit(node, "table", RETENTION_HOLD, "true")
        for _ in range(5):
            append(node, "table")
        assert node.log_dirs is not None
        found = node.log_dirs.logs[TopicPartition("table", 0)]
        found.roll(node._ports.clock.wall_ms())
        size_bytes = found.size_bytes
        await node.run_housekeeping()
        assert found.size_bytes == size_bytes
        await edit(node, "table", RETENTION_HOLD, None)
        await node.run_housekeeping()
        assert found.size_bytes < size_bytes

    on_a_machine(scenario)


def test_the_second_copy_follows_every_change_and_the_clean_stop() -> None:
    async def scenario(machine: Machine) -> None:
        node = await kept_for_ever(machine)
        await asyncio.sleep(5)
        (_, copy) = newest_copy(machine.disk(), [DATA]) or ("", None)
        assert copy is not None
        assert copy.offset == node.images.image.offset
        await create(node, "later")
        await machine.host.stop()
        (_, copy) = newest_copy(machine.disk(), [DATA]) or ("", None)
        assert copy is not None
        assert [record for record in copy.records if b'"later"' in record]

    on_a_machine(scenario)


def test_metadata_older_than_its_copy_stops_the_start(caplog: pytest.LogCaptureFixture) -> None:
    """A setting that was lost is as bad as a topic: retention would obey the older one."""

    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "ledger")
        append(node, "ledger")
        engine = machine.host.world.store
        records, end = list(engine.records), engine.end
        await edit(node, "ledger", "retention.ms", "-1")
        await machine.host.stop()
        engine.records, engine.end = records, end
        with pytest.raises(MetadataLost, match="the last ones were lost") as lost:
            await machine.start()
        assert "is sound (1 topics)" in lost.value.copies
        machine.host.adopt_logs = True
        again = await machine.start()
        assert append(again, "ledger") == 1
        machine.host.adopt_logs = False
        await machine.restart()

    on_a_machine(scenario)


async def older_metadata(machine: Machine, *topics: str) -> Node:
    """Metadata that knows this cluster and these topics, in place of what there was."""
    cluster_id = machine.host.node.cluster_id if machine.host.node is not None else ""
    await machine.host.stop()
    for name in COPY_FILES:
        if machine.disk().exists(f"{DATA}/{name}"):
            machine.disk().remove(f"{DATA}/{name}")
    machine.host.world.store = StoreEngine()
    node = await machine.start(log_dirs="/elsewhere", moldau_cluster_id=cluster_id)
    for topic in topics:
        await create(node, topic)
    await machine.host.stop()
    machine.host.settings["log.dirs"] = DATA
    return node


def test_records_the_metadata_does_not_know_stop_the_start_with_names_and_sizes() -> None:
    async def scenario(machine: Machine) -> None:
        node = await kept_for_ever(machine)
        await create(node, "empty")
        await older_metadata(machine, "other")
        with pytest.raises(UnknownLogs, match="does not know ledger-0") as refused:
            await machine.start()
        ((name, size_bytes),) = refused.value.logs
        assert name == "ledger-0"
        assert size_bytes > 60
        assert "ledger-0" in machine.folders()
        machine.host.adopt_logs = True
        again = await machine.start()
        assert held(again, "ledger")
        assert append(again, "ledger") == 1
        assert "other" in again.images.image.topics_by_name

    on_a_machine(scenario)


def test_empty_logs_the_metadata_does_not_know_are_set_aside() -> None:
    async def scenario(machine: Machine) -> None:
        await create(await machine.start(), "stranger")
        await older_metadata(machine)
        again = await machine.start()
        assert again.partitions.topic("stranger") is None
        (folder,) = machine.folders()
        assert folder.startswith("stranger-0.")
        assert folder.endswith("-stray")

    on_a_machine(scenario)


def test_partitions_beyond_those_the_metadata_knows_are_taken_in_when_asked() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "ledger")
        engine = machine.host.world.store
        records, end = list(engine.records), engine.end
        await submit(node, CreatePartitions((MorePartitions("ledger", 2),)))
        append(node, "ledger", 1)
        machine.kill()
        engine.records, engine.end = records, end
        with pytest.raises(UnknownLogs, match="ledger-1"):
            await machine.start()
        machine.host.adopt_logs = True
        again = await machine.start()
        assert append(again, "ledger", 1) == 1

    on_a_machine(scenario)


def test_logs_without_a_topic_id_are_taken_in_with_their_siblings_or_their_own() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        created = await create(node, "orders", 2)
        await create(node, "alone")
        for topic, index in (("orders", 0), ("orders", 1), ("alone", 0)):
            append(node, topic, index)
        await machine.host.stop()
        machine.leave_as_kafka()
        for folder in ("orders-1", "alone-0"):
            machine.disk().remove(f"{DATA}/{folder}/partition.metadata")
        again = await machine.start()
        assert again.images.image.topics_by_name["orders"].topic_id == created.topic_id
        assert append(again, "orders", 1) == 1
        assert append(again, "alone") == 1

    on_a_machine(scenario)


def test_what_to_do_is_told_of_the_directory_with_the_metadata_not_of_another() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start(log_dirs=f"{DATA},/more")
        await create(node, "ledger", partitions=2)
        for index in range(2):
            append(node, "ledger", index)
        await machine.host.stop()
        disk, store = machine.disk(), machine.host.world.store
        for name in COPY_FILES:
            if disk.exists(f"{DATA}/{name}"):
                disk.remove(f"{DATA}/{name}")
        machine.lose_metadata()
        with pytest.raises(MetadataLost) as lost:
            await machine.start()
        assert "moldau store restore --data-dir /data --from /more/metadata.copy" in explained(lost.value).fixes
        machine.host.world.store = store
        disk.rename("/more/ledger-0" if disk.exists("/more/ledger-0") else "/more/ledger-1", "/more/other-0")
        with pytest.raises(UnknownLogs) as unknown:
            await machine.start()
        assert unknown.value.directory == DATA

    on_a_machine(scenario)
