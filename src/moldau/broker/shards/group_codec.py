"""Kafka's own bytes for what a group shard writes to `__consumer_offsets`, so that Kafka's tools read them and a log
written by Kafka loads here.

A key begins with the number of its kind, a value with its version. Offsets are nearly all there is on such a partition,
and loading time is their decoding time, so they are packed and unpacked by hand; the rest goes through the generated
messages. Kinds this node does not know (share and streams groups) are answered with None: skipped, and left in the log.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from moldau.broker.shards import consumer_codec
from moldau.core.group.records import CommittedOffset, GroupMetadata, GroupStored, OffsetCommitted, StoredMember
from moldau.model.failures import WireError
from moldau.model.ids import NO_TOPIC_ID
from moldau.wire.messages.group_metadata_record import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    decode_group_metadata_key,
    decode_group_metadata_value,
    encode_group_metadata_key,
    encode_group_metadata_value,
)
from moldau.wire.messages.offset_commit_record import decode_offset_commit_value
from moldau.wire.primitives import Reader, Writer

LEGACY_OFFSET: Final = 0
OFFSET: Final = 1
GROUP: Final = 2

OFFSET_VERSION: Final = 4
OFFSET_VERSION_WITH_EXPIRY: Final = 1
OFFSET_VERSIONS: Final = range(5)
GROUP_VERSION: Final = 3
"""The newest that is not flexible, as Kafka writes it."""
GROUP_VERSIONS: Final = range(5)

_TWO_SHORTS: Final = struct.Struct(">hh")
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">hqi")
_LONG: Final = struct.Struct(">q")
_TAGGED_TOPIC_ID: Final = b"\x01\x00\x10"
"""One tagged field: number 0, 16 bytes."""
_SHORT_TEXT_BYTES_MAX: Final = 126


class UnknownRecord(WireError):
    """A kind or version newer than this node."""


class GroupCodec:
    """`runtime.Codec` for group shards."""

    def encode(self, record: Any) -> tuple[bytes, bytes | None]:
        return ENCODE[type(record)](record)

    def decode(self, key: bytes, value: bytes | None) -> Any:
        try:
            kind = _SHORT.unpack_from(key)[0]
            decoder = DECODE.get(kind)
            return None if decoder is None else decoder(key, value)
        except (struct.error, IndexError, UnicodeDecodeError) as problem:
            raise WireError(f"damaged record: {problem}") from problem


# -- offsets ---------------------------------------------------------------------------------------------------------


def encode_offset(record: OffsetCommitted) -> tuple[bytes, bytes | None]:
    group_id, topic, partition, value = record
    group_bytes, topic_bytes = group_id.encode(), topic.encode()
    key = b"".join(
        (
            _TWO_SHORTS.pack(OFFSET, len(group_bytes)),
            group_bytes,
            _SHORT.pack(len(topic_bytes)),
            topic_bytes,
            _INT.pack(partition),
        )
    )
    return key, None if value is None else _encode_offset_value(value)


def _encode_offset_value(value: CommittedOffset) -> bytes:
    offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id = value
    text = metadata.encode()
    if expire_timestamp_ms != -1:
        # Only version 1 has room for it; the leader epoch and topic id are lost, as in Kafka.
        return b"".join(
            (
                _SHORT.pack(OFFSET_VERSION_WITH_EXPIRY),
                _LONG.pack(offset),
                _SHORT.pack(len(text)),
                text,
                _LONG.pack(commit_timestamp_ms),
                _LONG.pack(expire_timestamp_ms),
            )
        )
    size = bytes((len(text) + 1,)) if len(text) <= _SHORT_TEXT_BYTES_MAX else _uvarint(len(text) + 1)
    tail = b"\x00" if topic_id == NO_TOPIC_ID else _TAGGED_TOPIC_ID + topic_id
    return b"".join(
        (_HEAD.pack(OFFSET_VERSION, offset, leader_epoch), size, text, _LONG.pack(commit_timestamp_ms), tail)
    )


def _uvarint(value: int) -> bytes:
    writer = Writer()
    writer.uvarint(value)
    return writer.take_bytes()


def decode_offset(key: bytes, value: bytes | None) -> OffsetCommitted:
    """Kinds 0 and 1 have the same form: the number came from a version that changed nothing."""
    end = 4 + _SHORT.unpack_from(key, 2)[0]
    group_id = key[4:end].decode()
    start = end + 2
    end = start + _SHORT.unpack_from(key, end)[0]
    topic = key[start:end].decode()
    partition = _INT.unpack_from(key, end)[0]
    return OffsetCommitted(group_id, topic, partition, None if value is None else _decode_offset_value(value))


def _decode_offset_value(value: bytes) -> CommittedOffset:
    version, offset, leader_epoch = _HEAD.unpack_from(value)
    if version != OFFSET_VERSION or value[14] > _SHORT_TEXT_BYTES_MAX + 1:
        return _decode_other_offset_value(value, version)
    end = 14 + value[14]
    metadata = value[15:end].decode() if end > 15 else ""
    commit_timestamp_ms = _LONG.unpack_from(value, end)[0]
    end += 8
    if value[end] == 0:
        return CommittedOffset(offset, leader_epoch, metadata, commit_timestamp_ms)
    if value[end : end + 3] == _TAGGED_TOPIC_ID and len(value) == end + 19:
        return CommittedOffset(offset, leader_epoch, metadata, commit_timestamp_ms, -1, value[end + 3 :])
    return _decode_other_offset_value(value, version)


def _decode_other_offset_value(value: bytes, version: int) -> CommittedOffset:
    """What is rare: old versions, long metadata, fields of the future."""
    if version not in OFFSET_VERSIONS:
        raise UnknownRecord(f"offset of version {version}")
    found = decode_offset_commit_value(Reader(value, 2), version)
    return CommittedOffset(
        found.offset,
        found.leader_epoch,
        found.metadata,
        found.commit_timestamp,
        found.expire_timestamp,
        found.topic_id,
    )


# -- classic groups --------------------------------------------------------------------------------------------------


def encode_group(record: GroupStored) -> tuple[bytes, bytes | None]:
    writer = Writer()
    writer.i16(GROUP)
    encode_group_metadata_key(GroupMetadataKey(group=record.group_id), writer, 0)
    key = writer.take_bytes()
    if record.value is None:
        return key, None
    writer.i16(GROUP_VERSION)
    encode_group_metadata_value(_group_message(record.value), writer, GROUP_VERSION)
    return key, writer.take_bytes()


def _group_message(value: GroupMetadata) -> GroupMetadataValue:
    return GroupMetadataValue(
        protocol_type=value.protocol_type,
        generation=value.generation,
        protocol=value.protocol,
        leader=value.leader,
        current_state_timestamp=value.state_timestamp_ms,
        members=[
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in value.members
        ],
    )


def decode_group(key: bytes, value: bytes | None) -> GroupStored:
    group_id = decode_group_metadata_key(Reader(key, 2), 0).group
    if value is None:
        return GroupStored(group_id, None)
    version = _SHORT.unpack_from(value)[0]
    if version not in GROUP_VERSIONS:
        raise UnknownRecord(f"group {group_id} of version {version}")
    found = decode_group_metadata_value(Reader(value, 2), version)
    members = tuple(
        StoredMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout,
            member.session_timeout,
            member.subscription,
            member.assignment,
        )
        for member in found.members
    )
    return GroupStored(
        group_id,
        GroupMetadata(
            found.protocol_type,
            found.generation,
            found.protocol,
            found.leader,
            found.current_state_timestamp,
            members,
        ),
    )


Encoder = Callable[[Any], tuple[bytes, bytes | None]]
Decoder = Callable[[bytes, bytes | None], Any]

ENCODE: Final[Mapping[type, Encoder]] = {
    OffsetCommitted: encode_offset,
    GroupStored: encode_group,
    **consumer_codec.ENCODE,
}
DECODE: Final[Mapping[int, Decoder]] = {
    LEGACY_OFFSET: decode_offset,
    OFFSET: decode_offset,
    GROUP: decode_group,
    **consumer_codec.DECODE,
}
