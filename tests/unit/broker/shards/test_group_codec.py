from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.broker.shards.group_codec import GroupCodec
from moldau.core.group.records import CommittedOffset, GroupMetadata, GroupStored, OffsetCommitted, StoredMember
from moldau.model.failures import WireError
from moldau.wire.messages.legacy_offset_commit_record import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    encode_legacy_offset_commit_key,
    encode_legacy_offset_commit_value,
)
from moldau.wire.messages.offset_commit_record import (
    OffsetCommitKey,
    OffsetCommitValue,
    decode_offset_commit_key,
    decode_offset_commit_value,
    encode_offset_commit_key,
    encode_offset_commit_value,
)
from moldau.wire.primitives import Reader, Writer

CODEC = GroupCodec()
TOPIC_ID = bytes(range(16))
names = st.text(st.characters(codec="utf-8"), max_size=40)
metadata = st.text(st.characters(codec="utf-8"), max_size=200)
int64 = st.integers(-1, 2**63 - 1)
offsets = st.builds(
    OffsetCommitted,
    names,
    names,
    st.integers(0, 2**31 - 1),
    st.none()
    | st.builds(
        CommittedOffset,
        int64,
        st.integers(-1, 2**31 - 1),
        metadata,
        int64,
        st.just(-1),
        st.sampled_from([bytes(16), TOPIC_ID]),
    ),
)


@settings(max_examples=200, deadline=None)
@given(offsets)
def test_offsets_round_trip(record: OffsetCommitted) -> None:
    assert CODEC.decode(*CODEC.encode(record)) == record


@settings(max_examples=100, deadline=None)
@given(offsets)
def test_offsets_are_what_the_generated_messages_read_and_write(record: OffsetCommitted) -> None:
    key, value = CODEC.encode(record)
    reader = Reader(key)
    assert reader.i16() == 1
    found = decode_offset_commit_key(reader, 0)
    assert found == OffsetCommitKey(group=record.group_id, topic=record.topic, partition=record.partition)
    assert reader.remaining == 0
    if record.value is None:
        assert value is None
        return
    assert value is not None
    reader = Reader(value)
    assert reader.i16() == 4
    message = decode_offset_commit_value(reader, 4)
    assert reader.remaining == 0
    assert message.offset == record.value.offset
    assert message.metadata == record.value.metadata
    assert message.topic_id == record.value.topic_id
    writer = Writer()
    writer.i16(4)
    encode_offset_commit_value(message, writer, 4)
    assert writer.take_bytes() == value


def test_an_offset_with_its_own_retention_is_written_in_version_1() -> None:
    record = OffsetCommitted("g", "t", 3, CommittedOffset(7, 5, "note", 1000, 2000, TOPIC_ID))
    key, value = CODEC.encode(record)
    assert value is not None
    assert value[:2] == b"\x00\x01"
    # Version 1 has neither leader epoch nor topic id: lost, as in Kafka.
    assert CODEC.decode(key, value) == OffsetCommitted("g", "t", 3, CommittedOffset(7, -1, "note", 1000, 2000))


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_offsets_of_every_older_version_are_read(version: int) -> None:
    writer = Writer()
    writer.i16(1)
    encode_offset_commit_key(OffsetCommitKey(group="g", topic="t", partition=1), writer, 0)
    key = writer.take_bytes()
    writer.i16(version)
    value = OffsetCommitValue(offset=9, leader_epoch=4, metadata="m" * 300, commit_timestamp=11, expire_timestamp=12)
    encode_offset_commit_value(value, writer, version)
    expected = CommittedOffset(9, 4 if version >= 3 else -1, "m" * 300, 11, 12 if version == 1 else -1)
    assert CODEC.decode(key, writer.take_bytes()) == OffsetCommitted("g", "t", 1, expected)


def test_offsets_under_the_oldest_key_are_read() -> None:
    writer = Writer()
    writer.i16(0)
    encode_legacy_offset_commit_key(LegacyOffsetCommitKey(group="g", topic="t", partition=1), writer, 0)
    key = writer.take_bytes()
    writer.i16(0)
    encode_legacy_offset_commit_value(LegacyOffsetCommitValue(offset=9, metadata="x", commit_timestamp=11), writer, 0)
    assert CODEC.decode(key, writer.take_bytes()) == OffsetCommitted("g", "t", 1, CommittedOffset(9, -1, "x", 11))


groups = st.builds(
    GroupStored,
    names,
    st.none()
    | st.builds(
        GroupMetadata,
        names,
        st.integers(0, 2**31 - 1),
        st.none() | names,
        st.none() | names,
        int64,
        st.lists(
            st.builds(
                StoredMember,
                names,
                st.none() | names,
                names,
                names,
                st.integers(0, 10**6),
                st.integers(0, 10**6),
                st.binary(max_size=50),
                st.binary(max_size=50),
            ),
            max_size=4,
        ).map(tuple),
    ),
)


@settings(max_examples=100, deadline=None)
@given(groups)
def test_classic_groups_round_trip(record: GroupStored) -> None:
    assert CODEC.decode(*CODEC.encode(record)) == record


@pytest.mark.parametrize("kind", [9, 10, 11, 17, 400])
def test_unknown_kinds_are_left_alone(kind: int) -> None:
    assert CODEC.decode(kind.to_bytes(2, "big") + b"\x00\x01g", b"\x00\x00") is None


def _damaged() -> list[Any]:
    offset = CODEC.encode(OffsetCommitted("group", "topic", 1, CommittedOffset(5, 1, "m", 7, -1, TOPIC_ID)))
    member = StoredMember("m", None, "c", "/h", 1, 2, b"s", b"a")
    group = CODEC.encode(GroupStored("group", GroupMetadata("consumer", 1, "range", "m", 5, (member,))))
    return [pytest.param(*pair, id=name) for name, pair in (("offset", offset), ("group", group))]


@pytest.mark.parametrize(("key", "value"), _damaged())
def test_cut_records_are_bad_bytes_and_nothing_else(key: bytes, value: bytes) -> None:
    for size in range(len(key)):
        _read_or_refuse(key[:size], value)
    for size in range(len(value)):
        _read_or_refuse(key, value[:size])
    with pytest.raises(WireError):
        CODEC.decode(key, b"\x00\x63" + value[2:])
    with pytest.raises(WireError):
        CODEC.decode(b"", value)


def _read_or_refuse(key: bytes, value: bytes) -> None:
    try:
        CODEC.decode(key, value)
    except WireError:
        return
