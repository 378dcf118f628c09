"""What may be asked of the controller, and what it answers. Version-free: handlers translate.

Every reply is parallel to what was asked: one outcome per topic or resource, each a value or a `Refused`.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple, TypeAlias

from moldau.core.metadata.records import Endpoint, Record
from moldau.model.errors import Refused

DEFAULT: Final = -1
"""Partitions or replication factor: whatever the broker's defaults say."""

PRODUCER_IDS_PER_BLOCK: Final = 1000


class ConfigOperation(enum.IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


# -- topics ----------------------------------------------------------------------------------------------------------


class NewTopic(NamedTuple):
    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """(partition index, replicas), preferred leader first; empty lets the placement choose."""
    configs: tuple[tuple[str, str | None], ...] = ()


class CreateTopics(NamedTuple):
    topics: tuple[NewTopic, ...]
    validate_only: bool = False


class CreatedTopic(NamedTuple):
    name: str
    topic_id: bytes
    partitions: int
    replication_factor: int


class CreateTopicsReply(NamedTuple):
    outcomes: tuple[CreatedTopic | Refused, ...]


class TopicRef(NamedTuple):
    """A topic by name or by id; exactly one of them."""

    name: str | None = None
    topic_id: bytes | None = None


class DeleteTopics(NamedTuple):
    topics: tuple[TopicRef, ...]


class DeletedTopic(NamedTuple):
    name: str
    topic_id: bytes


class DeleteTopicsReply(NamedTuple):
    outcomes: tuple[DeletedTopic | Refused, ...]


class MorePartitions(NamedTuple):
    name: str
    partitions: int
    """The new total."""
    assignments: tuple[tuple[int, ...], ...] | None = None
    """Replicas of each added partition."""


class CreatePartitions(NamedTuple):
    topics: tuple[MorePartitions, ...]
    validate_only: bool = False


class GrownTopic(NamedTuple):
    name: str
    partitions: int


class CreatePartitionsReply(NamedTuple):
    outcomes: tuple[GrownTopic | Refused, ...]


class AdoptedPartition(NamedTuple):
    partition: int
    leader_epoch: int
    directory_id: bytes


class AdoptedTopic(NamedTuple):
    """A topic found on disk that no metadata knows: a log directory written by Kafka."""

    name: str
    topic_id: bytes
    partitions: tuple[AdoptedPartition, ...]
    configs: tuple[tuple[str, str], ...] = ()


class AdoptTopics(NamedTuple):
    node_id: int
    topics: tuple[AdoptedTopic, ...]
    next_producer_id: int = 0
    """Above every id that the logs remember: a new producer must never look like an old one."""


class AdoptTopicsReply(NamedTuple):
    outcomes: tuple[CreatedTopic | Refused, ...]


class ReplicaDirectory(NamedTuple):
    topic_id: bytes
    partition: int
    directory_id: bytes


class AssignDirectories(NamedTuple):
    """A broker tells where it keeps its replicas (KIP-858)."""

    node_id: int
    replicas: tuple[ReplicaDirectory, ...]


class AssignDirectoriesReply(NamedTuple):
    changed: int


# -- configs ---------------------------------------------------------------------------------------------------------


class ConfigEdit(NamedTuple):
    key: str
    operation: int
    """A `ConfigOperation`; anything else is refused."""
    value: str | None


class ConfigEdits(NamedTuple):
    resource_type: int
    resource_name: str
    edits: tuple[ConfigEdit, ...]


class IncrementalAlterConfigs(NamedTuple):
    resources: tuple[ConfigEdits, ...]
    validate_only: bool = False


class ConfigReplacement(NamedTuple):
    resource_type: int
    resource_name: str
    configs: tuple[tuple[str, str | None], ...]


class AlterConfigs(NamedTuple):
    """The old call: the listed keys become the whole configuration of the resource."""

    resources: tuple[ConfigReplacement, ...]
    validate_only: bool = False


class AlteredResource(NamedTuple):
    resource_type: int
    resource_name: str


class AlterConfigsReply(NamedTuple):
    outcomes: tuple[AlteredResource | Refused, ...]


# -- brokers, producer ids, features ---------------------------------------------------------------------------------


class RegisterBroker(NamedTuple):
    node_id: int
    broker_epoch: int
    incarnation_id: bytes
    rack: str | None
    endpoints: tuple[Endpoint, ...]
    directories: tuple[bytes, ...]
    cluster_id: str
    previous_broker_epoch: int = -1
    """From the clean-shutdown marker; anything but the epoch the cluster remembers means an unclean stop (KIP-966)."""


class RegisterBrokerReply(NamedTuple):
    broker_epoch: int


class UnregisterBroker(NamedTuple):
    node_id: int


class UnregisterBrokerReply(NamedTuple):
    node_id: int


class AllocateProducerIds(NamedTuple):
    node_id: int
    broker_epoch: int


class ProducerIdBlock(NamedTuple):
    first: int
    size: int


class FeatureUpdate(NamedTuple):
    name: str
    level: int
    allow_downgrade: bool = False


class UpdateFeatures(NamedTuple):
    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False


class UpdateFeaturesReply(NamedTuple):
    outcomes: tuple[FeatureUpdate | Refused, ...]


Command: TypeAlias = (
    CreateTopics
    | DeleteTopics
    | CreatePartitions
    | AdoptTopics
    | AssignDirectories
    | IncrementalAlterConfigs
    | AlterConfigs
    | RegisterBroker
    | UnregisterBroker
    | AllocateProducerIds
    | UpdateFeatures
)

Reply: TypeAlias = (
    CreateTopicsReply
    | DeleteTopicsReply
    | CreatePartitionsReply
    | AdoptTopicsReply
    | AssignDirectoriesReply
    | AlterConfigsReply
    | RegisterBrokerReply
    | UnregisterBrokerReply
    | ProducerIdBlock
    | UpdateFeaturesReply
)


class Decision(NamedTuple):
    """Records to append, and the answer to give once they are applied. No records: nothing changes."""

    records: tuple[Record, ...]
    reply: Reply | Refused
