from __future__ import annotations

import pytest

from moldau.core.log.settings import LogSettings
from moldau.model.errors import ErrorCode
from moldau.model.failures import DiskFull
from moldau.model.limits import DECOMPRESSED_BYTES_MAX
from moldau.ports import File
from moldau.records.batch import parse_header
from moldau.records.reader import read_batch
from moldau.runtime.disk import RealDisk
from moldau.storage.partition_log import rules_of

from .support import NOW_MS, append, append_internal, batch, marker, new_log, read_all, sequenced


def test_offsets_follow_each_other_and_the_leader_epoch_is_stamped(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root)
    assert [append(log, batch(count), epoch=5) for count in (1, 3, 2)] == [0, 1, 4]
    headers = [header for _, header in read_all(log)]
    assert [(one.base_offset, one.last_offset, one.partition_leader_epoch) for one in headers] == [
        (0, 0, 5),
        (1, 3, 5),
        (4, 5, 5),
    ]
    assert log.end_offset == 6
    assert log.latest() == (6, 5)


def test_a_large_view_is_stamped_in_place_and_written_at_once(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root)
    append(log, batch())
    buffer = bytearray(batch(30, size=1000))
    append(log, memoryview(buffer), epoch=3)
    assert parse_header(bytes(buffer), 0).base_offset == 1
    buffer[:] = bytes(len(buffer))  # the pool reuses it
    (_, small), (data, large) = read_all(log)
    assert (small.base_offset, large.base_offset, large.partition_leader_epoch) == (0, 1, 3)
    assert [record.value for record in read_batch(data, 0, large)] == [b"v" * 1000] * 30


@pytest.mark.parametrize("kind", [bytes, lambda raw: memoryview(bytearray(raw))])
@pytest.mark.parametrize("size", [20, 40_000])
def test_bytes_and_views_of_any_size_store_the_same(disk: RealDisk, root: str, kind: type, size: int) -> None:
    log = new_log(disk, root)
    for _ in range(3):
        append(log, kind(batch(2, size=size)), epoch=1)
    data, header = read_all(log)[2]
    plain = batch(2, size=size, base_offset=4, leader_epoch=1)
    assert data == plain
    assert header.base_offset == 4


def test_small_batches_wait_for_the_flush_and_are_written_together(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root)
    for _ in range(5):
        append(log, batch())
    path = log.active.path(".log")
    assert disk.size_bytes(path) == 0
    assert log.flush_set.flush_all() == []
    assert log.flush_set.dirty == []
    assert disk.size_bytes(path) == log.size_bytes == 5 * len(batch())


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (b"", ErrorCode.CORRUPT_MESSAGE),
        (batch()[:40], ErrorCode.CORRUPT_MESSAGE),
        (batch()[:-1], ErrorCode.INVALID_RECORD),
        (batch() + batch(), ErrorCode.INVALID_RECORD),
        (batch(base_offset=1), ErrorCode.INVALID_RECORD),
        (batch()[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
        (batch()[:16] + b"\x01" + batch()[17:], ErrorCode.INVALID_RECORD),
        (batch(size=2000), ErrorCode.MESSAGE_TOO_LARGE),
        (marker(aborted=True), ErrorCode.INVALID_RECORD),
    ],
)
def test_bad_batches_are_refused_and_change_nothing(
    disk: RealDisk, root: str, records: bytes, error: ErrorCode
) -> None:
    log = new_log(disk, root, message_bytes_max=1000)
    outcome = log.append_as_leader(records, 0, NOW_MS)
    assert ErrorCode(outcome.error) is error
    assert outcome.detail
    assert log.end_offset == 0
    assert log.size_bytes == 0


def test_a_batch_larger_than_a_segment_is_refused(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, segment_bytes=500)
    outcome = log.append_as_leader(batch(size=600), 0, NOW_MS)
    assert ErrorCode(outcome.error) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_null_keys_on_a_compacted_topic_are_named_one_by_one(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, compact=True)
    outcome = log.append_as_leader(batch([(b"a", b"1"), (None, b"2"), (b"b", b"3"), (None, b"4")]), 0, NOW_MS)
    assert ErrorCode(outcome.error) is ErrorCode.INVALID_RECORD
    assert outcome.record_errors is not None
    assert [index for index, _ in outcome.record_errors] == [1, 3]


def test_timestamps_out_of_bounds_are_refused(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, timestamp_after_max_ms=1000, timestamp_before_max_ms=1000)
    for timestamp in (NOW_MS - 1001, NOW_MS + 1001):
        outcome = log.append_as_leader(batch(timestamp=timestamp), 0, NOW_MS)
        assert ErrorCode(outcome.error) is ErrorCode.INVALID_TIMESTAMP
    append(log, batch(timestamp=NOW_MS - 1000))


def test_log_append_time_replaces_the_producers_time(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root, timestamp_log_append=True)
    outcome = log.append_as_leader(batch(3, timestamp=5), 0, NOW_MS)
    assert outcome.log_append_time_ms == NOW_MS
    data, header = read_all(log)[0]
    assert header.log_append_time
    assert header.max_timestamp == NOW_MS
    assert {record.timestamp for record in read_batch(data, 0, header)} == {NOW_MS}


@pytest.mark.parametrize(("name", "codec"), [("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4), ("uncompressed", 0)])
def test_batches_are_stored_with_the_topics_codec(disk: RealDisk, root: str, name: str, codec: int) -> None:
    log = new_log(disk, root, compression_type=name)
    for source in (0, 1, 4):
        append(log, batch(10, codec=source))
    for data, header in read_all(log):
        assert header.codec == codec
        assert [record.value for record in read_batch(data, 0, header)] == [b"v" * 20] * 10


def test_a_retried_batch_is_answered_with_its_first_offset(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root)
    for sequence in range(6):
        append(log, sequenced(sequence))
    outcome = log.append_as_leader(sequenced(3), 0, NOW_MS)
    assert (outcome.error, outcome.duplicate, outcome.base_offset) == (0, True, 3)
    gap = log.append_as_leader(sequenced(9), 0, NOW_MS)
    assert ErrorCode(gap.error) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, sequenced(0, epoch=1))
    fenced = log.append_as_leader(sequenced(6), 0, NOW_MS)
    assert ErrorCode(fenced.error) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.end_offset == 7


def test_open_and_aborted_transactions_bound_what_is_stable(disk: RealDisk, root: str) -> None:
    log = new_log(disk, root)
    append(log, batch())
    append(log, sequenced(0, 2, transactional=True))
    append(log, sequenced(0, producer_id=8, transactional=True))
    assert log.first_unstable_offset() == 1
    assert log.last_stable_offset(log.end_offset) == 1
    append_internal(log, marker(aborted=True))
    assert log.last_stable_offset(log.end_offset) == 3
    append_internal(log, marker(aborted=False, producer_id=8))
    assert log.last_stable_offset(log.end_offset) == log.end_offset == 6
    aborted = log.aborted_transactions(0, 6)
    assert [(one.producer_id, one.first_offset, one.last_offset) for one in aborted] == [(7, 1, 4)]
    assert log.aborted_transactions(5, 6) == []


def test_a_follower_appends_what_the_leader_stamped(disk: RealDisk, root: str) -> None:
    leader = new_log(disk, f"{root}/l")
    follower = new_log(disk, f"{root}/f")
    append(leader, batch(2), epoch=1)
    append(leader, sequenced(0, 3, transactional=True), epoch=2)
    append_internal(leader, marker(aborted=True), epoch=2)
    data = b"".join(one for one, _ in read_all(leader))
    outcome = follower.append_as_follower(data + batch()[:50])
    assert (outcome.error, outcome.base_offset, outcome.last_offset) == (0, 0, 5)
    assert b"".join(one for one, _ in read_all(follower)) == data
    assert follower.epochs.entries == leader.epochs.entries == [(1, 0), (2, 2)]
    assert len(follower.aborted_transactions(0, 10)) == 1
    again = follower.append_as_follower(data)
    assert ErrorCode(again.error) is ErrorCode.OFFSET_OUT_OF_RANGE
    damaged = bytearray(read_all(leader, start=0)[0][0])
    damaged[0:8] = (99).to_bytes(8, "big")
    damaged[-1] ^= 1
    assert ErrorCode(follower.append_as_follower(damaged).error) is ErrorCode.CORRUPT_MESSAGE


def test_a_failed_write_takes_the_directory_offline_and_fails_the_flush(
    disk: RealDisk, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = new_log(disk, root)
    append(log, batch())

    def full(data: object) -> None:
        raise DiskFull("no space left")

    monkeypatch.setattr(log.active.file(), "append", full)
    assert log.flush_set.flush_all() == [log]
    assert log.home.offline
    assert "no space left" in log.home.reason
    outcome = log.append_as_leader(batch(), 0, NOW_MS)
    assert ErrorCode(outcome.error) is ErrorCode.KAFKA_STORAGE_ERROR
    assert ErrorCode(log.read(0, 1, 100, True).error) is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_folder_removed_by_hand_takes_the_directory_offline(disk: RealDisk, root: str) -> None:
    """The open file would take appends for ever; the next roll notices that they go nowhere."""
    log = new_log(disk, root, segment_bytes=1000)
    append(log, batch(size=800))
    disk.remove_tree(log.path)
    outcome = log.append_as_leader(batch(size=800), 0, NOW_MS)
    assert outcome.error == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.home.offline
    assert "somebody removed it" in log.home.reason


def test_an_abort_that_cannot_be_indexed_takes_the_directory_offline(
    disk: RealDisk, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marker is in the log already. Without its entry, consumers would be shown aborted records after a restart."""
    log = new_log(disk, root)
    append(log, sequenced(0, transactional=True))
    really_open = disk.open

    def full(path: str, *, create: bool = False) -> File:
        if path.endswith(".txnindex"):
            raise DiskFull(f"cannot write {path}: no space left on device")
        return really_open(path, create=create)

    monkeypatch.setattr(disk, "open", full)
    outcome = log.append_as_leader(marker(aborted=True), 0, NOW_MS, False)
    assert outcome.error == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.home.offline


def test_what_a_batch_may_inflate_to_follows_the_topics_message_limit() -> None:
    assert rules_of(LogSettings()).decompressed_bytes_max == 32 << 20
    assert rules_of(LogSettings(message_bytes_max=8 << 20)).decompressed_bytes_max == 128 << 20
    assert rules_of(LogSettings(message_bytes_max=1 << 30)).decompressed_bytes_max == DECOMPRESSED_BYTES_MAX
