"""The group coordinator of a node: the directory of group shards, and what the cluster tells them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from moldau.broker.images import Images
from moldau.broker.internal_topics import new_topic
from moldau.broker.partitions import PartitionTable
from moldau.broker.shards.directory import ShardDirectory, Spawn
from moldau.broker.shards.group_codec import GroupCodec
from moldau.broker.shards.image_topics import ImageTopics
from moldau.broker.shards.runtime import ShardRuntime, ShardState
from moldau.config.settings import Settings
from moldau.core.group.commands import TopicsDeleted
from moldau.core.group.settings import GroupSettings
from moldau.core.group.shard import GroupShard
from moldau.core.metadata.delta import MetadataDelta
from moldau.core.metadata.image import MetadataImage
from moldau.model.ids import CONSUMER_OFFSETS_TOPIC
from moldau.ports import Clock


def group_settings(settings: Settings) -> GroupSettings:
    return GroupSettings(
        initial_rebalance_delay_ms=settings.int("group.initial.rebalance.delay.ms"),
        min_session_timeout_ms=settings.int("group.min.session.timeout.ms"),
        max_session_timeout_ms=settings.int("group.max.session.timeout.ms"),
        max_size=settings.int("group.max.size"),
        offset_metadata_bytes_max=settings.int("offset.metadata.max.bytes"),
        offsets_retention_ms=settings.int("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=settings.int("offsets.retention.check.interval.ms"),
        consumer_session_timeout_ms=settings.int("group.consumer.session.timeout.ms"),
        consumer_heartbeat_interval_ms=settings.int("group.consumer.heartbeat.interval.ms"),
        consumer_max_size=settings.int("group.consumer.max.size"),
        consumer_assignors=tuple(settings.list("group.consumer.assignors")),
        consumer_migration_policy=settings.str("group.consumer.migration.policy").lower(),
        consumer_regex_refresh_interval_ms=settings.int("group.consumer.regex.refresh.interval.ms"),
        consumer_assignment_interval_ms=settings.int("group.consumer.assignment.interval.ms"),
    )


class GroupCoordinator:
    """`shards` answers; this class carries the cluster's changes to them."""

    def __init__(
        self,
        *,
        settings: Callable[[], Settings],
        partitions: PartitionTable,
        images: Images,
        submit: Callable[[Any], Awaitable[Any]],
        clock: Clock,
        spawn: Spawn,
        on_bug: Callable[[BaseException], None],
    ) -> None:
        self._settings = settings
        self._images = images
        self._removed_while_loading: dict[ShardRuntime, list[tuple[str, bytes]]] = {}
        self._topics = ImageTopics(images.image)
        now = settings()
        self.shards = ShardDirectory(
            CONSUMER_OFFSETS_TOPIC,
            new_core=self._new_core,
            codec=GroupCodec(),
            partitions=partitions,
            images=images,
            submit=submit,
            new_topic=lambda: new_topic(CONSUMER_OFFSETS_TOPIC, settings(), images.image),
            clock=clock,
            spawn=spawn,
            on_bug=on_bug,
            compression=now.int("offsets.topic.compression.codec"),
            commit_timeout_ms=now.int("offsets.commit.timeout.ms"),
            load_bytes=now.int("offsets.load.buffer.size"),
        )
        self.shards.on_ready = self._ready

    def start(self) -> None:
        # Before the shards react to an image, they must see its topics.
        self._images.subscribe(self._react)
        self.shards.start()

    def close(self) -> None:
        self.shards.close()
        self._removed_while_loading.clear()

    def settings_changed(self) -> None:
        """Broker settings changed while running; the next decisions obey them."""
        settings = group_settings(self._settings())
        for core in self._cores():
            core.settings = settings

    def _new_core(self, index: int) -> GroupShard:
        core = GroupShard(group_settings(self._settings()))
        core.topics = self._topics
        return core

    def _cores(self) -> list[GroupShard]:
        return [shard.core for shard in self.shards.all() if isinstance(shard.core, GroupShard)]

    def _react(self, delta: MetadataDelta, image: MetadataImage) -> None:
        names_changed = bool(delta.topics_created or delta.topics_removed)
        self._topics = ImageTopics(image, self._topics, names_changed=names_changed)
        for core in self._cores():
            core.topics = self._topics
        self._forget_removed(delta)

    def _forget_removed(self, delta: MetadataDelta) -> None:
        """Offsets of deleted topics go, wherever they are stored."""
        removed = [(topic.name, topic_id) for topic_id, topic in delta.topics_removed.items()]
        if not removed:
            return
        shards = self.shards.all()
        self._removed_while_loading = {
            shard: topics for shard, topics in self._removed_while_loading.items() if shard in shards
        }
        for shard in shards:
            if shard.state is ShardState.LOADING:
                self._removed_while_loading.setdefault(shard, []).extend(removed)
            else:
                shard.submit_to(TopicsDeleted(tuple(removed)), _nobody)

    def _ready(self, shard: ShardRuntime) -> None:
        removed = self._removed_while_loading.pop(shard, None)
        if removed:
            shard.submit_to(TopicsDeleted(tuple(removed)), _nobody)


def _nobody(reply: Any) -> None:
    """Nobody waits for the answer."""
