"""One compaction of one log.

Two passes over the dirty part: note the newest offset of every key in a table of fixed size, then copy what stays into
`.cleaned` segments and swap them in (`leftovers` says why a crash at any point is harmless). Work happens off the loop,
one small window at a time; the loop only swaps. Windows are small because compiled code keeps the interpreter lock to
its end: 128 KiB hold up the loop for about a millisecond.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from moldau.core.log.compaction import (
    Cleaning,
    CleanPlan,
    OffsetMap,
    TransactionTracker,
    group_segments,
    map_batches,
)
from moldau.core.log.segment_facts import SegmentFacts
from moldau.model.failures import CorruptBatch, DiskFailed, DiskFull, DiskHungry
from moldau.ports import Disk, File
from moldau.records.batch import HEADER_BYTES, iterate_headers, parse_header
from moldau.storage.log_aborted import aborted_transactions
from moldau.storage.log_trim import facts_of, remove_segments
from moldau.storage.names import (
    CLEANED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)
from moldau.storage.partition_log import PartitionLog
from moldau.storage.segment import Segment
from moldau.storage.segment_notes import write_notes

WINDOW_BYTES: Final = 128 * 1024
BATCH_BYTES_MAX: Final = 256 * 1024 * 1024
HUNGRY_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class CleanerLimits:
    """`log.cleaner.*`, resolved."""

    dedupe_buffer_bytes: int = 128 * 1024 * 1024
    load_factor: float = 0.9
    io_bytes_per_second: float = float("inf")


@dataclass(slots=True)
class CleanReport:
    """What a compaction did."""

    first_dirty_offset: int = 0
    end_offset: int = 0
    bytes_read: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    records_read: int = 0
    records_retained: int = 0
    map_bytes: int = 0


class Superseded(Exception):
    """The log was truncated, trimmed or deleted while it was compacted; the copy is thrown away."""


class LogCleaning:
    """State of one compaction."""

    def __init__(self, disk: Disk, log: PartitionLog, plan: CleanPlan, limits: CleanerLimits, now_ms: int) -> None:
        self._disk = disk
        self._log = log
        self._plan = plan
        self._limits = limits
        self._now_ms = now_ms
        self._generation = log.generation
        self._map = OffsetMap(
            limits.dedupe_buffer_bytes, limits.load_factor, max(1, plan.end_offset - plan.first_dirty_offset)
        )
        self.report = CleanReport(first_dirty_offset=plan.first_dirty_offset, map_bytes=self._map.memory_bytes)

    async def run(self) -> CleanReport:
        """Compact the log up to `report.end_offset`. Raises Superseded, CorruptBatch or DiskFailed."""
        await self._build_map()
        end_offset = self._map.latest_offset + 1
        self.report.end_offset = max(end_offset, self._plan.first_dirty_offset)
        if end_offset <= self._plan.first_dirty_offset:
            return self.report
        segments = [one for one in self._log.segments[:-1] if one.base_offset < end_offset]
        by_base = {int(one.base_offset): one for one in segments}
        facts = [facts_of(one) for one in segments]
        cleaning = Cleaning(
            self._map,
            self._tracker(),
            self._log.producers.last_records(),
            now_ms=self._now_ms,
            delete_retention_ms=int(self._log.settings.delete_retention_ms),
            end_offset=end_offset,
        )
        for group in self._groups(facts):
            await self._clean_group(cleaning, [by_base[one.base_offset] for one in group])
        return self.report

    def _tracker(self) -> TransactionTracker:
        self._transactions = TransactionTracker()
        return self._transactions

    def _groups(self, facts: Sequence[SegmentFacts]) -> list[list[SegmentFacts]]:
        settings = self._log.settings
        return group_segments(
            facts,
            segment_bytes_max=int(settings.segment_bytes),
            index_bytes_max=int(settings.index_bytes_max),
            end_offset=int(self._log.active.base_offset),
        )

    # --- first pass --------------------------------------------------------------------------------------------------

    async def _build_map(self) -> None:
        transactions = TransactionTracker()
        start, end = self._plan.first_dirty_offset, self._plan.end_offset
        for segment in [one for one in self._log.segments[:-1] if one.next_offset > start and one.base_offset < end]:
            self._check_current([segment])
            transactions.add_aborted(aborted_transactions(self._log, segment.base_offset, segment.next_offset))
            position = int(segment.position_for(max(start, segment.base_offset)))
            full = await self._map_segment(segment, position, transactions)
            if full:
                break
            self._map.latest_offset = max(self._map.latest_offset, min(segment.next_offset, end) - 1)
        if self._map.is_full and self._map.latest_offset < start:
            raise CorruptBatch(
                f"one segment of {self._log.path} has more keys than log.cleaner.dedupe.buffer.size has room for"
            )

    async def _map_segment(self, segment: Segment, position: int, transactions: TransactionTracker) -> bool:
        start, end = self._plan.first_dirty_offset, self._plan.end_offset
        full = False

        def use(data: bytes) -> int:
            nonlocal full
            result = map_batches(data, self._map, transactions, start, end)
            self.report.records_read += result.records_read
            full = full or result.full
            return -1 if result.full else int(result.bytes_read)

        await self._each_window(segment, position, use)
        return full

    # --- second pass -------------------------------------------------------------------------------------------------

    async def _clean_group(self, cleaning: Cleaning, group: list[Segment]) -> None:
        cleaned = Segment(self._disk, self._log.path, group[0].base_offset, group[0].interval_bytes, CLEANED_SUFFIX)
        self._check_current(group)
        self._remove_files(cleaned)
        try:
            cleaned.create(self._now_ms)
            for segment in group:
                self._check_current(group)
                self._transactions.add_aborted(
                    aborted_transactions(self._log, segment.base_offset, segment.next_offset)
                )
                await self._filter_segment(cleaning, segment, cleaned)
            cleaned.next_offset = group[-1].next_offset
            await self._off_loop(lambda: self._finish_cleaned(cleaned), group)
        except BaseException:
            cleaned.close()
            self._remove_files(cleaned)
            raise
        await self._swap(group, cleaned)

    async def _filter_segment(self, cleaning: Cleaning, segment: Segment, cleaned: Segment) -> None:
        def use(data: bytes) -> int:
            result = cleaning.filter_batches(data)
            self.report.records_retained += result.records_retained
            if result.output:
                cleaned.file().append(result.output)
                for _, header in iterate_headers(result.output):
                    cleaned.note_batch(header)
            return int(result.bytes_read)

        self.report.bytes_before += int(segment.size_bytes)
        await self._each_window(segment, 0, use)

    def _finish_cleaned(self, cleaned: Segment) -> None:
        """Write the indexes and make the copy durable, so that `.swap` names only whole segments."""
        cleaned.set_aborted(self._transactions.take_retained())
        cleaned.seal()
        cleaned.file().sync()
        for kind in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
            if self._disk.exists(cleaned.path(kind)):
                small = self._disk.open(cleaned.path(kind))
                try:
                    small.sync()
                finally:
                    small.close()
        self._disk.sync_dir(self._log.path)

    async def _swap(self, group: list[Segment], cleaned: Segment) -> None:
        try:
            await self._off_loop(lambda: self._rename(cleaned, SWAP_SUFFIX), group)
        except (Superseded, DiskHungry, DiskFull):
            # Left there, the next start would take it for a finished compaction.
            cleaned.close()
            for cleaned.suffix in (SWAP_SUFFIX, CLEANED_SUFFIX):  # not all files may have the new name yet
                self._remove_files(cleaned)
            raise
        log = self._log
        at = log.segments.index(group[0])
        cleaned.drop_indexes()
        log.segments[at : at + len(group)] = [cleaned]
        log.unsynced_sealed = [one for one in log.unsynced_sealed if one not in group]
        log.recently_read = [one for one in log.recently_read if one not in group]
        remove_segments(log, group, cleaned.base_offset)
        write_notes(log)  # while the `.swap` is there, by which a start knows that they may be older
        await self._sync_folder()
        if not log.closed and cleaned in log.segments:
            self._rename(cleaned, "")
            await self._sync_folder()
        self.report.bytes_after += int(cleaned.size_bytes)

    async def _sync_folder(self) -> None:
        """From here there is no way back, so hunger is waited out."""
        while not self._log.offline:
            try:
                await self._disk.off_loop(lambda: self._disk.sync_dir(self._log.path))
                return
            except DiskHungry as error:
                self._log.home.failed(error)
                await asyncio.sleep(HUNGRY_SECONDS)
            except FileNotFoundError:
                if not self._log.closed:  # deleted meanwhile: its folder has another name, and soon none
                    raise

    def _rename(self, segment: Segment, suffix: str) -> None:
        """Rename all files of a segment, the `.log` last: its name says that the others are there."""
        old = {kind: segment.path(kind) for kind in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, LOG_SUFFIX)}
        segment.suffix = suffix
        for kind, path in old.items():
            if self._disk.exists(path):
                self._disk.rename(path, segment.path(kind))
        segment.renamed()
        if suffix == SWAP_SUFFIX:
            self._disk.sync_dir(self._log.path)

    def _remove_files(self, segment: Segment) -> None:
        for kind in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX):
            if self._disk.exists(segment.path(kind)):
                self._disk.remove(segment.path(kind))

    # --- both passes -------------------------------------------------------------------------------------------------

    async def _off_loop(self, work: Callable[[], None], segments: Sequence[Segment]) -> None:
        """Work on segments that may be deleted before it begins, or under its hands: whatever it met then says nothing
        about the disk."""
        try:
            await self._disk.off_loop(work)
        except (DiskFailed, FileNotFoundError, CorruptBatch):
            self._check_current(segments)
            raise
        self._check_current(segments)

    def _check_current(self, segments: Sequence[Segment]) -> None:
        log = self._log
        if log.offline or log.generation != self._generation or any(one not in log.segments for one in segments):
            raise Superseded(f"{log.path} changed while it was compacted")

    async def _each_window(self, segment: Segment, position: int, use: Callable[[bytes], int]) -> None:
        """Feed the segment's batches to `use` in windows; it answers how many bytes it took, -1 to stop."""
        walk = _WindowWalk(segment.file(), position, int(segment.size_bytes), use)
        while not walk.done:
            before = walk.position
            await self._off_loop(walk.step, [segment])
            self.report.bytes_read += walk.position - before
            if self._limits.io_bytes_per_second != float("inf"):
                await asyncio.sleep((walk.position - before) / self._limits.io_bytes_per_second)


class _WindowWalk:
    """Reads a file window by window, each starting at a batch."""

    def __init__(self, file: File, position: int, end: int, use: Callable[[bytes], int]) -> None:
        self._file = file
        self.position = position
        self._end = end
        self._use = use
        self.done = position >= end

    def step(self) -> None:
        """Use one window, or one whole batch when it is larger."""
        data = self._file.read_at(self.position, min(WINDOW_BYTES, self._end - self.position))
        if len(data) >= HEADER_BYTES:
            size = int(parse_header(data, 0).size_bytes)
            if size > len(data):
                if size > self._end - self.position or size > BATCH_BYTES_MAX:
                    raise CorruptBatch(f"{self._file.path} is damaged at {self.position}")
                data = self._file.read_at(self.position, size)
        used = self._use(data)
        self.position += max(used, 0)
        # Taking nothing means that the rest lies beyond what this pass may touch.
        self.done = used <= 0 or self.position >= self._end
