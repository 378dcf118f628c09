"""Logs on disk that the metadata has never heard of: those Kafka wrote are taken in, moldau's own stop the start.

In a directory that moldau signed, the metadata knows every log: one that it does not know means that metadata was
lost, and setting the records aside would be the second loss. Empty logs have nothing to lose.
"""

from __future__ import annotations

from moldau.broker.found_logs import Standing, standing_of
from moldau.core.metadata.image import MetadataImage
from moldau.model.ids import TopicPartition
from moldau.node.failures import UnknownLogs
from moldau.storage.log_dirs import LogDirs
from moldau.storage.partition_log import PartitionLog


def logs_to_adopt(
    image: MetadataImage, node_id: int, log_dirs: LogDirs, *, adopt_logs: bool
) -> dict[TopicPartition, PartitionLog]:
    """The logs to take in. Raises `UnknownLogs` when there are others with records in them, unless `adopt_logs`."""
    unknown = {
        key: found
        for key, found in sorted(log_dirs.logs.items())
        if standing_of(image, node_id, key, found.topic_id) is Standing.UNKNOWN
    }
    if adopt_logs:
        return unknown
    lost = {key: found for key, found in unknown.items() if found.home.signed and found.end_offset > 0}
    if lost:
        directory = log_dirs.directories[0].path
        raise UnknownLogs(directory, tuple((str(key), int(found.size_bytes)) for key, found in lost.items()))
    return {key: found for key, found in unknown.items() if not found.home.signed}
