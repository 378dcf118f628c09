"""The controller's promises: order, durability before answers, recovery, and behaviour when the store misbehaves."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from moldau.controller import loop as controller_loop
from moldau.controller.loop import Controller
from moldau.core.metadata.commands import (
    AllocateProducerIds,
    CreatedTopic,
    CreateTopics,
    CreateTopicsReply,
    NewTopic,
    ProducerIdBlock,
    RegisterBroker,
    RegisterBrokerReply,
)
from moldau.core.metadata.delta import MetadataDelta
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.rules import LenientJudge, MetadataRules
from moldau.model.errors import ErrorCode, Refused
from moldau.model.failures import Fenced, StoreFailed
from moldau_sim.loop import VirtualLoop
from moldau_sim.store import SimulatedStore, StoreEngine

REGISTER = RegisterBroker(1, 1, bytes(16), None, (), (b"d" * 16,), "cluster")


def on_virtual_time(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(scenario())
    finally:
        loop.close()


class Run:
    """A controller with a running loop and a memory of what it published."""

    def __init__(self, engine: StoreEngine) -> None:
        self.store = SimulatedStore(engine)
        self.published: list[MetadataImage] = []
        self.controller = Controller(
            self.store,
            node_id=1,
            rules=lambda: MetadataRules(LenientJudge()),
            chance=random.Random(7),
            publish=self.publish,
        )

    async def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self.published.append(image)

    async def __aenter__(self) -> Run:
        await self.controller.start()
        self.task = asyncio.get_running_loop().create_task(self.controller.run())
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])

    async def create(self, name: str) -> CreatedTopic | Refused:
        reply = await self.controller.submit(CreateTopics((NewTopic(name),)))
        if isinstance(reply, Refused):
            return reply
        assert isinstance(reply, CreateTopicsReply)
        return reply.outcomes[0]


def test_an_answer_comes_after_the_change_is_stored_and_published() -> None:
    async def scenario() -> None:
        engine = StoreEngine()
        async with Run(engine) as run:
            assert await run.controller.submit(REGISTER) == RegisterBrokerReply(1)
            created = await run.create("orders")
            assert isinstance(created, CreatedTopic)
            assert run.published[-1].topics_by_id[created.topic_id].name == "orders"
            assert run.published[-1].offset == engine.end

    on_virtual_time(scenario)


def test_a_refusal_changes_and_publishes_nothing() -> None:
    async def scenario() -> None:
        engine = StoreEngine()
        async with Run(engine) as run:
            await run.controller.submit(REGISTER)
            end = engine.end
            refused = await run.create("not/a/name")
            assert isinstance(refused, Refused)
            assert refused.code == ErrorCode.INVALID_TOPIC_EXCEPTION
            assert engine.end == end
            assert len(run.published) == 1

    on_virtual_time(scenario)


def test_commands_that_wait_together_are_decided_in_order_and_appended_at_once() -> None:
    async def scenario() -> None:
        engine = StoreEngine()
        engine.latency_seconds_max = 0.01
        async with Run(engine) as run:
            await run.controller.submit(REGISTER)
            tasks = [asyncio.get_running_loop().create_task(run.create(name)) for name in ("a", "b", "a", "c")]
            outcomes = [await task for task in tasks]
            assert [outcome.code.name if isinstance(outcome, Refused) else "ok" for outcome in outcomes] == [
                "ok",
                "ok",
                "TOPIC_ALREADY_EXISTS",
                "ok",
            ]
            assert sorted(run.controller.image.topics_by_name) == ["a", "b", "c"]

    on_virtual_time(scenario)


def test_a_new_controller_sees_what_the_old_one_agreed() -> None:
    async def scenario() -> None:
        engine = StoreEngine()
        async with Run(engine) as run:
            await run.controller.submit(REGISTER)
            await run.create("orders")
            before = run.controller.image
        async with Run(engine) as run:
            assert run.controller.image == before

    on_virtual_time(scenario)


def test_recovery_reads_a_snapshot_and_the_records_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_loop, "SNAPSHOT_RECORDS_MIN", 20)

    async def scenario() -> None:
        engine = StoreEngine()
        async with Run(engine) as run:
            await run.controller.submit(REGISTER)
            for number in range(40):
                await run.create(f"topic-{number}")
            before = run.controller.image
        assert engine.snapshot[0] > 20
        assert len(engine.records) < 60
        async with Run(engine) as run:
            assert run.controller.image == before

    on_virtual_time(scenario)


@pytest.mark.parametrize("when", ["fail_before_probability", "fail_after_probability"])
def test_an_append_of_unknown_outcome_happens_exactly_once(when: str) -> None:
    async def scenario() -> None:
        engine = StoreEngine(random.Random(3))
        async with Run(engine) as run:
            await run.controller.submit(REGISTER)
            setattr(engine, when, 0.5)
            created = [await run.create(f"topic-{number}") for number in range(20)]
            assert all(isinstance(outcome, CreatedTopic) for outcome in created)
            before = run.controller.image
        assert sum(engine.effects.values()) > 0
        setattr(engine, when, 0.0)
        async with Run(engine) as run:
            assert run.controller.image == before

    on_virtual_time(scenario)


def test_a_fenced_controller_stops_and_tells_those_who_wait() -> None:
    async def scenario() -> None:
        engine = StoreEngine()
        async with Run(engine) as run:
            await run.controller.submit(REGISTER)
            await SimulatedStore(engine).campaign(1)
            refused = await run.create("orders")
            assert isinstance(refused, Refused)
            assert refused.code == ErrorCode.NOT_CONTROLLER
            with pytest.raises(Fenced):
                await run.task
            assert await run.controller.submit(REGISTER) == refused

    on_virtual_time(scenario)


def test_a_store_that_stays_away_ends_the_controller() -> None:
    async def scenario() -> None:
        engine = StoreEngine()
        async with Run(engine) as run:
            await run.controller.submit(REGISTER)
            engine.fail_before_probability = 1.0
            refused = await run.create("orders")
            assert isinstance(refused, Refused)
            with pytest.raises(StoreFailed):
                await run.task

    on_virtual_time(scenario)


def test_producer_id_blocks_never_overlap_over_restarts() -> None:
    async def scenario() -> None:
        engine = StoreEngine()
        taken: list[int] = []
        for _ in range(3):
            async with Run(engine) as run:
                await run.controller.submit(REGISTER)
                block = await run.controller.submit(AllocateProducerIds(1, 1))
                assert isinstance(block, ProducerIdBlock)
                taken.extend(range(block.first, block.first + block.size))
        assert len(set(taken)) == len(taken) == 3000

    on_virtual_time(scenario)
