"""A node over its life: start, crash, restart, what the disk and the metadata say about one another."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from moldau.broker.host import LOGS_PER_TURN
from moldau.core.metadata.commands import (
    ConfigEdit,
    ConfigEdits,
    ConfigOperation,
    CreateTopics,
    DeleteTopics,
    DeleteTopicsReply,
    IncrementalAlterConfigs,
    NewTopic,
    TopicRef,
)
from moldau.model.errors import Refused
from moldau.model.failures import Fenced
from moldau.model.ids import TopicPartition
from moldau.model.options import ResourceType
from moldau.node.failures import DirectoryInUse
from moldau.storage.checkpoints import MetaProperties, decode_meta, encode_meta
from moldau_sim.store import SimulatedStore

from .nodes import DATA, Machine, append, create, on_a_machine, submit


def test_topics_records_ids_and_the_cluster_survive_a_clean_restart() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        created = await create(node, "orders", 3)
        assert append(node, "orders", 2) == 0
        cluster_id = node.cluster_id
        again = await machine.restart()
        assert again.cluster_id == cluster_id
        assert again.images.image.topics_by_name["orders"].topic_id == created.topic_id
        partition = again.partitions.get("orders", 2)
        assert partition is not None
        assert (partition.log.end_offset, partition.high_watermark, partition.leader_epoch) == (1, 1, 0)
        assert append(again, "orders", 2) == 1

    on_a_machine(scenario)


def test_the_leader_epoch_rises_after_a_crash() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "orders")
        append(node, "orders")
        machine.kill()
        again = await machine.start()
        partition = again.partitions.get("orders", 0)
        assert partition is not None
        assert partition.leader_epoch == 1
        assert append(again, "orders") == 1
        assert partition.log.epochs.entries == [(0, 0), (1, 1)]

    on_a_machine(scenario)


def test_a_deleted_topic_takes_its_files_with_it() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start(log_segment_delete_delay_ms="1000")
        await create(node, "orders", 2)
        await submit(node, DeleteTopics((TopicRef("orders"),)))
        assert node.partitions.topic("orders") is None
        await asyncio.sleep(60)
        await node.run_housekeeping()
        assert machine.folders() == []

    on_a_machine(scenario)


def test_a_topic_of_many_partitions_is_made_and_deleted_with_turns_for_others() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        for work in (create(node, "many", 100), submit(node, DeleteTopics((TopicRef("many"),)))):
            hosted = [len(node.partitions)]
            task = asyncio.ensure_future(work)
            while not task.done():
                await asyncio.sleep(0)
                hosted.append(len(node.partitions))
            await task
            assert abs(hosted[-1] - hosted[0]) == 100
            assert max(abs(after - before) for before, after in itertools.pairwise(hosted)) <= LOGS_PER_TURN

    on_a_machine(scenario)


def test_a_topic_made_again_starts_empty_under_another_id() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        first = await create(node, "orders")
        append(node, "orders")
        await submit(node, DeleteTopics((TopicRef("orders"),)))
        second = await create(node, "orders")
        assert second.topic_id != first.topic_id
        assert append(node, "orders") == 0
        again = await machine.restart()
        partition = again.partitions.get_by_id(second.topic_id, 0)
        assert partition is not None
        assert partition.log.end_offset == 1
        assert again.partitions.get_by_id(first.topic_id, 0) is None

    on_a_machine(scenario)


def test_a_log_whose_topic_was_deleted_in_the_moment_of_a_crash_is_removed_at_start() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "gone")
        await create(node, "kept")
        append(node, "gone")
        # The controller had stored the deletion, the node died before it reacted.
        assert node.host is not None
        node.host._drop = lambda topic, index: None  # type: ignore[method-assign]
        await submit(node, DeleteTopics((TopicRef("gone"),)))
        machine.kill()
        again = await machine.start()
        assert [name for name in machine.folders() if not name.endswith("-delete")] == ["kept-0"]
        assert again.partitions.topic("gone") is None

    on_a_machine(scenario)


def test_a_directory_without_metadata_is_taken_in_under_its_ids() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start(node_id="7")
        created = await create(node, "clicks", 2)
        offsets = await create(node, "__consumer_offsets", 1, cleanup_policy="compact")
        append(node, "clicks", 1)
        cluster_id = node.cluster_id
        await machine.host.stop()
        machine.leave_as_kafka()
        del machine.host.settings["node.id"]
        again = await machine.start()
        assert again.node_id == 7
        assert again.cluster_id == cluster_id
        clicks = again.images.image.topics_by_name["clicks"]
        assert clicks.topic_id == created.topic_id
        assert [partition.leader_epoch for partition in clicks.partitions] == [0, 1]
        assert append(again, "clicks", 1) == 1
        taken = again.partitions.get_by_id(offsets.topic_id, 0)
        assert taken is not None
        assert taken.log.settings.compact, "the cluster's own topics keep their policy"

    on_a_machine(scenario)


def test_a_directory_of_another_node_is_refused_with_words() -> None:
    async def scenario(machine: Machine) -> None:
        machine.host.drive.make_dirs(DATA, durable=True)
        node = await machine.start(node_id="7")
        await machine.host.stop()
        with pytest.raises(DirectoryInUse, match=r"belongs to node 7.*Set node.id=7"):
            await machine.start(node_id="8")
        assert node.node_id == 7

    on_a_machine(scenario)


def test_settings_of_topics_and_brokers_reach_the_logs_while_they_run() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "orders", retention_ms="5000")
        partition = node.partitions.get("orders", 0)
        assert partition is not None
        assert partition.log.settings.retention_ms == 5000
        edit = ConfigEdit("retention.ms", ConfigOperation.SET, "7000")
        await submit(node, IncrementalAlterConfigs((ConfigEdits(ResourceType.TOPIC, "orders", (edit,)),)))
        assert partition.log.settings.retention_ms == 7000
        broker = ConfigEdit("message.max.bytes", ConfigOperation.SET, "2000")
        await submit(node, IncrementalAlterConfigs((ConfigEdits(ResourceType.BROKER, "", (broker,)),)))
        assert partition.log.settings.message_bytes_max == 2000
        assert node.services is not None
        assert node.services.settings.int("message.max.bytes") == 2000
        again = await machine.restart()
        kept = again.partitions.get("orders", 0)
        assert kept is not None
        assert (kept.log.settings.retention_ms, kept.log.settings.message_bytes_max) == (7000, 2000)

    on_a_machine(scenario)


def test_topics_named_in_the_settings_are_there_once_the_node_is_up() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start(moldau_create_topics="a:3:1,b:2:1:compact,a_bad:x:1,c")
        image = node.images.image
        assert {name: len(topic.partitions) for name, topic in image.topics_by_name.items()} == {"a": 3, "b": 2, "c": 1}
        assert image.config(ResourceType.TOPIC, "b") == {"cleanup.policy": "compact"}
        again = await machine.restart()
        assert sorted(again.images.image.topics_by_name) == ["a", "b", "c"]

    on_a_machine(scenario)


def test_replicas_are_spread_over_directories_and_the_metadata_knows_where_they_are() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "orders", 4)
        append(node, "orders", 0)
        await machine.host.stop()
        again = await machine.start()
        assert again.log_dirs is not None
        ids = {home.directory_id: home.path for home in again.log_dirs.directories}
        told = [ids[part.directories[0]] for part in again.images.image.topics_by_name["orders"].partitions]
        found = [again.log_dirs.logs[TopicPartition("orders", index)].directory for index in range(4)]
        assert told == found
        assert sorted(set(found)) == ["/one", "/two"]

    on_a_machine(scenario, log_dirs="/one,/two")


def test_a_partition_whose_directory_is_missing_stays_offline_instead_of_coming_back_empty() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "orders", 2)
        append(node, "orders", 0)
        append(node, "orders", 1)
        again = await machine.restart(log_dirs="/one")
        hosted = again.partitions.topic("orders")
        assert hosted is not None
        assert sum(partition is not None for partition in hosted.partitions) == 1
        back = await machine.restart(log_dirs="/one,/two")
        hosted = back.partitions.topic("orders")
        assert hosted is not None
        assert [partition.log.end_offset for partition in hosted.partitions if partition is not None] == [1, 1]

    on_a_machine(scenario, log_dirs="/one,/two")


def test_cordoned_directories_receive_nothing_new() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start(cordoned_log_dirs="/one")
        await create(node, "orders", 3)
        assert node.log_dirs is not None
        assert {found.directory for found in node.log_dirs.logs.values()} == {"/two"}

    on_a_machine(scenario, log_dirs="/one,/two")


def test_meta_properties_carry_node_and_cluster() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start(node_id="3", moldau_cluster_id="5L6g3nShT-eMCtK--X86sw")
        meta = decode_meta(node._ports.disk.read(f"{DATA}/meta.properties"))
        assert (meta.node_id, meta.cluster_id) == (3, "5L6g3nShT-eMCtK--X86sw")
        assert decode_meta(encode_meta(meta)) == meta != MetaProperties()

    on_a_machine(scenario)


def test_dynamic_settings_reach_the_rooms_that_obey_them() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "orders")
        wanted = {
            "max.connections": "7",
            "producer.id.expiration.ms": "12345",
            "log.cleaner.backoff.ms": "99",
            "log.cleaner.dedupe.buffer.size": str(4 << 20),
        }
        edits = tuple(ConfigEdit(key, ConfigOperation.SET, value) for key, value in wanted.items())
        await submit(node, IncrementalAlterConfigs((ConfigEdits(ResourceType.BROKER, "", edits),)))
        assert node.server is not None
        assert node.server.census.limits.connections_max == 7
        assert node.cleaner is not None
        assert (node.cleaner.backoff_ms, node.cleaner.limits.dedupe_buffer_bytes) == (99, 4 << 20)
        await create(node, "later")
        assert node.log_dirs is not None
        assert {int(found.producer_expiration_ms) for found in node.log_dirs.logs.values()} == {12345}

    on_a_machine(scenario)


def test_a_node_that_lost_the_controllership_says_that_it_cannot_go_on() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await SimulatedStore(machine.host.world.store).campaign(node.node_id)
        assert node.controller is not None
        reply = await node.controller.submit(DeleteTopics(()))
        assert reply == DeleteTopicsReply(())
        refused = await node.controller.submit(CreateTopics((NewTopic("orders"),)))
        assert isinstance(refused, Refused)
        assert node.failure is not None
        assert isinstance(await node.failure, Fenced)

    on_a_machine(scenario)


def test_a_compacted_topic_made_again_counts_as_never_cleaned() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "table", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
        assert node.log_dirs is not None
        assert node.cleaner is not None
        for _ in range(5):
            append(node, "table")
        node.log_dirs.logs[TopicPartition("table", 0)].roll(node._ports.clock.wall_ms())
        await node.run_housekeeping()
        home = node.log_dirs.directories[0]
        assert node.cleaner._cleaned_in(home) == {TopicPartition("table", 0): 5}
        await submit(node, DeleteTopics((TopicRef("table"),)))
        await create(node, "table", cleanup_policy="compact")
        assert node.cleaner._cleaned_in(home) == {}
        again = await machine.restart()
        assert again.cleaner is not None
        assert again.log_dirs is not None
        assert again.cleaner._cleaned_in(again.log_dirs.directories[0]) == {}

    on_a_machine(scenario)
