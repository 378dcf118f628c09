"""Somebody sets the wall clock while a node runs."""

from __future__ import annotations

import asyncio

import pytest

from moldau.model.ids import TopicPartition
from moldau.storage.checkpoints import read_offsets

from .nodes import DATA, Machine, append, create, on_a_machine

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
