"""Why a partition is not here, and what a client is told about its leader."""

from __future__ import annotations

from typing import Any

from moldau.broker.partition import Partition
from moldau.model.errors import ErrorCode
from moldau.server.services import Services


def missing_by_name(services: Services, topic: str, index: int) -> ErrorCode:
    """The topic exists on another node, or nowhere."""
    image: Any = None if services.images is None else services.images.image
    known = None if image is None else image.topics_by_name.get(topic)
    if known is None or not 0 <= index < len(known.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NOT_LEADER_OR_FOLLOWER


def missing_by_id(services: Services, topic_id: bytes, index: int) -> ErrorCode:
    image: Any = None if services.images is None else services.images.image
    known = None if image is None else image.topics_by_id.get(topic_id)
    if known is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not 0 <= index < len(known.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NOT_LEADER_OR_FOLLOWER


def current_leader(services: Services, topic: str, index: int, partition: Partition | None) -> tuple[int, int]:
    """(leader id, leader epoch) as this node knows them, for the hints of KIP-951; (-1, -1) when it does not."""
    if partition is not None:
        return int(partition.leader_id), int(partition.leader_epoch)
    image: Any = None if services.images is None else services.images.image
    known = None if image is None else image.topics_by_name.get(topic)
    if known is None or not 0 <= index < len(known.partitions):
        return -1, -1
    found = known.partitions[index]
    return int(found.leader), int(found.leader_epoch)
