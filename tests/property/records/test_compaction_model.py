"""Compaction against a dictionary: whatever is cleaned, however often, a reader from the start ends with the same
table, transactions included, and no offset moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.core.log.cleaning import Cleaning, TransactionTracker, map_batches
from moldau.core.log.index import AbortedTxn
from moldau.core.log.offset_map import SLOT_BYTES, OffsetMap
from moldau.core.log.producer_snapshot import decode_snapshot, encode_snapshot
from moldau.core.log.producers import ProducerTable
from moldau.records.batch import batch_crc_ok, iterate_headers, parse_header
from moldau.records.builder import BatchBuilder, build_end_marker
from moldau.records.reader import Record, read_batch, read_end_marker

RETENTION_MS = 1000


@dataclass
class Log:
    """A log written by a few producers, with its transaction index and producer table."""

    data: bytes = b""
    table: ProducerTable = field(default_factory=ProducerTable)
    aborted: list[AbortedTxn] = field(default_factory=list)
    sequences: dict[int, int] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)

    def write(self, producer: int, pairs: list[tuple[int, int | None]], codec: int, txn: bool) -> None:
        """Producer 0 is plain; the others are idempotent, and transactional when asked or already inside one."""
        txn = producer > 0 and (txn or producer in self.open)
        builder = BatchBuilder(
            base_offset=self.table.end_offset,
            codec=codec,
            producer_id=producer if producer else -1,
            producer_epoch=0 if producer else -1,
            base_sequence=self.sequences.get(producer, 0) if producer else -1,
            transactional=txn,
        )
        for key, value in pairs:
            builder.append(b"key%d" % key, None if value is None else b"%d" % value, (), self.table.end_offset + 5)
        batch = builder.build()
        self.sequences[producer] = self.sequences.get(producer, 0) + len(pairs)
        if txn:
            self.open.add(producer)
        self.table.update(parse_header(batch, 0))
        self.data += batch

    def finish(self, producer: int, aborted: bool) -> None:
        if producer not in self.open:
            return
        self.open.discard(producer)
        offset = self.table.end_offset
        batch = build_end_marker(
            aborted=aborted,
            producer_id=producer,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=offset + 5,
            base_offset=offset,
        )
        done = self.table.complete_transaction(parse_header(batch, 0), 0, aborted)
        assert done is not None
        if aborted:
            self.aborted.append(AbortedTxn(producer, done.first_offset, done.last_offset, done.last_stable_offset))
        self.data += batch

    def clean(self, start: int, now_ms: int, slots: int) -> int:
        """One round up to the first open transaction; answers where the next one starts."""
        undecided = self.table.first_undecided_offset()
        end = self.table.end_offset if undecided < 0 else undecided
        table = OffsetMap(slots * SLOT_BYTES)
        first = TransactionTracker()
        first.add_aborted(self.aborted)
        if not map_batches(self.data, table, first, start, end).full:
            table.latest_offset = end - 1
        second = TransactionTracker()
        second.add_aborted(self.aborted)
        cleaning = Cleaning(
            table,
            second,
            self.table.last_records(),
            now_ms=now_ms,
            delete_retention_ms=RETENTION_MS,
            end_offset=end,
        )
        result = cleaning.filter_batches(self.data)
        assert result.bytes_read == len(self.data)
        self.data = result.output
        self.aborted = second.take_retained()
        return max(start, table.latest_offset + 1)


def committed(log: Log) -> list[Record]:
    """What a read-committed consumer sees: it drops data of aborted transactions by the index, in order."""
    waiting = sorted(log.aborted, key=lambda txn: txn.first_offset)
    aborting: set[int] = set()
    seen: list[Record] = []
    for position, header in iterate_headers(log.data):
        assert batch_crc_ok(log.data, header, position)
        while waiting and waiting[0].first_offset <= header.last_offset:
            aborting.add(waiting.pop(0).producer_id)
        if header.is_control:
            marker = read_end_marker(log.data, position, header)
            if marker is not None and marker.aborted:
                aborting.discard(header.producer_id)
        elif not header.is_transactional or not (
            header.producer_id in aborting or is_open(log, header.producer_id, header.base_offset)
        ):
            seen += read_batch(log.data, position, header)
    return seen


def is_open(log: Log, producer_id: int, offset: int) -> bool:
    return producer_id in log.open and offset >= log.table.producers[producer_id].txn_first_offset


def table_of(records: list[Record]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for record in records:
        assert record.key is not None
        if record.value is None:
            found.pop(record.key, None)
        else:
            found[record.key] = record.value
    return found


pairs = st.lists(st.tuples(st.integers(0, 3), st.one_of(st.none(), st.integers(0, 99))), min_size=1, max_size=4)
codecs = st.sampled_from([0, 0, 0, 1, 4])
steps = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 3), pairs, codecs, st.booleans()),
    st.tuples(st.just("finish"), st.integers(1, 3), st.booleans()),
    st.tuples(st.just("transaction"), st.integers(1, 3), pairs, codecs, st.booleans()),
    st.tuples(st.just("clean"), st.integers(0, 1500), st.sampled_from([4, 100])),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, max_size=25))
def test_a_reader_from_the_start_always_ends_with_the_same_table(actions: list[tuple]) -> None:  # type: ignore[type-arg]
    log, cleaned, now_ms = Log(), 0, 10_000
    for action in [*actions, ("clean", 0, 100), ("clean", 2 * RETENTION_MS, 100), ("clean", 2 * RETENTION_MS, 100)]:
        if action[0] == "write":
            log.write(*action[1:])
        elif action[0] == "finish":
            log.finish(*action[1:])
        elif action[0] == "transaction":
            _, producer, written, codec, aborted = action
            log.write(producer, written, codec, True)
            log.finish(producer, aborted)
        else:
            now_ms += action[1]
            before = committed(log)
            cleaned = log.clean(cleaned, now_ms, action[2])
            after = committed(log)
            assert table_of(after) == table_of(before)
            # Records only disappear: none is changed, moved or invented.
            kept = {record.offset: record for record in before}
            assert all(kept[record.offset] == record for record in after)
            check_offsets(log)
            check_producers(log)


def check_offsets(log: Log) -> None:
    headers = [header for _, header in iterate_headers(log.data)]
    for one, following in pairwise(headers):
        assert one.last_offset < following.base_offset
    if headers:
        assert headers[-1].next_offset == log.table.end_offset


def check_producers(log: Log) -> None:
    """A table rebuilt from the cleaned log knows the same last sequence of every producer."""
    rebuilt = ProducerTable()
    for position, header in iterate_headers(log.data):
        if header.is_control:
            marker = read_end_marker(log.data, position, header)
            if marker is not None:
                rebuilt.complete_transaction(header, marker.coordinator_epoch, marker.aborted)
        else:
            rebuilt.update(header)
    assert sorted(rebuilt.producers) == sorted(log.table.producers)
    for producer_id, state in log.table.producers.items():
        assert rebuilt.producers[producer_id].last_sequence == state.last_sequence
        assert rebuilt.producers[producer_id].last_data_offset == state.last_data_offset
    assert rebuilt.first_undecided_offset() == log.table.first_undecided_offset()
    assert len(decode_snapshot(encode_snapshot(rebuilt))) == len(rebuilt.producers)
