"""All shards of one internal topic: which partition answers for a name, which of them this node leads, and their coming
and going with leadership.

Shards are loaded one after another, so that many of them do not crowd out the requests of those that are ready.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from moldau.broker.images import Images
from moldau.broker.partition import Partition
from moldau.broker.partitions import PartitionTable
from moldau.broker.shards.loading import READ_BYTES, Codec
from moldau.broker.shards.placement import partition_for
from moldau.broker.shards.runtime import ShardCore, ShardRuntime, ShardState
from moldau.core.metadata.commands import CreateTopics, NewTopic
from moldau.core.metadata.delta import MetadataDelta
from moldau.core.metadata.image import NO_LEADER, MetadataImage
from moldau.model.errors import ErrorCode, Refused
from moldau.ports import Clock

RELOAD_PAUSE_S: Final = 0.1
"""Before a dropped shard is loaded again: what dropped it may still be going on."""
_NOT_HERE: Final = Refused(ErrorCode.NOT_COORDINATOR, "this node does not coordinate for that name")

Spawn = Callable[[Coroutine[Any, Any, None], str], None]


class ShardDirectory:
    """The shards of `topic`. `start` once partitions are hosted; then it follows the metadata by itself."""

    def __init__(
        self,
        topic: str,
        *,
        new_core: Callable[[int], ShardCore],
        codec: Codec,
        partitions: PartitionTable,
        images: Images,
        submit: Callable[[Any], Awaitable[Any]],
        new_topic: Callable[[], NewTopic],
        clock: Clock,
        spawn: Spawn,
        on_bug: Callable[[BaseException], None],
        on_effect: Callable[[ShardRuntime, Any], None] | None = None,
        compression: int = 0,
        commit_timeout_ms: int = 5_000,
        load_bytes: int = READ_BYTES,
    ) -> None:
        self.topic = topic
        self._new_core = new_core
        self._codec = codec
        self._partitions = partitions
        self._images = images
        self._submit = submit
        self._new_topic = new_topic
        self._clock = clock
        self._spawn = spawn
        self._on_bug = on_bug
        self._on_effect = on_effect
        self._compression = compression
        self._commit_timeout_ms = commit_timeout_ms
        self._load_bytes = load_bytes
        self._shards: dict[int, ShardRuntime] = {}
        self._to_load: deque[ShardRuntime] = deque()
        self._loading = False
        self._closed = False
        self.on_ready: Callable[[ShardRuntime], None] = lambda shard: None
        """Told of every shard that begins to serve."""

    # -- finding -----------------------------------------------------------------------------------------------------

    def partition_of(self, name: str) -> int | None:
        """The partition that answers for a group or transactional id; None while the topic does not exist."""
        topic = self._images.image.topics_by_name.get(self.topic)
        return None if topic is None else partition_for(name, len(topic.partitions))

    def find(self, name: str) -> ShardRuntime | Refused:
        """The shard of a name, in whatever state, or NOT_COORDINATOR."""
        index = self.partition_of(name)
        shard = None if index is None else self._shards.get(index)
        return _NOT_HERE if shard is None else shard

    def get(self, index: int) -> ShardRuntime | None:
        return self._shards.get(index)

    def all(self) -> list[ShardRuntime]:
        """Every shard this node leads, by partition."""
        return [shard for _, shard in sorted(self._shards.items())]

    def coordinator_of(self, name: str) -> int:
        """The node that leads the name's partition, or -1."""
        index = self.partition_of(name)
        partition = None if index is None else self._images.image.partition(self.topic, index)
        return NO_LEADER if partition is None else partition.leader

    async def ensure_topic(self) -> Refused | None:
        """Create the topic on first need."""
        if self.topic in self._images.image.topics_by_name:
            return None
        reply = await self._submit(CreateTopics((self._new_topic(),)))
        outcome = reply if isinstance(reply, Refused) else reply.outcomes[0]
        if isinstance(outcome, Refused) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            return outcome
        return None

    # -- following leadership ----------------------------------------------------------------------------------------

    def start(self) -> None:
        image = self._images.image
        self._images.subscribe(self._react)
        topic = image.topics_by_name.get(self.topic)
        for partition in () if topic is None else topic.partitions:
            self._follow(partition.index)

    def close(self) -> None:
        """The node stops: everyone who still waits is told to look elsewhere."""
        self._closed = True
        for shard in self.all():
            shard.close()
        self._shards.clear()
        self._to_load.clear()

    def _react(self, delta: MetadataDelta, image: MetadataImage) -> None:
        topic = image.topics_by_name.get(self.topic)
        if topic is None:
            for shard in self.all():
                self._resign(shard)
            return
        for topic_id, index in delta.partitions_changed:
            if topic_id == topic.topic_id:
                self._follow(index)

    def _follow(self, index: int) -> None:
        """Bring one shard in line with the role of its partition on this node."""
        if self._closed:
            return
        partition = self._partitions.get(self.topic, index)
        shard = self._shards.get(index)
        leads = partition is not None and partition.is_leader and not partition.offline
        if shard is not None and not (
            leads and shard.partition is partition and shard.leader_epoch == partition.leader_epoch
        ):
            self._resign(shard)
            shard = None
        if leads and shard is None:
            assert partition is not None
            self._begin(index, partition)

    def _begin(self, index: int, partition: Partition) -> None:
        shard = ShardRuntime(
            partition,
            lambda: self._new_core(index),
            self._codec,
            clock=self._clock,
            compression=self._compression,
            commit_timeout_ms=self._commit_timeout_ms,
            load_bytes=self._load_bytes,
            on_effect=self._on_effect,
            on_dropped=self._dropped,
            on_bug=self._on_bug,
        )
        self._shards[index] = shard
        if shard.load_empty():
            self.on_ready(shard)
            return
        self._to_load.append(shard)
        if not self._loading:
            self._loading = True
            self._spawn(self._load_all(), f"load {self.topic}")

    async def _load_all(self) -> None:
        try:
            while self._to_load:
                shard = self._to_load.popleft()
                await shard.load()
                if shard.state is ShardState.READY:
                    self.on_ready(shard)
        finally:
            self._loading = False

    def _resign(self, shard: ShardRuntime) -> None:
        self._shards.pop(int(shard.partition.index), None)
        shard.close()

    def _dropped(self, shard: ShardRuntime) -> None:
        """A shard gave up by itself. If its partition still lives here, it is loaded again."""
        index = int(shard.partition.index)
        if self._shards.get(index) is shard:
            del self._shards[index]
            asyncio.get_running_loop().call_later(RELOAD_PAUSE_S, self._follow, index)
