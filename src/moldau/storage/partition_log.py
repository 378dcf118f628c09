"""One partition's log, as other rooms see it. Compiled.

An append has no `await` between deciding and applying, so the event loop is the lock. It reaches the page cache at the
end of the loop tick (`FlushSet`) and the platter after `sync`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from moldau.core.log.index import AbortedTxn
from moldau.core.log.settings import LogSettings
from moldau.model.errors import ErrorCode
from moldau.model.failures import CorruptBatch, DiskFailed, UnsupportedCodec
from moldau.model.limits import DECOMPRESSED_BYTES_MAX
from moldau.ports import Buffer, Chance, Disk
from moldau.records.batch import HEADER_BYTES, BatchHeader, InvalidBatch, batch_crc_ok, parse_header
from moldau.records.compression import codec_named
from moldau.records.gradual import GradualCheck
from moldau.records.reader import EndMarker, read_end_marker
from moldau.records.validate import TAKES_LONG, ValidationRules, settle_timestamps, validate_batch
from moldau.storage import log_aborted, log_read, log_time, log_trim
from moldau.storage.directory import LogDirectory
from moldau.storage.flush_set import FlushSet
from moldau.storage.log_read import LogSlice
from moldau.storage.log_state import LogState
from moldau.storage.outcome import LATER, AppendOutcome, refused
from moldau.storage.recompress import recompress

_CORRUPT_MESSAGE: Final = int(ErrorCode.CORRUPT_MESSAGE)
_INVALID_RECORD: Final = int(ErrorCode.INVALID_RECORD)
_MESSAGE_TOO_LARGE: Final = int(ErrorCode.MESSAGE_TOO_LARGE)
_RECORD_LIST_TOO_LARGE: Final = int(ErrorCode.RECORD_LIST_TOO_LARGE)
_STORAGE_ERROR: Final = int(ErrorCode.KAFKA_STORAGE_ERROR)
_OFFSET_OUT_OF_RANGE: Final = int(ErrorCode.OFFSET_OUT_OF_RANGE)
KEEP_CODEC: Final = -1
LONG_PLAIN_BYTES: Final = 2 * 1024 * 1024
LONG_PACKED_BYTES: Final = 128 * 1024
LONG_INFLATED_BYTES: Final = 512 * 1024
LONG_REPACKED_BYTES: Final = 32 * 1024
FIRST_PACKED_BYTES: Final = 4 * 1024
"""Beyond these a batch takes more than a millisecond or two to check (or to compress anew), and is checked in steps."""

INFLATED_BYTES_FLOOR: Final = 32 * 1024 * 1024
INFLATED_PER_MESSAGE_BYTE: Final = 16


class PartitionLog(LogState):
    """See `LogState` for the attributes."""

    def __init__(
        self,
        disk: Disk,
        home: LogDirectory,
        path: str,
        topic: str,
        partition: int,
        topic_id: bytes,
        settings: LogSettings,
        chance: Chance,
        flush_set: FlushSet,
    ) -> None:
        super().__init__(disk, home, path, topic, partition, topic_id, settings, chance, flush_set)
        self.rules = rules_of(settings)
        self.target_codec: i64 = target_codec_of(settings)

    def update_settings(self, settings: LogSettings) -> None:
        self.settings = settings
        self.rules = rules_of(settings)
        self.target_codec = target_codec_of(settings)
        for segment in self.segments:
            segment.interval_bytes = settings.index_interval_bytes

    # --- appending ---------------------------------------------------------------------------------------------------

    def append_as_leader(
        self,
        records: bytes | memoryview,
        leader_epoch: i64,
        now_ms: i64,
        origin_is_client: bool = True,
        transaction_version: i64 = 0,
        may_wait: bool = False,
        checked: GradualCheck | None = None,
    ) -> AppendOutcome:
        """Check one batch, give it the next offsets and this leader's epoch, and append it.

        A writable view is stamped in place, so its owner must not reuse it before the tick's flush if it is small, and
        may at once if it is large (16 KiB and more are written before this returns). With `may_wait` the outcome is
        `LATER` where checking would hold the loop for long: come again with what `begin_check` gave, checked.
        """
        if self.offline:
            return refused(_STORAGE_ERROR, f"log directory {self.directory} is offline: {self.home.reason}")
        if checked is not None and checked.rules is self.rules:
            records = checked.records
            header = checked.header
            outcome = self.checked_problem(checked)
        else:
            size: i64 = i64(len(records))
            try:
                header = parse_header(records if isinstance(records, bytes) else bytes(records[:HEADER_BYTES]), 0)
            except InvalidBatch as not_a_batch:
                return refused(_INVALID_RECORD, str(not_a_batch))
            except CorruptBatch as damage:
                return refused(_CORRUPT_MESSAGE, str(damage))
            outcome = self.batch_problem(records, header, size, origin_is_client, may_wait)
            if outcome is None:
                outcome = self.content_problem(records, header, now_ms, origin_is_client, may_wait)
        if outcome is not None:
            return outcome
        if self.is_recompressed(header):
            records = recompress(records, header, self.target_codec)
            if header.size_bytes > self.settings.message_bytes_max:
                return self.too_large(header.size_bytes)
        marker: EndMarker | None = None
        if header.is_control:
            marker = read_end_marker(bytes(records), 0, header)
            if marker is not None:
                verdict = self.producers.check_marker(header, marker.coordinator_epoch, transaction_version)
                if not verdict.ok:
                    return refused(verdict.error, verdict.detail, self.start_offset)
        elif header.producer_id >= 0:
            verdict = self.producers.check(header, now_ms, origin_is_client)
            if verdict.duplicate:
                return AppendOutcome(
                    0, verdict.base_offset, verdict.last_offset, self.append_time(verdict.timestamp),
                    self.start_offset, True, "", None,
                )  # fmt: skip
            if verdict.error != 0:
                return refused(verdict.error, verdict.detail, self.start_offset)
        records = settle_timestamps(records, header, self.rules, now_ms)
        header.base_offset = self.end_offset
        header.partition_leader_epoch = leader_epoch
        try:
            if leader_epoch > self.latest_epoch:
                self.assign_epoch(leader_epoch, header.base_offset)
            self.write_stamped(records, header, now_ms)
            self.note_producer(header, marker)
        except DiskFailed as error:
            return self.failed(error)
        return AppendOutcome(
            0, header.base_offset, header.last_offset, self.append_time(now_ms), self.start_offset, False, "", None
        )

    def failed(self, error: DiskFailed) -> AppendOutcome:
        """Whatever step failed, the batch may lie half in the log or in its indexes: only recovery knows better. Where
        nothing but a descriptor was missing, it does not, and the producer may send it again."""
        self.home.failed(error)
        return refused(_STORAGE_ERROR, str(error))

    def append_time(self, timestamp: i64) -> i64:
        return timestamp if self.rules.log_append_time else -1

    def batch_problem(
        self, records: bytes | memoryview, header: BatchHeader, size: i64, origin_is_client: bool, may_wait: bool
    ) -> AppendOutcome | None:
        """One whole batch, not too large, undamaged; in Kafka's order of checks."""
        if header.size_bytes < size:
            return refused(_INVALID_RECORD, "a produce request must hold exactly one record batch per partition")
        if header.size_bytes > size:
            return refused(_INVALID_RECORD, f"the batch announces {header.size_bytes} bytes, {size} arrived")
        if origin_is_client and header.base_offset != 0:
            return refused(_INVALID_RECORD, f"the base offset of a produced batch must be 0, not {header.base_offset}")
        too_large = self.size_problem(size)
        if too_large is not None:
            return too_large
        if may_wait and self.takes_long(header):
            return LATER
        if not batch_crc_ok(records, header):
            return refused(_CORRUPT_MESSAGE, f"the batch fails its checksum (stored {header.crc:#010x})")
        return None

    def size_problem(self, size: i64) -> AppendOutcome | None:
        if size > self.settings.message_bytes_max:
            return self.too_large(size)
        if size > self.settings.segment_bytes:
            return refused(
                _RECORD_LIST_TOO_LARGE,
                f"the batch of {size} bytes is larger than segment.bytes ({self.settings.segment_bytes})",
            )
        return None

    def content_problem(
        self, records: bytes | memoryview, header: BatchHeader, now_ms: i64, origin_is_client: bool, may_wait: bool
    ) -> AppendOutcome | None:
        inflated_bytes_max: i64 = LONG_INFLATED_BYTES if may_wait else DECOMPRESSED_BYTES_MAX
        invalid = validate_batch(records, header, self.rules, now_ms, origin_is_client, inflated_bytes_max)
        if invalid is None:
            return None
        if invalid is TAKES_LONG:
            return LATER
        return refused(invalid.error, invalid.detail, self.start_offset, invalid.record_errors)

    # Large batches are checked before they are appended, in steps between which others have their turn.

    def takes_long(self, header: BatchHeader) -> bool:
        if header.codec != 0:
            return header.size_bytes > LONG_PACKED_BYTES or self.takes_long_to_repack(header)
        return header.size_bytes > LONG_PLAIN_BYTES or self.takes_long_to_repack(header)

    def is_checked_first(self, records: bytes | memoryview) -> bool:
        """Whether a batch that will have to be appended at somebody's word had better be checked before."""
        size: i64 = i64(len(records))
        if size <= FIRST_PACKED_BYTES:
            return False
        try:
            header = parse_header(bytes(records[:HEADER_BYTES]), 0)
        except CorruptBatch:
            return False
        if header.size_bytes != size or header.base_offset != 0 or self.size_problem(size) is not None:
            return False
        return header.codec != 0 or self.takes_long(header)

    def takes_long_to_repack(self, header: BatchHeader) -> bool:
        return self.is_recompressed(header) and header.size_bytes > LONG_REPACKED_BYTES

    def is_recompressed(self, header: BatchHeader) -> bool:
        return self.target_codec != KEEP_CODEC and header.codec != self.target_codec and not header.is_control

    def begin_check(self, records: bytes | memoryview, now_ms: i64) -> GradualCheck:
        """For a batch that was answered with `LATER`; `records` must stay as they are until it is appended."""
        header = parse_header(bytes(records[:HEADER_BYTES]), 0)
        return GradualCheck(records, header, self.rules, now_ms)

    def recompress_checked(self, checked: GradualCheck) -> None:
        """For a thread, after the check: store it as the topic asks."""
        checked.records = recompress(checked.records, checked.header, self.target_codec)

    def checked_problem(self, checked: GradualCheck) -> AppendOutcome | None:
        invalid = checked.problem
        if invalid is not None:
            return refused(invalid.error, invalid.detail, self.start_offset, invalid.record_errors)
        return self.size_problem(checked.header.size_bytes)

    def too_large(self, size: i64) -> AppendOutcome:
        return refused(
            _MESSAGE_TOO_LARGE,
            f"the batch of {size} bytes is larger than max.message.bytes ({self.settings.message_bytes_max})",
        )

    def append_as_follower(self, records: Buffer, now_ms: i64 = -1) -> AppendOutcome:
        """Append batches that a leader stamped. A cut last batch is left out; a damaged one stops the append."""
        if self.offline:
            return refused(_STORAGE_ERROR, f"log directory {self.directory} is offline: {self.home.reason}")
        data = bytes(records)
        first: i64 = self.end_offset
        position: i64 = 0
        while i64(len(data)) - position >= HEADER_BYTES:
            try:
                header = parse_header(data, position)
            except CorruptBatch as error:
                return refused(_CORRUPT_MESSAGE, str(error))
            if position + header.size_bytes > i64(len(data)):
                break
            problem = self.append_replicated(data, position, header, now_ms)
            if problem is not None:
                return problem
            position += header.size_bytes
        return AppendOutcome(0, first, self.end_offset - 1, -1, self.start_offset, False, "", None)

    def append_replicated(self, data: bytes, position: i64, header: BatchHeader, now_ms: i64) -> AppendOutcome | None:
        if not batch_crc_ok(data, header, position):
            return refused(_CORRUPT_MESSAGE, f"the replicated batch at offset {header.base_offset} fails its checksum")
        if header.base_offset < self.end_offset:
            return refused(
                _OFFSET_OUT_OF_RANGE, f"replicated offset {header.base_offset} is below the end {self.end_offset}"
            )
        if now_ms < 0:
            now_ms = header.max_timestamp
        try:
            if header.partition_leader_epoch > self.latest_epoch:
                self.assign_epoch(header.partition_leader_epoch, header.base_offset)
            batch = data[position : position + header.size_bytes]
            why = self.active.should_roll(
                self.settings, header.size_bytes, header.last_offset, header.max_timestamp, now_ms
            )
            if why:
                self.roll_at(header.base_offset, now_ms, why)
            self.write_unstamped(batch)
            self.note_appended(header, now_ms)
            self.note_producer(header, read_end_marker(batch, 0, header) if header.is_control else None)
        except DiskFailed as error:
            return self.failed(error)
        return None

    def note_producer(self, header: BatchHeader, marker: EndMarker | None) -> None:
        if marker is None:
            self.producers.update(header)
            return
        completed = self.producers.complete_transaction(header, marker.coordinator_epoch, marker.aborted)
        if completed is not None and completed.aborted:
            log_aborted.aborted_in(self, self.active)  # what its file has is checked before something is added
            self.active.add_aborted(
                AbortedTxn(
                    completed.producer_id, completed.first_offset, completed.last_offset, completed.last_stable_offset
                )
            )

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(
        self,
        start_offset: i64,
        end_offset: i64,
        size_bytes_max: i64,
        at_least_one_batch: bool,
        stays_in_file: bool = False,
    ) -> LogSlice:
        """Whole batches from the one that holds `start_offset`, stopping before `end_offset` and at most
        `size_bytes_max` long (one batch may be longer when `at_least_one_batch`)."""
        return log_read.read_slice(self, start_offset, end_offset, size_bytes_max, at_least_one_batch, stays_in_file)

    def offset_for_timestamp(self, timestamp_ms: i64, end_offset: i64) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record at or after a time, below `end_offset`."""
        return log_time.offset_for_timestamp(self, timestamp_ms, end_offset)

    def offset_of_max_timestamp(self, end_offset: i64) -> tuple[int, int, int] | None:
        return log_time.offset_of_max_timestamp(self, end_offset)

    def earliest(self) -> tuple[int, int]:
        """(start offset, leader epoch that wrote it or -1)."""
        return int(self.start_offset), self.epochs.epoch_for_offset(int(self.start_offset))

    def latest(self) -> tuple[int, int]:
        """(end offset, newest leader epoch or -1)."""
        return int(self.end_offset), int(self.latest_epoch)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest known epoch not above `epoch`, its end offset); (-1, -1) when unknown."""
        return self.epochs.end_offset_for(epoch, int(self.end_offset))

    def aborted_transactions(self, start_offset: i64, end_offset: i64) -> list[AbortedTxn]:
        return log_aborted.aborted_transactions(self, start_offset, end_offset)

    def first_unstable_offset(self) -> int | None:
        first: i64 = self.producers.first_unstable_offset()
        return None if first < 0 else int(first)

    def last_stable_offset(self, high_watermark: i64) -> i64:
        """Up to where read-committed consumers may read. Also tells the log what is replicated."""
        self.producers.advance_high_watermark(high_watermark)
        first: i64 = self.producers.first_unstable_offset()
        if first < 0 or first > high_watermark:
            return high_watermark
        return first

    # --- durability --------------------------------------------------------------------------------------------------

    @property
    def acknowledgeable_end_offset(self) -> i64:
        """What counts for the high watermark: with flush-before-acknowledge only what is durable."""
        return self.durable_end_offset if self.settings.flush_messages == 1 else self.end_offset

    def set_on_durable(self, callback: Callable[[], None] | None) -> None:
        """Called after each completed sync, on the loop."""
        self.on_durable = callback

    async def sync(self) -> int:
        """Wait until everything appended so far is durable; the durable end offset."""
        if self.sync_waiter is None:
            return int(self.sync_now())
        return await self.sync_waiter(self)

    def sync_now(self) -> i64:
        """Like `sync`, blocking: for shutdown, tools and tests."""
        job = self.begin_sync()
        try:
            job.run()
        except DiskFailed as error:
            self.undo_sync(job)
            self.home.failed(error)
            raise
        self.finish_sync(job, self.unsynced_since_ms)
        return self.durable_end_offset

    # --- changing shape ----------------------------------------------------------------------------------------------

    def roll(self, now_ms: i64) -> None:
        """Start a new segment at the end offset, unless the active one is empty."""
        self.roll_at(self.end_offset, now_ms)

    def truncate_to(self, offset: i64) -> None:
        """Drop everything from `offset` on."""
        log_trim.truncate_to(self, offset)

    def truncate_fully_and_start_at(self, offset: i64, now_ms: i64 = 0) -> None:
        """Drop everything and continue at `offset`."""
        log_trim.truncate_fully(self, offset, now_ms)

    def advance_start_offset(self, offset: i64, now_ms: i64 = 0) -> bool:
        """Forget everything below `offset` (DeleteRecords). False when it does not move the start."""
        return log_trim.advance_start_offset(self, offset, now_ms)

    def delete_old_segments(self, now_ms: i64, by_age: bool = True) -> int:
        """Apply retention by time, size and start offset; how many segments went."""
        return log_trim.delete_old_segments(self, now_ms, by_age)

    def close(self, home_later: bool = False) -> None:
        """Write indexes and a producer snapshot, so that a clean start only loads. `home_later`: the caller makes the
        folder's name durable in its directory."""
        log_trim.close(self, home_later)


def rules_of(settings: LogSettings) -> ValidationRules:
    return ValidationRules(
        settings.compact,
        settings.timestamp_log_append,
        settings.timestamp_before_max_ms,
        settings.timestamp_after_max_ms,
        _inflated_bytes_max(settings.message_bytes_max),
    )


def _inflated_bytes_max(message_bytes_max: i64) -> i64:
    """What a batch of this topic may inflate to. A producer fills batches by their uncompressed size, so far more
    than `max.message.bytes` is a bomb, and somebody else could be served meanwhile."""
    wanted: i64 = max(INFLATED_BYTES_FLOOR, INFLATED_PER_MESSAGE_BYTE * message_bytes_max)
    return min(wanted, DECOMPRESSED_BYTES_MAX)


def target_codec_of(settings: LogSettings) -> i64:
    """The codec batches are stored with; -1 keeps the producer's."""
    if settings.compression_type == "producer":
        return KEEP_CODEC
    try:
        return codec_named(settings.compression_type)
    except (UnsupportedCodec, KeyError, ValueError):
        return KEEP_CODEC
