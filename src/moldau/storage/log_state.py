"""The state of one partition's log, and the few ways it changes: write, flush, roll, sync. Compiled.

Reading, time lookup, trimming and recovery are functions over this class in modules of their own; `PartitionLog` is the
face that other rooms see. Everything here runs on the event loop without awaiting, so the loop is the lock. Only
`SyncJob.run` runs elsewhere, and it touches nothing but files.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from moldau.core.log.epochs import EpochHistory
from moldau.core.log.producer_snapshot import encode_snapshot
from moldau.core.log.producers import ProducerTable
from moldau.core.log.settings import LogSettings
from moldau.model.failures import DiskFailed, DiskFull, DiskHungry
from moldau.ports import Buffer, Chance, Disk, File
from moldau.records.batch import STAMP_BYTES, BatchHeader, stamp, stamped_prefix, write_stamp
from moldau.storage.directory import LogDirectory
from moldau.storage.flush_set import Flushable, FlushSet
from moldau.storage.names import (
    EPOCH_CHECKPOINT,
    INDEX_SUFFIX,
    PARTITION_METADATA,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_name,
)
from moldau.storage.segment import Segment
from moldau.storage.segment_notes import SegmentNote, write_notes

SMALL_BATCH_BYTES: Final = 16 * 1024
"""Batches below this are gathered and written together; larger ones are written at once, uncopied."""

TICK_BYTES_MAX: Final = 1024 * 1024
SEALED_INDEXES_MAX: Final = 4
"""Sealed segments of one log whose indexes stay in memory."""

NEVER: Final = -1
told = logging.getLogger("moldau.storage")


def no_time() -> int:
    return 0


class SyncJob:
    """What must be synced so that everything below `end_offset` is durable."""

    def __init__(self, disk: Disk, end_offset: i64, generation: i64) -> None:
        self.disk = disk
        self.end_offset: i64 = end_offset
        self.generation: i64 = generation
        self.files: list[File] = []
        self.paths: list[str] = []
        self.directories: list[str] = []
        self.sealed: list[Segment] = []
        self.of_folder = False
        self.of_epochs = False

    def run(self) -> None:
        """Blocks; run it off the loop. Raises DiskFailed, which is final, or DiskHungry before anything was synced in
        vain: then it may be run again."""
        for file in self.files:
            file.sync()
        for path in self.paths:
            try:
                small = self.disk.open(path)
            except FileNotFoundError:
                continue  # removed with its segment meanwhile
            try:
                small.sync()
            finally:
                small.close()
        for directory in self.directories:
            # A log that is deleted or moved meanwhile is renamed; `relocate` syncs the new folder itself.
            with contextlib.suppress(FileNotFoundError):
                self.disk.sync_dir(directory)


class LogState(Flushable):
    """One partition's log."""

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
        self.has_unflushed = False
        self.disk = disk
        self.home = home
        self.directory: str = home.path
        """The entry of `log.dirs`; `path` is this partition's own folder in it."""
        self.path = path
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.settings = settings
        self.chance = chance
        self.flush_set = flush_set
        self.start_offset: i64 = 0
        self.end_offset: i64 = 0
        self.durable_end_offset: i64 = 0
        self.unsynced_since_ms: i64 = NEVER
        """Monotonic, by `monotonic_ms`."""
        self.monotonic_ms: Callable[[], int] = no_time
        self.high_watermark: i64 = NEVER
        """Set by the partition; retention never deletes beyond it. -1 while nobody says: then the end offset."""
        self.producer_expiration_ms: i64 = 86_400_000
        self.segments: list[Segment] = []
        self.active = Segment(disk, path, 0, settings.index_interval_bytes)
        self.producers = ProducerTable()
        self.epochs = EpochHistory()
        self.latest_epoch: i64 = -1
        self.closed = False
        self.notes: dict[int, SegmentNote] = {}
        """Sealed segments by their base offsets, as they were noted when they were sealed."""
        self.holes: list[tuple[int, int]] = []
        """(first offset, end offset) of what starts found missing."""
        self.failure = ""
        """Why this log alone is offline, in words: it could not be loaded. Such a log is closed and left as it is."""
        self.loaded_end_offset: i64 = NEVER
        """The end offset found after a clean stop; -1 otherwise. A log that did not grow since has nothing to write."""
        self.generation: i64 = 0
        """Counts truncations: a sync that began before one proves nothing about what came after."""
        self.on_sync_wanted: Callable[[LogState], None] | None = None
        self.sync_waiter: Callable[[LogState], Awaitable[int]] | None = None
        self.on_start_moved: Callable[[LogState], None] | None = None
        self.on_durable: Callable[[], None] | None = None
        self.on_removed: Callable[[LogState, list[Segment]], None] | None = None
        """Called with segments that left the log; their files wait as `.deleted` for `file.delete.delay.ms`."""
        self.gathered = BytesWriter()
        self.unsynced_sealed: list[Segment] = []
        self.directory_changed = True
        self.epochs_unsynced = False
        self.epochs_unwritten = False
        """Whether the file of leader epochs is to be written with the next sync."""
        self.folder_unsynced = True
        """The first sync also makes the folder itself durable: its name in the directory, and whose log it is."""
        self.recently_read: list[Segment] = []

    # --- queries -----------------------------------------------------------------------------------------------------

    @property
    def size_bytes(self) -> int:
        total: i64 = 0
        for segment in self.segments:
            total += segment.size_bytes
        return total

    @property
    def offline(self) -> bool:
        return self.home.offline or self.closed

    def segment_number_for(self, offset: i64) -> i64:
        """The number of the last segment whose base is not above `offset`; 0 when all are."""
        count: i64 = len(self.segments)
        if offset >= self.active.base_offset:
            return count - 1
        low: i64 = 0
        high: i64 = count - 1
        while low < high:
            middle: i64 = (low + high + 1) >> 1
            if self.segments[middle].base_offset <= offset:
                low = middle
            else:
                high = middle - 1
        return low

    def note_read(self, segment: Segment) -> None:
        """Keep the indexes of few sealed segments in memory."""
        if not segment.sealed or (self.recently_read and self.recently_read[-1] is segment):
            return
        if segment in self.recently_read:
            self.recently_read.remove(segment)
        self.recently_read.append(segment)
        if len(self.recently_read) > SEALED_INDEXES_MAX:
            self.recently_read.pop(0).drop_indexes()

    # --- writing -----------------------------------------------------------------------------------------------------

    def write_stamped(self, records: bytes | memoryview, header: BatchHeader, now_ms: i64) -> None:
        """Append one batch with the offset and leader epoch of `header`. A writable view is stamped in place."""
        size: i64 = header.size_bytes
        if len(self.gathered) > TICK_BYTES_MAX:
            self.flush_appends()  # it failed before: take no more until it does not
        why = self.active.should_roll(self.settings, size, header.last_offset, header.max_timestamp, now_ms)
        if why:
            self.roll_at(header.base_offset, now_ms, why)
        if isinstance(records, bytes):
            if size < SMALL_BATCH_BYTES:
                write_stamp(self.gathered, header.base_offset, size, header.partition_leader_epoch)
                self.gathered.write(records[STAMP_BYTES:])
                self.gather()
            else:
                prefix = stamped_prefix(header.base_offset, size, header.partition_leader_epoch)
                self.write_parts([prefix, memoryview(records)[STAMP_BYTES:]])
        else:
            stamp(records, header.base_offset, header.partition_leader_epoch)
            self.write_unstamped(records)
        self.note_appended(header, now_ms)

    def write_unstamped(self, records: Buffer) -> None:
        """Append bytes that already carry their offsets."""
        if len(records) < SMALL_BATCH_BYTES:
            self.gathered.write(bytes(records))
            self.gather()
        else:
            self.write_parts([records])

    def note_appended(self, header: BatchHeader, now_ms: i64) -> None:
        self.active.note_batch(header)
        self.end_offset = header.next_offset
        if self.unsynced_since_ms < 0:
            self.unsynced_since_ms = self.monotonic_ms()
        if len(self.gathered) > TICK_BYTES_MAX:
            with contextlib.suppress(DiskHungry):  # the batch counts as appended; the end of the tick tries again
                self.flush_appends()

    def gather(self) -> None:
        if not self.has_unflushed:
            self.has_unflushed = True
            self.flush_set.add(self)

    def write_parts(self, parts: list[Buffer]) -> None:
        if self.has_unflushed:
            self.flush_appends()
        try:
            if len(parts) == 1:
                self.active.file().append(parts[0])
            else:
                self.active.file().append_many(parts)
        except DiskFailed as error:
            self.home.failed(error)
            raise
        # The reply waits for the flush that ends the tick, and so does a sync that the settings ask for.
        if not self.has_unflushed and self.settings.flush_messages != 0x7FFFFFFFFFFFFFFF:
            self.has_unflushed = True
            self.flush_set.add(self)

    def flush_appends(self) -> None:
        """Write what was gathered to the page cache. Raises DiskFailed after taking the directory offline, DiskHungry
        when it can be tried again."""
        if not self.has_unflushed:
            return
        # The mark stays after a failure: a read or a roll may meet it first, and the end of the tick must still report
        # this log, or appends that were lost here would be acknowledged.
        if self.offline:
            raise DiskFailed(f"{self.path} is offline: {self.home.reason or 'closed'}")
        if len(self.gathered) > 0:
            try:
                self.active.file().append(self.gathered.getvalue())
            except DiskFailed as error:
                self.home.failed(error)
                raise
            self.gathered.truncate(0)
        self.has_unflushed = False
        if self.end_offset - self.durable_end_offset >= self.settings.flush_messages:
            self.request_sync()

    # --- rolling -----------------------------------------------------------------------------------------------------

    def roll_at(self, base_offset: i64, now_ms: i64, why: str = "asked for") -> None:
        """Seal the active segment and start a new one at `base_offset`."""
        if self.has_unflushed:
            self.flush_appends()
        old = self.active
        if old.size_bytes == 0 and old.base_offset == base_offset:
            return
        try:
            old.seal()
            self.producers.end_offset = base_offset
            self.write_producer_snapshot(base_offset)
            self.add_segment(base_offset, now_ms)
            self.notes.pop(int(old.base_offset), None)  # of the last clean stop: it has grown since
            write_notes(self)
        except DiskFailed as error:
            old.sealed = False
            self.home.failed(error)
            raise
        told.debug(
            "%s-%d: a new segment begins at offset %d; the last has %d bytes from offset %d on: %s",
            self.topic,
            self.partition,
            base_offset,
            old.size_bytes,
            old.base_offset,
            why,
        )
        self.unsynced_sealed.append(old)
        self.note_read(old)
        self.request_sync()

    def add_segment(self, base_offset: i64, now_ms: i64) -> Segment:
        """A new, empty active segment."""
        segment = Segment(self.disk, self.path, base_offset, self.settings.index_interval_bytes)
        try:
            segment.create(now_ms)
            segment.create_index_files()
        except DiskHungry:
            segment.discard()  # a later one may begin elsewhere
            raise
        jitter_max = min(int(self.settings.segment_jitter_ms), int(self.settings.segment_ms))
        segment.jitter_ms = self.chance.randrange(jitter_max) if jitter_max > 0 else 0
        self.segments.append(segment)
        self.active = segment
        self.directory_changed = True
        return segment

    def write_producer_snapshot(self, offset: i64) -> None:
        """Kafka's `.snapshot`: recovery replays only what came after it. Made durable by the next sync."""
        path = self.snapshot_path(offset)
        file = self.disk.open(path, create=True)
        try:
            if file.size_bytes() > 0:
                file.truncate(0)
            file.append(encode_snapshot(self.producers))
        finally:
            file.close()
        self.directory_changed = True

    def snapshot_path(self, offset: i64) -> str:
        return f"{self.path}/{offset_name(offset)}{SNAPSHOT_SUFFIX}"

    def fail(self, reason: str, start_offset: i64, end_offset: i64) -> None:
        """Take this log alone offline. The checkpoints go on to say of it what they said before."""
        self.failure = reason
        self.closed = True
        for segment in self.segments:
            segment.close()
        self.start_offset = start_offset
        self.end_offset = end_offset if end_offset > start_offset else start_offset
        self.durable_end_offset = end_offset

    def abandon(self) -> None:
        """The log is being deleted: drop what was gathered and close the files."""
        self.closed = True
        self.has_unflushed = False
        self.gathered.truncate(0)
        for segment in self.segments:
            segment.close()

    def relocate(self, path: str) -> None:
        """Rename the log's folder. Open files stay open."""
        try:
            self.disk.rename(self.path, path)
            self.path = path
            for segment in self.segments:
                segment.directory = path
                segment.renamed()
            self.disk.sync_dir(path)
            self.disk.sync_dir(self.directory)
        except DiskFailed as error:
            self.home.failed(error)
            raise

    # --- leader epochs -----------------------------------------------------------------------------------------------

    def assign_epoch(self, epoch: i64, start_offset: i64) -> None:
        """Note that `epoch` writes from `start_offset` on. Durable with what it is about, at the next sync: nobody is
        kept waiting for the disk, and a history that lags behind its log is made again from the batches."""
        if self.epochs.assign(int(epoch), int(start_offset)):
            self.epochs_unwritten = True
            with contextlib.suppress(DiskHungry):
                self.write_epochs_unsynced()
        self.latest_epoch = self.epochs.latest_epoch

    def write_epochs_unsynced(self) -> None:
        path = f"{self.path}/{EPOCH_CHECKPOINT}"
        try:
            file = self.disk.open(f"{path}.tmp", create=True)
            try:
                if file.size_bytes() > 0:
                    file.truncate(0)
                file.append(self.epochs.encode().encode())
            finally:
                file.close()
            self.disk.rename(f"{path}.tmp", path)
        except DiskFailed as error:
            self.home.failed(error)
            raise
        self.epochs_unwritten = False
        self.epochs_unsynced = True
        self.directory_changed = True

    def write_epochs(self) -> None:
        """Durably, or with the next sync where there is no descriptor for it now. Where there is no room, not at all: a
        history that lags behind its log is put right when it is read, and retention must be able to give room back."""
        try:
            self.disk.replace(f"{self.path}/{EPOCH_CHECKPOINT}", self.epochs.encode().encode())
        except DiskFull:
            return
        except DiskFailed as error:
            self.home.failed(error)
            if self.home.offline:
                raise
            self.epochs_unwritten = True

    # --- durability --------------------------------------------------------------------------------------------------

    def request_sync(self) -> None:
        """Ask for everything appended so far to become durable. Requests during a sync are joined into the next one."""
        if self.on_sync_wanted is not None and self.durable_end_offset < self.end_offset:
            self.on_sync_wanted(self)

    def begin_sync(self) -> SyncJob:
        if self.has_unflushed:
            self.flush_appends()
        if self.epochs_unwritten:
            self.write_epochs_unsynced()
        self.active.write_late_aborted()
        job = SyncJob(self.disk, self.end_offset, self.generation)
        for segment in self.unsynced_sealed:
            job.files.append(segment.file())
            for kind in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
                job.paths.append(segment.path(kind))
            job.paths.append(self.snapshot_path(segment.next_offset))
        job.files.append(self.active.file())
        job.sealed = self.unsynced_sealed
        job.of_folder = self.folder_unsynced
        job.of_epochs = self.epochs_unsynced
        if self.folder_unsynced:
            job.paths.append(f"{self.path}/{PARTITION_METADATA}")
            job.directories.append(self.directory)
            self.folder_unsynced = False
        if self.epochs_unsynced:
            job.paths.append(f"{self.path}/{EPOCH_CHECKPOINT}")
            self.epochs_unsynced = False
        if self.directory_changed:
            job.directories.append(self.path)
        self.unsynced_sealed = []
        self.directory_changed = False
        return job

    def undo_sync(self, job: SyncJob) -> None:
        """The job found no descriptor: what it was to make durable is left for the next."""
        self.unsynced_sealed = [one for one in job.sealed if one in self.segments] + self.unsynced_sealed
        self.folder_unsynced = self.folder_unsynced or job.of_folder
        self.epochs_unsynced = self.epochs_unsynced or job.of_epochs
        self.directory_changed = True

    def finish_sync(self, job: SyncJob, now_ms: i64) -> None:
        if job.generation != self.generation:
            self.request_sync()
            return
        if job.end_offset > self.durable_end_offset:
            self.durable_end_offset = job.end_offset
        self.unsynced_since_ms = NEVER if self.durable_end_offset == self.end_offset else now_ms
        if self.on_durable is not None:
            self.on_durable()
