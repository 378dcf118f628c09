"""Kafka's names for the files and folders of a log directory."""

from __future__ import annotations

from typing import Final

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
TEMPORARY_SUFFIX: Final = ".tmp"

DELETE_DIR_SUFFIX: Final = "-delete"
FUTURE_DIR_SUFFIX: Final = "-future"
STRAY_DIR_SUFFIX: Final = "-stray"
CLUSTER_METADATA_DIR: Final = "__cluster_metadata-0"
"""KRaft's own log: never ours, never touched."""

EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
RECOVERY_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
START_CHECKPOINT: Final = "log-start-offset-checkpoint"
REPLICATION_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
OFFSET_COPY: Final = "moldau.offsets"
SEGMENT_NOTES: Final = "moldau.segments"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOCK: Final = ".lock"

DIR_NAME_CHARACTERS_MAX: Final = 255


def offset_name(offset: int) -> str:
    """Twenty digits, so that names sort by offset."""
    return f"{offset:020d}"


def offset_of(name: str) -> int | None:
    """The offset a file name starts with, or None when it does not look like ours."""
    digits = name.partition(".")[0]
    return int(digits) if len(digits) == 20 and digits.isascii() and digits.isdigit() else None


def partition_dir_name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"


def parse_partition_dir(name: str) -> tuple[str, int] | None:
    """(topic, partition) of a folder like `orders-3`, or None. Folders being deleted or moved are not partitions."""
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not number.isascii() or not number.isdigit():
        return None
    return topic, int(number)


def delete_dir_name(topic: str, partition: int, unique: str) -> str:
    """`<topic>-<partition>.<unique>-delete`, the topic cut so that the whole stays a legal file name."""
    return _marked_dir_name(topic, partition, unique, DELETE_DIR_SUFFIX)


def future_dir_name(topic: str, partition: int, unique: str) -> str:
    return _marked_dir_name(topic, partition, unique, FUTURE_DIR_SUFFIX)


def _marked_dir_name(topic: str, partition: int, unique: str, suffix: str) -> str:
    tail = f"-{partition}.{unique}{suffix}"
    return topic[: DIR_NAME_CHARACTERS_MAX - len(tail)] + tail
