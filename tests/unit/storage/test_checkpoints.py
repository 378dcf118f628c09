from __future__ import annotations

import pytest

from moldau.model.ids import NO_TOPIC_ID, TopicPartition
from moldau.storage import checkpoints, names

OFFSETS = {TopicPartition("a.b-c", 0): 5, TopicPartition("a.b-c", 11): 0, TopicPartition("z", 3): 2**40}


def test_offset_checkpoints_are_kafkas_text() -> None:
    text = checkpoints.encode_offsets(OFFSETS)
    assert text == b"0\n3\na.b-c 0 5\na.b-c 11 0\nz 3 1099511627776\n"
    assert checkpoints.decode_offsets(text) == OFFSETS


@pytest.mark.parametrize(
    "text",
    [b"", b"0\n", b"1\n0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na 0 x\n", b"0\nx\n", b"\xff", b"0\n1\na 0 -5\n"],
)
def test_damaged_checkpoints_say_nothing(text: bytes) -> None:
    assert checkpoints.decode_offsets(text) == {}


def test_partition_metadata_holds_the_topic_id() -> None:
    topic_id = bytes(range(16))
    text = checkpoints.encode_partition_metadata(topic_id)
    assert text == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"
    assert checkpoints.decode_partition_metadata(text) == topic_id
    assert checkpoints.decode_partition_metadata(b"junk") == NO_TOPIC_ID
    assert checkpoints.decode_partition_metadata(b"topic_id: !!\n") == NO_TOPIC_ID


def test_meta_properties_round_trip_and_read_kafkas() -> None:
    meta = checkpoints.MetaProperties("abc", 3, bytes(range(16)))
    assert checkpoints.decode_meta(checkpoints.encode_meta(meta)) == meta
    kafka = b"#\n#Sun Nov 15 10:00:00 UTC 2026\nnode.id=1\ndirectory.id=AAECAwQFBgcICQoLDA0ODw\n"
    kafka += b"version=1\ncluster.id=x\\=y\n"
    assert checkpoints.decode_meta(kafka) == checkpoints.MetaProperties("x=y", 1, bytes(range(16)))


def test_clean_shutdown_markers_carry_the_broker_epoch() -> None:
    assert checkpoints.decode_broker_epoch(checkpoints.encode_clean_shutdown(42)) == 42
    for text in (b"", b"{}", b"[]", b'{"brokerEpoch":"x"}'):
        assert checkpoints.decode_broker_epoch(text) == -1


def test_folder_names() -> None:
    assert names.parse_partition_dir("a-b-12") == ("a-b", 12)
    for other in ("a", "a-", "-1", "a-b", "t-0.abc-delete", "t-0.abc-future", "a-1x"):
        assert names.parse_partition_dir(other) is None
    long = "x" * 249
    assert len(names.delete_dir_name(long, 123456, "0" * 32)) <= 255
    assert names.delete_dir_name("t", 1, "ff") == "t-1.ff-delete"
    assert names.offset_of("00000000000000000012.log") == 12
    assert names.offset_of("leader-epoch-checkpoint") is None
