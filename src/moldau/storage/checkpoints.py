"""Kafka's small text files: offset checkpoints, partition.metadata, meta.properties, the clean-shutdown marker.

Reading is forgiving. A checkpoint only saves work: when it is missing or damaged, recovery looks at more of the log.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from moldau.model.ids import NO_TOPIC_ID, TopicPartition
from moldau.ports import Disk

CHECKPOINT_VERSION: Final = "0"
META_VERSION: Final = "1"
MOLDAU: Final = "moldau"


def encode_id(raw: bytes) -> str:
    """A 16-byte id as Kafka prints it: base64url without padding."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decode_id(text: str) -> bytes | None:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        return None
    return raw if len(raw) == 16 else None


def write_unsynced(disk: Disk, path: str, data: bytes) -> None:
    """A small file that is made again when it is lost with the machine: worth no sync."""
    file = disk.open(path, create=True)
    try:
        if file.size_bytes() > 0:
            file.truncate(0)
        file.append(data)
    finally:
        file.close()


# --- offsets by partition ---------------------------------------------------------------------------------------------


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    lines = [CHECKPOINT_VERSION, str(len(offsets))]
    lines += [f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items())]
    return ("\n".join(lines) + "\n").encode()


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    """The offsets, or nothing at all when the file is damaged: half a checkpoint cannot be told from a wrong one."""
    return parse_offsets(data) or {}


def parse_offsets(data: bytes) -> dict[TopicPartition, int] | None:
    """The offsets; None when the file is damaged."""
    lines = data.decode("utf-8", "replace").splitlines()
    if len(lines) < 2 or lines[0].strip() != CHECKPOINT_VERSION:
        return None
    found: dict[TopicPartition, int] = {}
    try:
        count = int(lines[1])
        for line in lines[2:]:
            topic, partition, offset = line.split(" ")
            found[TopicPartition(topic, int(partition))] = int(offset)
    except ValueError:
        return None
    sane = len(found) == count and all(offset >= 0 and tp.partition >= 0 for tp, offset in found.items())
    return found if sane else None


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    try:
        return decode_offsets(disk.read(path))
    except FileNotFoundError:
        return {}


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    disk.replace(path, encode_offsets(offsets))


# --- partition.metadata -----------------------------------------------------------------------------------------------


def encode_partition_metadata(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {encode_id(topic_id)}\n".encode()


def decode_partition_metadata(data: bytes) -> bytes:
    """The topic id; all zero when the file does not say."""
    for line in data.decode("utf-8", "replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "topic_id":
            return decode_id(value.strip()) or NO_TOPIC_ID
    return NO_TOPIC_ID


# --- meta.properties --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """Whose directory this is. Empty or -1 where the file does not say."""

    cluster_id: str = ""
    node_id: int = -1
    directory_id: bytes = NO_TOPIC_ID
    written_by: str = ""
    """`MOLDAU` once moldau's metadata knows everything in the directory; nothing in one that Kafka wrote."""


def encode_meta(meta: MetaProperties) -> bytes:
    signature = f"written.by={meta.written_by}\n" if meta.written_by else ""  # Kafka passes over keys it does not know
    return (
        f"version={META_VERSION}\n"
        f"cluster.id={meta.cluster_id}\n"
        f"node.id={meta.node_id}\n"
        f"directory.id={encode_id(meta.directory_id)}\n"
        f"{signature}"
    ).encode()


def decode_meta(data: bytes) -> MetaProperties:
    pairs: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        key, equals, value = line.strip().partition("=")
        if equals and not key.startswith(("#", "!")):
            pairs[key.strip()] = value.strip().replace("\\=", "=").replace("\\:", ":")
    node = pairs.get("node.id", pairs.get("broker.id", "-1"))
    return MetaProperties(
        cluster_id=pairs.get("cluster.id", ""),
        node_id=int(node) if node.lstrip("-").isdigit() else -1,
        directory_id=decode_id(pairs.get("directory.id", "")) or NO_TOPIC_ID,
        written_by=pairs.get("written.by", ""),
    )


# --- clean shutdown ---------------------------------------------------------------------------------------------------


def encode_clean_shutdown(broker_epoch: int) -> bytes:
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def decode_broker_epoch(data: bytes) -> int:
    """The epoch the broker had when it stopped; -1 when the marker does not say (as before Kafka 4)."""
    try:
        content = json.loads(data)
    except ValueError:
        return -1
    epoch = content.get("brokerEpoch", -1) if isinstance(content, dict) else -1
    return epoch if isinstance(epoch, int) else -1
