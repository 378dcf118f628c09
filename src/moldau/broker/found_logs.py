"""What a log found on disk is to the metadata: the facts by which the start decides what becomes of it."""

from __future__ import annotations

from enum import Enum

from moldau.core.metadata.image import MetadataImage
from moldau.model.ids import NO_TOPIC_ID, TopicPartition
from moldau.storage.checkpoints import encode_id


class Standing(Enum):
    HOSTED = "the metadata places it here"
    ID_DAMAGED = "the metadata places it here, but the file with its topic id is lost or damaged"
    DELETED = "its topic was deleted: the node stopped before it could do so"
    ELSEWHERE = "the metadata has another topic under this name, or the replica on another node"
    UNKNOWN = "the metadata has never heard of it"


def standing_of(image: MetadataImage, node_id: int, key: TopicPartition, topic_id: bytes) -> Standing:
    if topic_id in image.graves:
        return Standing.DELETED
    topic = image.topics_by_name.get(key.topic)
    if topic is None:
        return Standing.UNKNOWN
    same = topic_id == topic.topic_id
    damaged = not same and is_damaged(topic_id, topic.topic_id)
    partition = topic.partition(key.partition)
    if partition is None:
        return Standing.UNKNOWN if same or damaged else Standing.ELSEWHERE
    if node_id not in partition.replicas or not (same or damaged):
        return Standing.ELSEWHERE
    return Standing.HOSTED if same else Standing.ID_DAMAGED


def is_damaged(found: bytes, known: bytes) -> bool:
    """Whether `partition.metadata` says nothing, or the known id but for one character: a flipped bit. Two topics
    whose random ids are that much alike will never meet."""
    if found == NO_TOPIC_ID:
        return True
    return sum(one != other for one, other in zip(encode_id(found), encode_id(known), strict=True)) == 1
