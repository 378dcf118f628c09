"""Decisions about what brokers report of their disks: topics they found there, and where replicas lie."""

from __future__ import annotations

from moldau.core.metadata.commands import (
    AdoptedTopic,
    AdoptTopics,
    AdoptTopicsReply,
    AssignDirectories,
    AssignDirectoriesReply,
    CreatedTopic,
    Decision,
)
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.records import (
    ConfigChanged,
    PartitionAdded,
    PartitionChanged,
    ProducerIdsAllocated,
    Record,
    TopicCreated,
)
from moldau.model.errors import ErrorCode, Refused
from moldau.model.ids import topic_name_problem
from moldau.model.options import ResourceType


def decide_adopt_topics(image: MetadataImage, command: AdoptTopics) -> Decision:
    """Make topics found on disk part of the metadata, under the ids and epochs their logs carry. A topic that is known
    may gain the partitions after those it has."""
    records: list[Record] = []
    outcomes: list[CreatedTopic | Refused] = []
    for topic in command.topics:
        refused = _adoption_refused(image, command.node_id, topic)
        if refused is not None:
            outcomes.append(refused)
            continue
        if topic.topic_id not in image.topics_by_id:
            records.append(TopicCreated(topic.topic_id, topic.name))
        records.extend(ConfigChanged(ResourceType.TOPIC, topic.name, key, value) for key, value in topic.configs)
        for part in topic.partitions:
            me = (command.node_id,)
            # One above the newest epoch in the log: whoever led before us, we are a later leader.
            epoch = part.leader_epoch + 1
            records.append(
                PartitionAdded(topic.topic_id, part.partition, me, me, command.node_id, epoch, 0, (part.directory_id,))
            )
        outcomes.append(CreatedTopic(topic.name, topic.topic_id, len(topic.partitions), 1))
    broker = image.brokers.get(command.node_id)
    if broker is not None and command.next_producer_id > image.next_producer_id:
        records.append(ProducerIdsAllocated(command.node_id, broker.broker_epoch, command.next_producer_id))
    return Decision(tuple(records), AdoptTopicsReply(tuple(outcomes)))


def _adoption_refused(image: MetadataImage, node_id: int, topic: AdoptedTopic) -> Refused | None:
    if node_id not in image.brokers:
        return Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {node_id} is not registered.")
    problem = topic_name_problem(topic.name)
    if problem is not None:
        return Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
    known = image.topics_by_id.get(topic.topic_id)
    if known is not image.topics_by_name.get(topic.name):
        return Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
    first = 0 if known is None else len(known.partitions)
    numbers = [part.partition for part in topic.partitions]
    if numbers != list(range(first, first + len(numbers))) or not numbers:
        found = ", ".join(map(str, numbers))
        detail = f"Topic '{topic.name}' has partitions {found} on disk, not {first} to n-1."
        return Refused(ErrorCode.INVALID_PARTITIONS, detail)
    return None


def decide_assign_directories(image: MetadataImage, command: AssignDirectories) -> Decision:
    records: list[Record] = []
    for replica in command.replicas:
        topic = image.topics_by_id.get(replica.topic_id)
        partition = None if topic is None else topic.partition(replica.partition)
        if partition is None or command.node_id not in partition.replicas:
            continue  # deleted or moved away since the broker looked: nothing to remember
        if partition.directory_of(command.node_id) == replica.directory_id:
            continue
        directories = tuple(
            replica.directory_id if node_id == command.node_id else directory
            for node_id, directory in zip(partition.replicas, partition.directories, strict=True)
        )
        records.append(PartitionChanged(replica.topic_id, replica.partition, directories=directories))
    return Decision(tuple(records), AssignDirectoriesReply(len(records)))
