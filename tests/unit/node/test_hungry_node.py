"""A node whose process has no descriptor left for a while."""

from __future__ import annotations

import asyncio

from moldau.core.metadata.commands import DeleteTopics, TopicRef
from moldau_sim.drive import Fault

from .nodes import Machine, append, create, on_a_machine, submit


def test_a_log_that_could_not_be_made_is_made_later() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        await create(node, "before")
        machine.host.drive.faults.append(Fault("create", "orders-1/", "hungry", skip=2, times=3))
        await create(node, "orders", 3)
        assert [node.partitions.get("orders", index) is None for index in range(3)] == [False, True, False]
        assert append(node, "before") == 0
        await asyncio.sleep(5)
        assert append(node, "orders", 1) == 0
        again = await machine.restart()
        assert append(again, "orders", 1) == 1

    on_a_machine(scenario)


def test_a_topic_that_was_deleted_meanwhile_is_not() -> None:
    async def scenario(machine: Machine) -> None:
        node = await machine.start()
        machine.host.drive.faults.append(Fault("create", "orders-0/", "hungry", times=1000))
        created = await create(node, "orders")
        await submit(node, DeleteTopics((TopicRef(topic_id=created.topic_id),)))
        machine.host.drive.faults.clear()
        await asyncio.sleep(5)
        assert node.partitions.get("orders", 0) is None
        assert node.log_dirs is not None
        assert node.log_dirs.get("orders", 0) is None

    on_a_machine(scenario)
