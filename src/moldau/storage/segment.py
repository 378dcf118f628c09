"""One segment of a log: a `.log` file of batches and its sparse indexes. Compiled.

Index entries are made while appending, exactly where Kafka makes them. Lookups do not trust an index that was read from
a file: the batch that an entry points to must have the entry's last offset, otherwise the index is rebuilt from the log
on the spot. A damaged index can therefore make a read slower, never wrong.

Sealed segments open their file and load their indexes when first needed.
"""

from __future__ import annotations

import contextlib
from typing import Final

from mypy_extensions import i64

from moldau.core.log.index import AbortedTxn, decode_txn_entries, encode_txn_entry, txn_index_problem
from moldau.core.log.settings import LogSettings
from moldau.model.failures import CorruptBatch, DiskFailed, DiskHungry
from moldau.ports import Disk, File
from moldau.records.batch import BatchHeader
from moldau.storage.indexes import OffsetIndex, TimeIndex
from moldau.storage.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, offset_name
from moldau.storage.scan import SCAN_WINDOW_BYTES, WALK_WINDOW_BYTES, BatchScanner

RELATIVE_OFFSET_MAX: Final = 2**31 - 1
HINTS_MAX: Final = 64
UNKNOWN: Final = -1


class Segment:
    """Batches from `base_offset` up to `next_offset` (exclusive)."""

    def __init__(self, disk: Disk, directory: str, base_offset: i64, interval_bytes: i64, suffix: str = "") -> None:
        self.disk = disk
        self.directory = directory
        self.suffix = suffix
        self.interval_bytes: i64 = interval_bytes
        self.base_offset: i64 = base_offset
        self.next_offset: i64 = base_offset
        self.size_bytes: i64 = 0
        self.sealed = False
        self.created_ms: i64 = 0
        self.jitter_ms: i64 = 0
        """How much earlier than `segment.ms` this segment rolls, so that not all partitions roll at once."""
        self.first_timestamp: i64 = UNKNOWN
        """Max timestamp of the first batch; -1 while unknown. Age for rolling counts from here, as in Kafka."""
        self.max_known = True
        """Whether `max_timestamp` stands for the whole segment; a segment on disk first has to load its time index."""
        self.max_timestamp: i64 = UNKNOWN
        self.offset_of_max_timestamp: i64 = base_offset
        self.bytes_since_entry: i64 = 0
        self.offsets = OffsetIndex()
        self.times = TimeIndex()
        self.indexed = True
        """Whether `offsets` and `times` hold this segment's entries; sealed segments load them when needed."""
        self.doubted = False
        """Whether the entries come from a file, so that each must be compared with the batch it points to."""
        self.aborted: list[AbortedTxn] | None = []
        self.hints: dict[int, int] = {}
        """Offset where a reader stopped -> position: sequential consumers come back exactly there."""
        self._file: File | None = None
        self.late_aborted: list[AbortedTxn] = []
        """Entries that the file lacks yet: there was no descriptor for it."""

    # --- files -------------------------------------------------------------------------------------------------------

    def path(self, kind: str) -> str:
        return f"{self.directory}/{offset_name(self.base_offset)}{kind}{self.suffix}"

    def file(self) -> File:
        file = self._file
        if file is None:
            try:
                file = self.disk.open(self.path(LOG_SUFFIX))
            except FileNotFoundError:
                raise DiskFailed(f"{self.path(LOG_SUFFIX)} is gone; somebody removed it") from None
            self._file = file
        return file

    def create(self, now_ms: i64) -> None:
        """Make the empty `.log` file (leftovers of the same name are emptied)."""
        file = self.disk.open(self.path(LOG_SUFFIX), create=True)
        if file.size_bytes() > 0:
            file.truncate(0)
        self._file = file
        self.created_ms = now_ms

    def create_index_files(self) -> None:
        """Empty: entries stay in memory until the segment is sealed. Kafka's tools want the files from the start."""
        self.write_small(INDEX_SUFFIX, b"")
        self.write_small(TIME_INDEX_SUFFIX, b"")

    def open_existing(self) -> None:
        self.size_bytes = self.disk.size_bytes(self.path(LOG_SUFFIX))
        self.indexed = False
        self.max_known = False
        self.aborted = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def renamed(self) -> None:
        """The directory or the suffix changed, and the names of the files with it: they are opened by them again."""
        file = self._file
        if file is not None:
            file.path = self.path(LOG_SUFFIX)

    def discard(self) -> None:
        """Take back what `create` made, as far as it came."""
        self.close()
        for kind in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            if self.disk.exists(self.path(kind)):
                self.disk.remove(self.path(kind))

    # --- appending ---------------------------------------------------------------------------------------------------

    def note_batch(self, header: BatchHeader) -> None:
        """Account for a batch that goes to the end of the file; offsets in `header` are the stamped ones."""
        last_offset: i64 = header.last_offset
        timestamp: i64 = header.max_timestamp
        if self.size_bytes == 0:
            self.first_timestamp = timestamp
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
            self.offset_of_max_timestamp = last_offset
        if self.bytes_since_entry > self.interval_bytes:
            self.offsets.append(last_offset - self.base_offset, self.size_bytes)
            self.times.append(self.max_timestamp, self.offset_of_max_timestamp - self.base_offset)
            self.bytes_since_entry = 0
        self.size_bytes += header.size_bytes
        self.bytes_since_entry += header.size_bytes
        self.next_offset = last_offset + 1

    def should_roll(self, settings: LogSettings, size_bytes: i64, last_offset: i64, timestamp: i64, now_ms: i64) -> str:
        """Kafka's rule: too large, too old, an index full, or an offset too far from the base. Why, or nothing."""
        if self.size_bytes > settings.segment_bytes - size_bytes:
            return "segment.bytes"
        if last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return "the offset is too far from its base"
        if self.size_bytes == 0:
            return ""
        age_max_ms: i64 = settings.segment_ms
        if settings.compact and settings.compaction_lag_max_ms < age_max_ms:
            age_max_ms = settings.compaction_lag_max_ms  # KIP-354: the active segment is never compacted
        if self.waited_ms(timestamp, now_ms) > age_max_ms - self.jitter_ms:
            return "segment.ms"
        return "segment.index.bytes" if self.index_full(settings.index_bytes_max) else ""

    def waited_ms(self, timestamp: i64, now_ms: i64) -> i64:
        if self.first_timestamp >= 0:
            return timestamp - self.first_timestamp
        return now_ms - self.created_ms

    def index_full(self, index_bytes_max: i64) -> bool:
        return self.offsets.count >= index_bytes_max // 8 or self.times.count >= index_bytes_max // 12 - 1

    # --- looking up --------------------------------------------------------------------------------------------------

    def position_for(self, offset: i64) -> i64:
        """Where the first batch that ends at or after `offset` starts; `size_bytes` when there is none."""
        if offset <= self.base_offset:
            return 0
        if offset >= self.next_offset:
            return self.size_bytes
        hint = self.hints.get(offset)
        if hint is not None:
            return hint
        scanner = BatchScanner(self.file(), self.start_for(offset), self.size_bytes)
        while True:
            header = scanner.next()
            if header is None:
                self.check_walk(scanner)
                return self.size_bytes
            if header.last_offset >= offset:
                self.remember(offset, scanner.position)
                return scanner.position

    def start_for(self, offset: i64) -> i64:
        """A position at or before the batch of `offset`, from the index."""
        self.load_indexes()
        entry: i64 = self.offsets.floor(offset - self.base_offset)
        if entry < 0:
            return 0
        position: i64 = self.offsets.position_of(entry)
        if self.entry_is_true(entry, position):
            return position
        self.rebuild_indexes()
        entry = self.offsets.floor(offset - self.base_offset)
        return self.offsets.position_of(entry) if entry >= 0 else 0

    def entry_is_true(self, entry: i64, position: i64) -> bool:
        """Entries made by this process are; those from a file must point at the batch they name."""
        if not self.doubted:
            return True
        header = BatchScanner(self.file(), position, self.size_bytes, window_bytes=64).next()
        return header is not None and header.last_offset == self.base_offset + self.offsets.relative_of(entry)

    def cut_before(self, start: i64, limit: i64) -> i64:
        """The last batch boundary in [start, limit], where `start` is one. Walks no further than an index interval."""
        if limit >= self.size_bytes:
            return self.size_bytes
        scanner = BatchScanner(self.file(), self.boundary_between(start, limit), self.size_bytes)
        while True:
            header = scanner.next()
            if header is None:
                self.check_walk(scanner)
                return scanner.next_position
            if scanner.next_position > limit:
                self.remember(header.base_offset, scanner.position)
                return scanner.position
            if scanner.next_position == limit:
                self.remember(header.next_offset, limit)
                return limit

    def next_offset_at(self, start: i64, end: i64) -> i64:
        """The offset behind the last batch before `end`, where `start` and `end` are boundaries with some between."""
        if end >= self.size_bytes:
            return self.next_offset
        scanner = BatchScanner(self.file(), self.boundary_between(start, end - 1), end)
        found: i64 = -1
        while True:
            header = scanner.next()
            if header is None:
                self.check_walk(scanner)
                return found
            found = header.next_offset

    def boundary_between(self, start: i64, limit: i64) -> i64:
        """The boundary nearest below `limit` that the index knows, or `start` when there is none behind it."""
        self.load_indexes()
        entry: i64 = self.offsets.floor_position(limit)
        if entry >= 0:
            indexed: i64 = self.offsets.position_of(entry)
            if indexed > start and self.entry_is_true(entry, indexed):
                return indexed
        return start

    def remember(self, offset: i64, position: i64) -> None:
        if len(self.hints) >= HINTS_MAX:
            self.hints.clear()
        self.hints[offset] = position

    def batch_end(self, position: i64) -> i64:
        """Where the batch at `position` ends."""
        scanner = BatchScanner(self.file(), position, self.size_bytes, window_bytes=64)
        header = scanner.next()
        if header is None:
            self.check_walk(scanner)
            return position
        self.remember(header.next_offset, scanner.next_position)
        return scanner.next_position

    def check_walk(self, scanner: BatchScanner) -> None:
        if scanner.problem is not None:
            raise CorruptBatch(f"{self.path(LOG_SUFFIX)} is damaged: {scanner.problem}")

    def scanner(self, position: i64, *, large: bool = False) -> BatchScanner:
        window: i64 = SCAN_WINDOW_BYTES if large else WALK_WINDOW_BYTES
        return BatchScanner(self.file(), position, self.size_bytes, window_bytes=window)

    # --- indexes -----------------------------------------------------------------------------------------------------

    def load_indexes(self) -> None:
        if self.indexed:
            return
        relative_end: i64 = self.next_offset - self.base_offset
        try:
            problem = self.offsets.load(self.disk.read(self.path(INDEX_SUFFIX)), self.size_bytes)
            if problem is None:
                problem = self.times.load(self.disk.read(self.path(TIME_INDEX_SUFFIX)), relative_end)
        except FileNotFoundError:
            problem = "missing"
        if problem is not None or self.size_bytes == 0:
            self.rebuild_indexes()
            return
        self.indexed = True
        self.max_known = True
        self.doubted = True
        self.max_timestamp = self.times.last_timestamp
        self.offset_of_max_timestamp = self.base_offset + self.times.last_relative
        if not self.last_time_entry_is_true():
            self.rebuild_indexes()

    def last_time_entry_is_true(self) -> bool:
        """The largest timestamp decides retention and where time lookups begin: it must name a batch that has it."""
        if self.times.count == 0:
            return False
        return self.timestamp_of_batch(self.offset_of_max_timestamp) == self.max_timestamp

    def timestamp_of_batch(self, last_offset: i64) -> i64:
        """Max timestamp of the batch that ends exactly at `last_offset`; -1 when there is none."""
        header = self.scanner(self.position_for(last_offset)).next()
        if header is None or header.last_offset != last_offset:
            return UNKNOWN
        return header.max_timestamp

    def rebuild_indexes(self) -> None:
        """Make both indexes again from the batch headers, up to where they can be read."""
        end: i64 = self.size_bytes
        next_offset: i64 = self.next_offset
        scanner = BatchScanner(self.file(), 0, end, window_bytes=SCAN_WINDOW_BYTES)
        self.begin_rebuild()
        try:
            while True:
                header = scanner.next()
                if header is None or self.is_misplaced(header, next_offset):
                    break
                self.note_batch(header)
        except DiskFailed:
            self.next_offset = next_offset
            self.indexed = False
            raise
        finally:
            self.size_bytes = end
        if self.sealed:
            self.next_offset = next_offset
        self.finish_rebuild()

    def is_misplaced(self, header: BatchHeader, next_offset: i64) -> bool:
        """Offsets lie outside the checksum: a rotten bit may have moved a batch out of its segment."""
        if header.base_offset < self.base_offset or header.last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
            return True
        return self.sealed and header.last_offset >= next_offset

    def begin_rebuild(self) -> None:
        self.offsets = OffsetIndex()
        self.times = TimeIndex()
        self.doubted = False
        self.hints.clear()
        self.size_bytes = 0
        self.max_timestamp = UNKNOWN
        self.offset_of_max_timestamp = self.base_offset
        self.bytes_since_entry = 0

    def finish_rebuild(self) -> None:
        self.indexed = True
        self.max_known = True
        if self.sealed:
            self.write_indexes()

    def drop_indexes(self) -> None:
        """Free the memory of a sealed segment's indexes; they load again when needed."""
        if self.sealed and self.indexed:
            self.offsets = OffsetIndex()
            self.times = TimeIndex()
            self.indexed = False

    def write_indexes(self) -> None:
        """Write the index files, ending with the largest timestamp as Kafka does when a segment becomes inactive."""
        self.write_late_aborted()
        self.times.append(self.max_timestamp, self.offset_of_max_timestamp - self.base_offset)
        self.write_small(INDEX_SUFFIX, self.offsets.encode())
        self.write_small(TIME_INDEX_SUFFIX, self.times.encode())

    def write_small(self, kind: str, data: bytes) -> None:
        file = self.disk.open(self.path(kind), create=True)
        try:
            if file.size_bytes() > 0:
                file.truncate(0)
            if data:
                file.append(data)
        finally:
            file.close()

    def seal(self) -> None:
        """No more appends: write the indexes."""
        if self.indexed:
            self.write_indexes()
        self.sealed = True

    def largest_timestamp(self) -> i64:
        """The largest timestamp of a batch; when no batch has one, when the file was last written."""
        self.know_max()
        if self.max_timestamp >= 0:
            return self.max_timestamp
        return self.disk.modified_ms(self.path(LOG_SUFFIX))

    def know_max(self) -> None:
        """Make `max_timestamp` stand for the whole segment, without keeping a sealed one's indexes in memory."""
        if not self.max_known:
            self.load_indexes()
            self.drop_indexes()

    def load_first_timestamp(self) -> None:
        if self.size_bytes > 0 and self.first_timestamp < 0:
            header = self.scanner(0).next()
            if header is not None:
                self.first_timestamp = header.max_timestamp

    # --- aborted transactions ----------------------------------------------------------------------------------------

    def add_aborted(self, txn: AbortedTxn) -> None:
        """Written at once: entries are few, and a lost one would show aborted records. Where there is no descriptor for
        it, before the next sync is done: until then the marker in the log is read again after a crash."""
        known = self.aborted
        if known is not None:
            known.append(txn)
        self.late_aborted.append(txn)
        with contextlib.suppress(DiskHungry):
            self.write_late_aborted()

    def write_late_aborted(self) -> None:
        if not self.late_aborted:
            return
        file = self.disk.open(self.path(TXN_INDEX_SUFFIX), create=True)
        try:
            file.append(b"".join([encode_txn_entry(txn) for txn in self.late_aborted]))
        finally:
            file.close()
        self.late_aborted.clear()

    def aborted_transactions(self) -> list[AbortedTxn]:
        """This segment's entries, as its file has them; `log_aborted` checks them first."""
        known = self.aborted
        if known is None:
            known = self.read_aborted()
            self.aborted = known
        return known

    def read_aborted(self) -> list[AbortedTxn]:
        try:
            data = self.disk.read(self.path(TXN_INDEX_SUFFIX))
        except FileNotFoundError:
            return list(self.late_aborted)
        problem = txn_index_problem(data, self.base_offset)
        if problem is not None:
            raise ValueError(problem)
        return decode_txn_entries(data) + self.late_aborted

    def set_aborted(self, txns: list[AbortedTxn]) -> None:
        self.aborted = txns
        self.late_aborted.clear()
        if txns or self.disk.exists(self.path(TXN_INDEX_SUFFIX)):
            self.write_small(TXN_INDEX_SUFFIX, b"".join([encode_txn_entry(txn) for txn in txns]))

    # --- truncating --------------------------------------------------------------------------------------------------

    def truncate(self, position: i64, next_offset: i64) -> None:
        """Cut at a batch boundary. The segment becomes (or stays) appendable."""
        self.load_indexes()
        self.hints.clear()
        self.file().truncate(position)
        self.size_bytes = position
        self.next_offset = next_offset
        self.offsets.truncate(position)
        self.times.truncate(next_offset - self.base_offset)
        self.max_timestamp = self.times.last_timestamp
        self.offset_of_max_timestamp = self.base_offset + self.times.last_relative
        self.sealed = False
        self.set_aborted([txn for txn in self.aborted_transactions() if txn.last_offset < next_offset])
        self.rescan_tail()

    def rescan_tail(self) -> None:
        """What lies after the last index entry is known only to the batches themselves."""
        last: i64 = self.offsets.count - 1
        start: i64 = self.offsets.position_of(last) if last >= 0 else 0
        scanner = self.scanner(start)
        while True:
            header = scanner.next()
            if header is None:
                break
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.offset_of_max_timestamp = header.last_offset
        self.bytes_since_entry = self.size_bytes - start
        if self.size_bytes == 0:
            self.first_timestamp = UNKNOWN
        else:
            self.load_first_timestamp()
