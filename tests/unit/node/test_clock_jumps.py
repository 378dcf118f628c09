"""Somebody sets the wall clock while a node runs."""

from __future__ import annotations

import asyncio

import pytest

from moldau.core.metadata.commands import ConfigEdit, ConfigEdits, ConfigOperation, IncrementalAlterConfigs
from moldau.model.ids import TopicPartition
from moldau.model.options import ResourceType
from moldau.node.clock_keeper import encode, parse
from moldau.node.compose import Node
from moldau.records.builder import BatchBuilder
from moldau.runtime.steady_clock import ClockState, SteadyClock
from moldau.server.handlers import produce as produce_handler
from moldau.storage.checkpoints import read_offsets
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.unit.storage.support import ManualClock

from .nodes import DATA, Machine, append, context, create, on_a_machine, submit

DAY_MS = 24 * 3600 * 1000


@pytest.mark.parametrize("jump_ms", [10 * DAY_MS, -10 * DAY_MS])
def test_what_is_due_comes_in_time_although_the_wall_clock_was_set(jump_ms: int) -> None:
    """Checkpoints, flushes and the removal of deleted files."""

    async def scenario(machine: Machine) -> None:
        node = await machine.start(log_segment_delete_delay_ms="30000")
        await create(node, "kept", flush_ms="1000")
        await create(node, "gone")
        append(node, "kept")
        machine.host.clock.jump(jump_ms)
        assert node.log_dirs is not None
        node.log_dirs.delete("gone", 0)
        await asyncio.sleep(3)
        assert node.log_dirs.logs[TopicPartition("kept", 0)].durable_end_offset == 1
        assert [name for name in machine.folders() if name.startswith("gone")] != []
        await asyncio.sleep(30)
        assert [name for name in machine.folders() if name.startswith("gone")] == []
        await asyncio.sleep(60)
        found = read_offsets(machine.disk(), f"{DATA}/recovery-point-offset-checkpoint")
        assert found[TopicPartition("kept", 0)] == 1

    on_a_machine(scenario)


@pytest.mark.parametrize("jump_ms", [10 * DAY_MS, -10 * DAY_MS])
@pytest.mark.parametrize("stamps", ["CreateTime", "LogAppendTime"])
def test_nothing_is_deleted_by_age_after_the_clock_jumped(
    jump_ms: int, stamps: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither by a clock that jumps ahead, nor by one that was behind and is back; also after a restart."""

    async def scenario(machine: Machine) -> None:
        node = await machine.start(log_retention_check_interval_ms="1000")
        await create(node, "orders", message_timestamp_type=stamps)
        append(node, "orders")
        machine.host.clock.jump(jump_ms)
        append(node, "orders")
        await asyncio.sleep(5)
        assert start_of(node) == 0
        node = await machine.restart()
        append(node, "orders")
        await asyncio.sleep(5)
        assert start_of(node) == 0
        assert node.clock.in_doubt
        machine.host.clock.jump(-jump_ms)
        await asyncio.sleep(5)
        assert not node.clock.in_doubt
        if stamps == "LogAppendTime":
            assert start_of(node) == 0, "stamped by a clock that was wrong"

    on_a_machine(scenario)
    warned = [record.getMessage() for record in caplog.records if record.name == "moldau.clock"]
    assert any("10.0 days" in line and "nothing is deleted by its age" in line for line in warned)


def test_retention_goes_on_when_somebody_says_that_the_clock_is_right() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start(log_retention_check_interval_ms="1000")
        await create(node, "orders")
        append(node, "orders")
        machine.host.clock.jump(10 * DAY_MS)
        await asyncio.sleep(5)
        assert start_of(node) == 0
        setting = ConfigEdit("moldau.clock.jumps", ConfigOperation.SET, "follow")
        await submit(node, IncrementalAlterConfigs((ConfigEdits(ResourceType.BROKER, "", (setting,)),)))
        await asyncio.sleep(5)
        assert start_of(node) == 1

    on_a_machine(scenario)


@pytest.mark.parametrize(("peer", "believed"), [("10.0.0.7", True), ("127.0.0.1", False)])
def test_clients_on_other_machines_vouch_for_the_new_time(peer: str, believed: bool) -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start(log_retention_check_interval_ms="1000")
        await create(node, "orders")
        append(node, "orders")
        machine.host.clock.jump(10 * DAY_MS)
        await asyncio.sleep(5)
        for _ in range(10):
            assert node.clock.in_doubt
            produce(node, "orders", machine.host.clock.wall_ms(), peer)
        assert node.clock.in_doubt is not believed
        produce(node, "orders", machine.host.clock.wall_ms() - 10 * DAY_MS, peer)

    on_a_machine(scenario)


def test_a_client_that_disagrees_starts_the_count_anew() -> None:
    real = ManualClock(20 * DAY_MS)
    clock = SteadyClock(real)
    real.jumped_ms = 10 * DAY_MS
    for _ in range(3):
        for _ in range(9):
            clock.witness(30 * DAY_MS)
        clock.witness(20 * DAY_MS)
    assert clock.in_doubt
    assert clock.wall_ms() == 20 * DAY_MS


def test_a_machine_that_slept_or_a_node_that_was_off_is_no_jump() -> None:
    real = ManualClock(20 * DAY_MS)
    clock = SteadyClock(real)
    real.time_ms += 10 * DAY_MS
    assert clock.wall_ms() == 30 * DAY_MS
    assert not clock.in_doubt
    other_boot = ClockState(3 * DAY_MS, 1 * DAY_MS, "another boot")
    assert not SteadyClock(real, other_boot).in_doubt


def test_a_clock_that_is_before_the_time_last_seen_is_not_believed() -> None:
    real = ManualClock(20 * DAY_MS)
    clock = SteadyClock(real, ClockState(30 * DAY_MS, 1 * DAY_MS, "another boot"))
    assert clock.in_doubt
    assert clock.wall_ms() == 30 * DAY_MS


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b'{"wall_ms": "x", "monotonic_ms": 1, "era": ""}', b'{"a": 1}'])
def test_damage_to_what_was_written_down_is_no_doubt(junk: bytes) -> None:
    assert parse(junk) is None


def test_what_is_written_down_is_believed_only_as_it_was_written() -> None:
    """One flipped bit could put the time that is believed years ahead, and everything would be old."""
    state = ClockState(20 * DAY_MS, 5, "boot", jump_ms=-7, moved_on_ms=3)
    data = encode(state)
    assert parse(data) == state
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << (bit % 8)
        assert parse(bytes(flipped)) in (None, state), bytes(flipped)


def start_of(node: Node) -> int:
    assert node.log_dirs is not None
    return int(node.log_dirs.logs[TopicPartition("orders", 0)].start_offset)


def produce(node: Node, topic: str, timestamp_ms: int, peer_host: str) -> None:
    builder = BatchBuilder()
    builder.append(timestamp=timestamp_ms, key=b"key", value=b"value")
    data = PartitionProduceData(index=0, records=builder.build())
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(name=topic, partition_data=[data])])
    asked = context(node, 9)
    asked.peer.peer_host = peer_host
    produce_handler.handle(request, asked)
    node.flush_set.flush_all()
