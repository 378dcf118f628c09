"""Decisions about brokers: who is part of the cluster, and what becomes of the partitions they led."""

from __future__ import annotations

from moldau.core.metadata.commands import (
    PRODUCER_IDS_PER_BLOCK,
    AllocateProducerIds,
    Decision,
    ProducerIdBlock,
    RegisterBroker,
    RegisterBrokerReply,
    UnregisterBroker,
    UnregisterBrokerReply,
)
from moldau.core.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from moldau.core.metadata.records import (
    BrokerRegistered,
    BrokerUnregistered,
    ClusterNamed,
    FeatureFinalised,
    PartitionChanged,
    ProducerIdsAllocated,
    Record,
)
from moldau.core.metadata.rules import MetadataRules
from moldau.model.errors import ErrorCode, Refused

PRODUCER_ID_MAX = 2**63 - 1


def decide_register_broker(image: MetadataImage, command: RegisterBroker, rules: MetadataRules) -> Decision:
    refused = _registration_refused(image, command)
    if refused is not None:
        return Decision((), refused)
    records: list[Record] = []
    if not image.cluster_id:
        records.append(ClusterNamed(command.cluster_id))
        records.extend(
            FeatureFinalised(name, row.initial_level) for name, row in rules.features.items() if row.initial_level
        )
    records.append(
        BrokerRegistered(
            command.node_id,
            command.broker_epoch,
            command.incarnation_id,
            command.rack,
            command.endpoints,
            command.directories,
        )
    )
    records.extend(_elections_after_return(image, command))
    return Decision(tuple(records), RegisterBrokerReply(command.broker_epoch))


def _registration_refused(image: MetadataImage, command: RegisterBroker) -> Refused | None:
    if image.cluster_id and image.cluster_id != command.cluster_id:
        return Refused(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"The metadata belongs to cluster {image.cluster_id}, the log directories to {command.cluster_id}.",
        )
    known = image.brokers.get(command.node_id)
    if known is not None and known.broker_epoch > command.broker_epoch:
        return Refused(ErrorCode.STALE_BROKER_EPOCH, f"Broker {command.node_id} registered again since.")
    if len(set(command.directories)) != len(command.directories):
        return Refused(ErrorCode.INVALID_REGISTRATION, "Two log directories carry the same directory id.")
    return None


def _elections_after_return(image: MetadataImage, command: RegisterBroker) -> list[Record]:
    """A broker back from an unclean stop may have lost the unsynced end of its logs. What it writes there now must
    differ in epoch from what was lost, or consumers could not tell one from the other (KIP-320). After a clean stop
    nothing was lost, and the epochs stay."""
    known = image.brokers.get(command.node_id)
    clean = known is not None and known.broker_epoch == command.previous_broker_epoch
    records: list[Record] = []
    for topic in image.topics_by_name.values():
        for partition in topic.partitions:
            leads = partition.leader == command.node_id
            waits = partition.leader == NO_LEADER and command.node_id in partition.isr
            if waits or (leads and not clean):
                records.append(
                    PartitionChanged(topic.topic_id, partition.index, leader=command.node_id, new_leader_epoch=True)
                )
    return records


def decide_unregister_broker(image: MetadataImage, command: UnregisterBroker) -> Decision:
    known = image.brokers.get(command.node_id)
    if known is None:
        return Decision(
            (), Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {command.node_id} is not currently registered")
        )
    records: list[Record] = []
    for topic in image.topics_by_name.values():
        for partition in topic.partitions:
            if command.node_id in partition.isr:
                records.append(_without(topic.topic_id, partition, command.node_id))
    records.append(BrokerUnregistered(command.node_id, known.broker_epoch))
    return Decision(tuple(records), UnregisterBrokerReply(command.node_id))


def _without(topic_id: bytes, partition: PartitionImage, node_id: int) -> PartitionChanged:
    """The last in-sync replica stays in the ISR: it alone may lead again without losing anything."""
    isr = tuple(other for other in partition.isr if other != node_id)
    leads = partition.leader == node_id
    heir = next((other for other in partition.replicas if other in isr), NO_LEADER)
    return PartitionChanged(
        topic_id,
        partition.index,
        leader=heir if leads else None,
        new_leader_epoch=leads,
        isr=isr or partition.isr,
    )


def decide_allocate_producer_ids(image: MetadataImage, command: AllocateProducerIds) -> Decision:
    broker = image.brokers.get(command.node_id)
    if broker is None:
        return Decision((), Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {command.node_id} is not registered."))
    if broker.broker_epoch != command.broker_epoch:
        return Decision((), Refused(ErrorCode.STALE_BROKER_EPOCH, f"Broker {command.node_id} registered again since."))
    first = image.next_producer_id
    if first > PRODUCER_ID_MAX - PRODUCER_IDS_PER_BLOCK:
        return Decision((), Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "Exhausted all producer ids."))
    record = ProducerIdsAllocated(command.node_id, command.broker_epoch, first + PRODUCER_IDS_PER_BLOCK)
    return Decision((record,), ProducerIdBlock(first, PRODUCER_IDS_PER_BLOCK))
