"""The settings of the cluster's own topics, and their creation by whoever needs them first."""

from __future__ import annotations

from moldau.config.settings import Settings
from moldau.core.metadata.commands import NewTopic
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.internal_topics import Factor, InternalTopicSettings, internal_topic


def internal_topic_settings(settings: Settings) -> InternalTopicSettings:
    def factor(key: str) -> Factor:
        return Factor(settings.int(key), settings.is_set(key))

    return InternalTopicSettings(
        offsets_partitions=settings.int("offsets.topic.num.partitions"),
        offsets_replication=factor("offsets.topic.replication.factor"),
        offsets_segment_bytes=settings.int("offsets.topic.segment.bytes"),
        transaction_partitions=settings.int("transaction.state.log.num.partitions"),
        transaction_replication=factor("transaction.state.log.replication.factor"),
        transaction_insync_min=factor("transaction.state.log.min.isr"),
        transaction_segment_bytes=settings.int("transaction.state.log.segment.bytes"),
    )


def new_topic(name: str, settings: Settings, image: MetadataImage) -> NewTopic:
    """What to create for a name that is asked for and not there: the broker's defaults, or an internal topic."""
    known = internal_topic(name, internal_topic_settings(settings), brokers=len(image.live_brokers()))
    return NewTopic(name) if known is None else known
