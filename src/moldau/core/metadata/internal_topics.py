"""How moldau makes the topics it keeps its own books in.

Kafka's defaults ask for three replicas, which one broker cannot give; there every single-node set-up has to lower
three settings by hand. Here a factor that nobody set adapts to the brokers there are. A factor that somebody did set
is taken at its word, and refused when it cannot be met.
"""

from __future__ import annotations

from typing import NamedTuple

from moldau.core.metadata.commands import NewTopic
from moldau.model.ids import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC


class Factor(NamedTuple):
    """A number of replicas, and whether a person chose it."""

    value: int
    explicit: bool

    def among(self, brokers: int) -> int:
        return self.value if self.explicit else max(1, min(self.value, brokers))


class InternalTopicSettings(NamedTuple):
    """`offsets.topic.*` and `transaction.state.log.*`."""

    offsets_partitions: int = 50
    offsets_replication: Factor = Factor(3, False)
    offsets_segment_bytes: int = 104_857_600
    transaction_partitions: int = 50
    transaction_replication: Factor = Factor(3, False)
    transaction_insync_min: Factor = Factor(2, False)
    transaction_segment_bytes: int = 104_857_600


def internal_topic(name: str, settings: InternalTopicSettings, *, brokers: int) -> NewTopic | None:
    """The creation of one of the cluster's own topics; None for any other name."""
    if name == CONSUMER_OFFSETS_TOPIC:
        return NewTopic(
            name,
            settings.offsets_partitions,
            settings.offsets_replication.among(brokers),
            configs=(
                ("cleanup.policy", "compact"),
                ("compression.type", "producer"),
                ("segment.bytes", str(settings.offsets_segment_bytes)),
            ),
        )
    if name == TRANSACTION_STATE_TOPIC:
        replicas = settings.transaction_replication.among(brokers)
        return NewTopic(
            name,
            settings.transaction_partitions,
            replicas,
            configs=(
                ("cleanup.policy", "compact"),
                ("compression.type", "uncompressed"),
                ("min.insync.replicas", str(settings.transaction_insync_min.among(replicas))),
                ("segment.bytes", str(settings.transaction_segment_bytes)),
                ("unclean.leader.election.enable", "false"),
            ),
        )
    return None
