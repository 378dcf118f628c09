from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from moldau.broker.images import Images
from moldau.broker.shards.directory import RELOAD_PAUSE_S, ShardDirectory
from moldau.broker.shards.runtime import ShardRuntime, ShardState
from moldau.core.metadata.commands import CreateTopics, CreateTopicsReply, NewTopic
from moldau.core.metadata.delta import MetadataDelta
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.records import PartitionAdded, PartitionChanged, TopicCreated, TopicRemoved
from moldau.model.errors import ErrorCode, Refused
from moldau_sim.loop import VirtualLoop
from tests.unit.broker.shards.tally import Add, Read, Tally, TallyCodec
from tests.unit.server.harness import Stage, topic_id

TALLY = topic_id("tally")


class Directed:
    """A node with two partitions of `tally`, told by hand who leads them."""

    def __init__(self, directory: Path, loop: VirtualLoop) -> None:
        self.stage = Stage(directory, loop=loop)
        self.hosted = self.stage.topic("tally", 2)
        self.images = Images()
        self.offset = 0
        self.submitted: list[Any] = []
        self.reply: Any = None
        self.tasks: list[asyncio.Task[None]] = []
        self.shards = ShardDirectory(
            "tally",
            new_core=lambda index: Tally(),
            codec=TallyCodec(),
            partitions=self.stage.partitions,
            images=self.images,
            submit=self._submit,
            new_topic=lambda: NewTopic("tally", 2, 1),
            clock=self.stage.clock,
            spawn=lambda work, name: self.tasks.append(asyncio.ensure_future(work)),
            on_bug=self._bug,
        )

    def _bug(self, error: BaseException) -> None:
        raise AssertionError from error

    async def _submit(self, command: Any) -> Any:
        self.submitted.append(command)
        return self.reply

    def publish(self, *records: Any) -> None:
        self.offset += 1
        delta = MetadataDelta(self.images.image).replay_all(records)
        self.images.publish(delta, delta.apply(self.offset))

    def publish_topic(self) -> None:
        added = [PartitionAdded(TALLY, index, (1,), (1,), 1, 0, 0, (b"d" * 16,)) for index in range(2)]
        self.publish(TopicCreated(TALLY, "tally"), *added)

    def shard(self, index: int) -> ShardRuntime:
        found = self.shards.get(index)
        assert found is not None
        return found


def directed(directory: Path, body: Callable[[Directed], Coroutine[Any, Any, None]]) -> None:
    loop = VirtualLoop()

    async def main() -> None:
        await body(Directed(directory, loop))

    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def test_shards_come_with_the_topic_and_go_with_it(tmp_path: Path) -> None:
    async def body(on: Directed) -> None:
        on.shards.start()
        refused = on.shards.find("anything")
        assert isinstance(refused, Refused)
        assert refused.code is ErrorCode.NOT_COORDINATOR
        on.publish_topic()
        assert [shard.state for shard in on.shards.all()] == [ShardState.READY] * 2
        assert on.shards.coordinator_of("anything") == 1
        shard = on.shards.find("anything")
        assert isinstance(shard, ShardRuntime)
        assert await shard.submit(Add("a")) == 1
        on.publish(TopicRemoved(TALLY))
        assert on.shards.all() == []
        assert shard.state is ShardState.CLOSED
        assert on.shards.coordinator_of("anything") == -1

    directed(tmp_path, body)


def test_a_shard_is_resigned_and_loaded_again_with_its_state(tmp_path: Path) -> None:
    async def body(on: Directed) -> None:
        on.shards.start()
        on.publish_topic()
        before = on.shard(0)
        assert await before.submit(Add("a", 3)) == 3
        on.hosted[0].become_follower(2, 1)
        on.publish(PartitionChanged(TALLY, 0, leader=2, new_leader_epoch=True))
        assert on.shards.get(0) is None
        assert on.shard(1).state is ShardState.READY
        on.hosted[0].become_leader(2, (1,), (1,))
        on.publish(PartitionChanged(TALLY, 0, leader=1, new_leader_epoch=True))
        after = on.shard(0)
        assert after is not before
        assert after.state is ShardState.LOADING
        for task in on.tasks:
            await task
        assert await after.submit(Read("a")) == 3

    directed(tmp_path, body)


def test_a_new_epoch_of_the_same_leader_is_a_new_shard(tmp_path: Path) -> None:
    async def body(on: Directed) -> None:
        on.shards.start()
        on.publish_topic()
        before = on.shard(0)
        on.hosted[0].become_leader(1, (1,), (1,))
        on.publish(PartitionChanged(TALLY, 0, leader=1, new_leader_epoch=True))
        assert on.shard(0) is not before
        assert before.state is ShardState.CLOSED

    directed(tmp_path, body)


def test_a_dropped_shard_comes_back_when_its_partition_still_leads(tmp_path: Path) -> None:
    async def body(on: Directed) -> None:
        on.shards.start()
        on.publish_topic()
        shard = on.shard(0)
        assert await shard.submit(Add("a")) == 1
        shard._drop(Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "for the test"))
        assert on.shards.get(0) is None
        await asyncio.sleep(RELOAD_PAUSE_S * 2)
        assert await on.shard(0).submit(Read("a")) == 1

    directed(tmp_path, body)


def test_the_topic_is_created_once_and_refusals_are_passed_on(tmp_path: Path) -> None:
    async def body(on: Directed) -> None:
        on.shards.start()
        on.reply = CreateTopicsReply((Refused(ErrorCode.INVALID_REPLICATION_FACTOR, "too many"),))
        refused = await on.shards.ensure_topic()
        assert refused is not None
        assert refused.code is ErrorCode.INVALID_REPLICATION_FACTOR
        on.reply = CreateTopicsReply((Refused(ErrorCode.TOPIC_ALREADY_EXISTS),))
        assert await on.shards.ensure_topic() is None
        on.publish_topic()
        assert await on.shards.ensure_topic() is None
        assert on.submitted == [CreateTopics((NewTopic("tally", 2, 1),))] * 2

    directed(tmp_path, body)


def test_images_without_the_topic_mean_nothing_here(tmp_path: Path) -> None:
    async def body(on: Directed) -> None:
        on.shards.start()
        on.images.publish(MetadataDelta(on.images.image), MetadataImage(offset=5))
        assert on.shards.all() == []
        on.shards.close()

    directed(tmp_path, body)
