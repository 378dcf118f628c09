"""What compaction keeps of batches: records, tombstones, markers, aborted data, producers' last batches."""

from __future__ import annotations

import pytest

from moldau.core.log.cleaning import Cleaning, FilterResult, TransactionTracker, map_batches
from moldau.core.log.index import AbortedTxn
from moldau.core.log.offset_map import OffsetMap
from moldau.core.log.producers import LastRecord
from moldau.records.batch import BatchHeader, batch_crc_ok, iterate_headers
from moldau.records.builder import BatchBuilder, build_end_marker
from moldau.records.reader import Record, read_batch

NOW_MS = 1_000_000
RETENTION_MS = 5_000


def batch(
    offset: int,
    *pairs: tuple[bytes | None, bytes | None],
    producer: int = -1,
    transactional: bool = False,
    codec: int = 0,
) -> bytes:
    builder = BatchBuilder(
        base_offset=offset,
        codec=codec,
        leader_epoch=3,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=offset if producer >= 0 else -1,
        transactional=transactional,
    )
    for index, (key, value) in enumerate(pairs):
        builder.append(key, value, [("h", b"x")], 1000 + offset + index)
    return builder.build()


def marker(offset: int, producer: int, *, aborted: bool, epoch: int = 0) -> bytes:
    return build_end_marker(
        aborted=aborted,
        producer_id=producer,
        producer_epoch=epoch,
        coordinator_epoch=0,
        timestamp=1000 + offset,
        base_offset=offset,
    )


class Log:
    """A log in memory that is cleaned again and again."""

    def __init__(self, *batches: bytes) -> None:
        self.data = b"".join(batches)
        self.aborted: list[AbortedTxn] = []
        self.last_records: dict[int, LastRecord] = {}
        self.map = OffsetMap(1 << 16)

    @property
    def headers(self) -> list[BatchHeader]:
        return [header for _, header in iterate_headers(self.data)]

    @property
    def records(self) -> list[Record]:
        found = []
        for position, header in iterate_headers(self.data):
            assert batch_crc_ok(self.data, header, position)
            found += read_batch(self.data, position, header)
        return found

    @property
    def offsets(self) -> list[int]:
        return [record.offset for record in self.records]

    def clean(self, now_ms: int = NOW_MS, *, start: int = 0, end: int = 10**6) -> FilterResult:
        self.map.clear()
        tracker = TransactionTracker()
        tracker.add_aborted(self.aborted)
        mapped = map_batches(self.data, self.map, tracker, start, end)
        assert mapped.full or mapped.bytes_read <= len(self.data)
        second = TransactionTracker()
        second.add_aborted(self.aborted)
        cleaning = Cleaning(
            self.map, second, self.last_records, now_ms=now_ms, delete_retention_ms=RETENTION_MS, end_offset=end
        )
        result = cleaning.filter_batches(self.data)
        self.data = result.output
        self.aborted = second.take_retained()
        return result


def test_only_the_newest_record_of_each_key_stays_at_its_offset() -> None:
    log = Log(batch(0, (b"a", b"1"), (b"b", b"1"), (b"a", b"2")), batch(3, (b"a", b"3"), (b"c", b"1")))
    result = log.clean()
    assert log.records == [
        Record(1, 1001, b"b", b"1", [("h", b"x")]),
        Record(3, 1003, b"a", b"3", [("h", b"x")]),
        Record(4, 1004, b"c", b"1", [("h", b"x")]),
    ]
    assert (result.records_read, result.records_retained, result.keyless_dropped) == (5, 3, 0)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_a_partly_retained_batch_keeps_range_epoch_codec_and_producer(codec: int) -> None:
    log = Log(
        batch(0, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"), producer=9, codec=codec),
        batch(3, (b"a", b"2"), (b"c", b"2")),
    )
    log.clean()
    header = log.headers[0]
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 2, 1)
    assert (header.codec, header.partition_leader_epoch, header.max_timestamp) == (codec, 3, 1001)
    assert (header.producer_id, header.base_sequence, header.last_sequence) == (9, 0, 2)
    assert log.offsets == [1, 3, 4]


def test_untouched_batches_are_copied_byte_for_byte() -> None:
    whole = batch(0, (b"a", b"1"), (b"b", b"1"), codec=4)
    log = Log(whole, batch(2, (b"c", b"1")))
    before = log.data
    log.clean()
    assert log.data == before


def test_records_beyond_the_map_stay() -> None:
    log = Log(batch(0, (b"a", b"1")), batch(1, (b"a", b"2")), batch(2, (b"a", b"3"), (None, b"no key")))
    log.clean(end=2)
    assert log.offsets == [1, 2, 3]


def test_records_without_key_go() -> None:
    log = Log(batch(0, (None, b"x"), (b"a", b"1")))
    assert log.clean().keyless_dropped == 1
    assert log.offsets == [1]


def test_the_part_before_the_dirty_range_is_cleaned_by_newer_keys() -> None:
    log = Log(batch(0, (b"a", b"1"), (b"b", b"1")), batch(2, (b"a", b"2")))
    log.clean(start=2)
    assert log.offsets == [1, 2]


def test_a_partial_batch_is_left_for_the_next_window() -> None:
    first, second = batch(0, (b"a", b"1")), batch(1, (b"b", b"1"))
    log = Log(first, second[:-3])
    result = log.clean()
    assert result.bytes_read == len(first)
    assert log.offsets == [0]


def test_a_full_map_cleans_up_to_what_it_holds() -> None:
    log = Log(*(batch(offset, (b"k%d" % (offset % 20), b"v")) for offset in range(40)))
    log.map = OffsetMap(24 * 11, load_factor=0.9)
    log.clean()
    # Nine keys fit: records 0..8 are newest as far as the map knows, everything later is untouched.
    assert log.map.latest_offset == 8
    assert log.offsets == list(range(40))


# --- tombstones (KIP-534) ---------------------------------------------------------------------------------------------


def test_a_tombstone_gets_a_horizon_first_and_goes_when_it_passes() -> None:
    log = Log(batch(0, (b"a", b"1"), (b"b", b"1")), batch(2, (b"a", None), (b"c", b"1")), batch(4, (b"z", b"1")))
    log.clean()
    assert log.offsets == [1, 2, 3, 4]
    header = log.headers[1]
    assert header.has_delete_horizon
    assert header.base_timestamp == NOW_MS + RETENTION_MS
    assert [record.timestamp for record in log.records] == [1001, 1002, 1003, 1004]
    log.clean(NOW_MS + RETENTION_MS - 1)
    assert log.offsets == [1, 2, 3, 4]
    assert log.headers[1].base_timestamp == NOW_MS + RETENTION_MS
    log.clean(NOW_MS + RETENTION_MS)
    assert log.offsets == [1, 3, 4]
    assert [record.timestamp for record in log.records] == [1001, 1003, 1004]


def test_an_overwritten_tombstone_goes_at_once() -> None:
    log = Log(batch(0, (b"a", None)), batch(1, (b"a", b"again")))
    log.clean()
    assert log.offsets == [1]


def test_a_horizon_keeps_log_append_time() -> None:
    builder = BatchBuilder(log_append_time_ms=777)
    builder.append(b"a", None, (), 1)
    log = Log(builder.build())
    log.clean()
    header = log.headers[0]
    assert header.has_delete_horizon
    assert header.log_append_time
    assert header.max_timestamp == 777
    assert log.records[0].timestamp == 777


# --- transactions -----------------------------------------------------------------------------------------------------


def test_aborted_data_goes_and_its_marker_follows_in_two_more_rounds() -> None:
    log = Log(
        batch(0, (b"a", b"kept")),
        batch(1, (b"a", b"aborted"), producer=5, transactional=True),
        marker(2, 5, aborted=True),
        batch(3, (b"b", b"1")),
    )
    log.aborted = [AbortedTxn(5, 1, 2, 3)]
    log.clean()
    assert log.offsets == [0, 2, 3]
    assert not log.headers[1].has_delete_horizon
    assert log.aborted == [AbortedTxn(5, 1, 2, 3)]
    log.clean()
    assert log.headers[1].has_delete_horizon
    assert log.aborted == []
    log.clean(NOW_MS + RETENTION_MS)
    assert log.offsets == [0, 3]


def test_aborted_data_does_not_hide_older_values() -> None:
    log = Log(
        batch(0, (b"a", b"kept")), batch(1, (b"a", None), producer=5, transactional=True), marker(2, 5, aborted=True)
    )
    log.aborted = [AbortedTxn(5, 1, 2, 3)]
    log.clean()
    assert log.offsets == [0, 2]


def test_a_commit_marker_stays_while_its_data_does() -> None:
    log = Log(
        batch(0, (b"a", b"1"), producer=5, transactional=True), marker(1, 5, aborted=False), batch(2, (b"z", b""))
    )
    for now_ms in (NOW_MS, NOW_MS + 10**6, NOW_MS + 10**7):
        log.clean(now_ms)
        assert log.offsets == [0, 1, 2]
        assert not log.headers[1].has_delete_horizon


def test_a_commit_marker_goes_after_its_data() -> None:
    log = Log(
        batch(0, (b"a", b"1"), producer=5, transactional=True), marker(1, 5, aborted=False), batch(2, (b"a", b"2"))
    )
    log.clean()
    assert log.offsets == [1, 2]
    log.clean()
    assert log.headers[0].has_delete_horizon
    log.clean(NOW_MS + RETENTION_MS)
    assert log.offsets == [2]


def test_interleaved_transactions_are_told_apart() -> None:
    log = Log(
        batch(0, (b"a", b"1"), producer=1, transactional=True),
        batch(1, (b"b", b"1"), producer=2, transactional=True),
        marker(2, 1, aborted=True),
        batch(3, (b"c", b"1"), producer=1, transactional=True),
        marker(4, 2, aborted=False),
        marker(5, 1, aborted=False),
    )
    log.aborted = [AbortedTxn(1, 0, 2, 1)]
    log.clean()
    assert log.offsets == [1, 2, 3, 4, 5]


def test_naming_an_aborted_transaction_twice_is_harmless() -> None:
    log = Log(
        batch(0, (b"a", b"1"), producer=1, transactional=True),
        marker(1, 1, aborted=True),
        batch(2, (b"a", b"2"), producer=1, transactional=True),
        marker(3, 1, aborted=False),
    )
    log.aborted = [AbortedTxn(1, 0, 1, 2)] * 2
    log.clean()
    assert log.offsets == [1, 2, 3]


def test_other_control_records_stay() -> None:
    leader_change = BatchBuilder(base_offset=0, control=True)
    leader_change.append(b"\x00\x00\x00\x02", b"\x00\x00\x00\x00", (), 5)
    log = Log(leader_change.build(), batch(1, (b"a", b"1")))
    log.clean()
    log.clean(NOW_MS + RETENTION_MS)
    assert log.offsets == [0, 1]


# --- batches that stay empty ------------------------------------------------------------------------------------------


def test_the_last_batch_of_an_active_producer_stays_empty() -> None:
    log = Log(batch(0, (b"a", b"1"), (b"b", b"1"), producer=7), batch(2, (b"a", b"2"), (b"b", b"2")))
    log.last_records = {7: LastRecord(1, 0)}
    log.clean()
    header = log.headers[0]
    assert (header.record_count, header.base_offset, header.last_offset) == (0, 0, 1)
    assert (header.producer_id, header.last_sequence) == (7, 1)
    log.clean()
    assert log.headers[0].record_count == 0
    log.last_records = {}
    log.clean()
    assert [one.base_offset for one in log.headers] == [2]


def test_the_marker_of_a_producer_known_by_it_alone_stays_empty() -> None:
    log = Log(marker(0, 7, aborted=False, epoch=4), batch(1, (b"a", b"1")))
    log.last_records = {7: LastRecord(-1, 4)}
    log.clean()
    log.clean(NOW_MS + RETENTION_MS)
    header = log.headers[0]
    assert (header.is_control, header.record_count, header.producer_epoch) == (True, 0, 4)
    log.clean(NOW_MS + 2 * RETENTION_MS)
    assert len(log.headers) == 2


def test_the_last_batch_of_the_round_stays_empty() -> None:
    log = Log(batch(0, (b"a", b"1")), batch(1, (None, b"no key")))
    log.clean(end=2)
    assert [(one.base_offset, one.record_count) for one in log.headers] == [(0, 1), (1, 0)]


def test_an_empty_log_is_clean() -> None:
    log = Log()
    assert log.clean().bytes_read == 0
    assert log.data == b""
