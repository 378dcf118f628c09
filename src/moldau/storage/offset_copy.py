"""Our own copy of the offset checkpoints, `moldau.offsets` in every log directory.

Kafka's checkpoints have no checksum and do not say of which topic's life they speak. A start offset with one digit
changed hides records, or deletes them with the next retention pass; a lost one brings deleted records back; one of a
topic that was deleted and made again since is about other records. The copy has a checksum and the topics' ids. It is
written before Kafka's files, which Kafka reads when it serves the directory next.

When we read: a file that differs from the copy while the other one agrees is damaged, and the copy is right. When both
are readable and differ, somebody else served the directory since, and the files are right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from moldau.model.ids import NO_TOPIC_ID, TopicPartition
from moldau.ports import Disk
from moldau.records.checksum import crc32c
from moldau.storage.checkpoints import parse_offsets, write_offsets
from moldau.storage.names import OFFSET_COPY, RECOVERY_CHECKPOINT, START_CHECKPOINT

VERSION: Final = "0"


class LogOffsets(NamedTuple):
    """How far a log is durable, and where it starts."""

    topic_id: bytes
    recovery_point: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class KnownOffsets:
    """What is known of the logs of one directory before they are opened."""

    logs: Mapping[TopicPartition, LogOffsets]
    certain: bool = False
    """Whether a checksum vouches for them; otherwise they come from Kafka's files alone."""
    served_by_others: bool = False
    """Whether somebody else may have written to the logs since we did."""
    problems: list[str] = field(default_factory=list)

    def of(self, tp: TopicPartition, topic_id: bytes) -> LogOffsets:
        """Nothing is known of a log whose topic was another one when the offsets were noted."""
        found = self.logs.get(tp)
        if found is None or (NO_TOPIC_ID not in (topic_id, found.topic_id) and topic_id != found.topic_id):
            return LogOffsets(topic_id, 0, 0)
        return found


def encode_copy(logs: Mapping[TopicPartition, LogOffsets]) -> bytes:
    lines = [f"{tp.topic} {tp.partition} {one.topic_id.hex()} {one[1]} {one[2]}\n" for tp, one in sorted(logs.items())]
    body = "".join(lines).encode()
    return f"{VERSION} {crc32c(body, 0):08x}\n".encode() + body


def decode_copy(data: bytes) -> dict[TopicPartition, LogOffsets] | None:
    """None when the copy is damaged."""
    head, _, body = data.partition(b"\n")
    if head != f"{VERSION} {crc32c(body, 0):08x}".encode():
        return None
    found = {}
    for line in body.decode().splitlines():
        topic, partition, topic_id, recovery_point, start_offset = line.split(" ")
        numbers = LogOffsets(bytes.fromhex(topic_id), int(recovery_point), int(start_offset))
        found[TopicPartition(topic, int(partition))] = numbers
    return found


def write_known(disk: Disk, directory: str, logs: Mapping[TopicPartition, LogOffsets]) -> None:
    """The copy first: whatever the moment of a crash, it is not older than the files."""
    disk.replace(f"{directory}/{OFFSET_COPY}", encode_copy(logs))
    write_offsets(disk, f"{directory}/{RECOVERY_CHECKPOINT}", _recovery_points(logs))
    write_offsets(disk, f"{directory}/{START_CHECKPOINT}", _starts(logs))


def read_known(disk: Disk, directory: str) -> KnownOffsets:
    recovery = _read(disk, f"{directory}/{RECOVERY_CHECKPOINT}")
    starts = _read(disk, f"{directory}/{START_CHECKPOINT}")
    copy = decode_copy(disk.read(f"{directory}/{OFFSET_COPY}")) if disk.exists(f"{directory}/{OFFSET_COPY}") else None
    if copy is None:
        return KnownOffsets(_joined(recovery or {}, starts or {}), served_by_others=True)
    others_wrote = recovery is not None and recovery != _recovery_points(copy)
    starts_agree = starts is not None and starts == _starts(copy)
    if others_wrote and starts is not None and not starts_agree:
        return KnownOffsets(_joined(recovery or {}, starts), served_by_others=True)
    problems = []
    if not starts_agree:
        how = "is missing or damaged" if starts is None else "does not say what was written there"
        problems.append(f"{directory}/{START_CHECKPOINT} {how}; {OFFSET_COPY} has the start offsets, nothing is lost")
    return KnownOffsets(copy, certain=True, served_by_others=others_wrote, problems=problems)


def _read(disk: Disk, path: str) -> dict[TopicPartition, int] | None:
    try:
        return parse_offsets(disk.read(path))
    except FileNotFoundError:
        return None


def _recovery_points(logs: Mapping[TopicPartition, LogOffsets]) -> dict[TopicPartition, int]:
    return {tp: one.recovery_point for tp, one in logs.items()}


def _starts(logs: Mapping[TopicPartition, LogOffsets]) -> dict[TopicPartition, int]:
    """Also where the first segment starts there: removed segments come back if the power fails before the folder is
    synced, and deleted records must not."""
    return {tp: one.start_offset for tp, one in logs.items() if one.start_offset > 0}


def _joined(
    recovery: Mapping[TopicPartition, int], starts: Mapping[TopicPartition, int]
) -> dict[TopicPartition, LogOffsets]:
    known = dict.fromkeys([*recovery, *starts])
    return {tp: LogOffsets(NO_TOPIC_ID, recovery.get(tp, 0), starts.get(tp, 0)) for tp in known}
