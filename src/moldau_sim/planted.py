"""Planted bugs: the simulation is only worth what it finds.

Each swaps one collaborator of the real node for a wrong one, and must be found within a few seeds of the scenarios it
names; the same seeds are green without it. The simulation runs on the uncompiled source, where this is possible.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from moldau.broker.partition import Partition
from moldau.core.log.offset_map import OffsetMap
from moldau.core.log.producers import OK, ProducerTable
from moldau.storage import clean_log, leftovers, recovery
from moldau.storage.directory import LogDirectory
from moldau.storage.flush_set import FlushSet
from moldau.storage.indexes import OffsetIndex
from moldau.storage.log_dirs import LogDirs
from moldau.storage.log_state import LogState, SyncJob
from moldau.storage.partition_log import PartitionLog
from moldau.storage.scan import BatchScanner

from .store import StoreEngine

Plant = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug, the scenarios that must find it, and within how many seeds of each."""

    name: str
    doc: str
    scenarios: tuple[str, ...]
    plant: Plant
    seeds_max: int = 60
    first_seed: int = 0
    """Where to begin looking: a rare bug's first finder. The search goes on from there, so it may grow stale."""


PLANTED: dict[str, Planted] = {}


def planted(
    name: str, *scenarios: str, seeds_max: int = 60, first_seed: int = 0
) -> Callable[[Callable[[], Iterator[None]]], Plant]:
    """Register a generator that swaps something in, yields, and swaps it back."""

    def register(function: Callable[[], Iterator[None]]) -> Plant:
        plant = contextlib.contextmanager(function)
        PLANTED[name] = Planted(name, (function.__doc__ or "").strip(), scenarios, plant, seeds_max, first_seed)
        return plant

    return register


# -- writing and acknowledging ---------------------------------------------------------------------------------------


@planted("ack-before-write", "produce", "roll")
def ack_before_write() -> Iterator[None]:
    """Replies leave before the tick's appends are in the page cache."""
    real = FlushSet.flush_all

    def later(self: FlushSet) -> list[Any]:
        asyncio.get_running_loop().call_later(0.02, real, self)
        return []

    with patch.object(FlushSet, "flush_all", later):
        yield


@planted("ack-before-sync", "produce", "roll")
def ack_before_sync() -> Iterator[None]:
    """Flush-before-acknowledge forgets the flush: the high watermark follows the page cache."""
    with patch.object(PartitionLog, "acknowledgeable_end_offset", property(lambda self: self.end_offset)):
        yield


@planted("sync-covers-too-much", "produce", "roll", seeds_max=150, first_seed=6)
def sync_covers_too_much() -> Iterator[None]:
    """A finished sync is taken to cover what was appended while it ran."""
    real = LogState.finish_sync

    def finish(self: LogState, job: SyncJob, now_ms: int) -> None:
        job.end_offset = self.end_offset
        real(self, job, now_ms)

    with patch.object(LogState, "finish_sync", finish):
        yield


@planted("directory-not-synced", "produce", "roll", seeds_max=150, first_seed=3)
def directory_not_synced() -> Iterator[None]:
    """Bytes are synced, the names of new segments are not."""
    real = SyncJob.run

    def run(self: SyncJob) -> None:
        self.directories = []
        real(self)

    with patch.object(SyncJob, "run", run):
        yield


@planted("failed-sync-retried", "disk-faults", seeds_max=150, first_seed=13)
def failed_sync_retried() -> Iterator[None]:
    """A failed sync is shrugged off and tried again: the kernel has dropped the pages, the second try succeeds."""
    real = SyncJob.run

    def run(self: SyncJob) -> None:
        for _ in range(4):
            with contextlib.suppress(Exception):
                real(self)
                return
        real(self)

    with patch.object(SyncJob, "run", run):
        yield


# -- recovery --------------------------------------------------------------------------------------------------------


@planted("recovery-skips-checksums", "lossy-power", seeds_max=150, first_seed=30)
def recovery_skips_checksums() -> Iterator[None]:
    """Recovery believes every batch whose header parses."""
    with patch.object(BatchScanner, "crc_ok", lambda self, header, position: True):
        yield


@planted("recovery-keeps-torn-tail", "produce", "roll", seeds_max=150, first_seed=5)
def recovery_keeps_torn_tail() -> Iterator[None]:
    """Recovery finds where whole batches end but leaves the torn bytes in the file."""
    real = recovery.recover_segment

    class Uncut:
        """A file that cannot be shortened."""

        def __init__(self, file: Any) -> None:
            self._file = file

        def truncate(self, size_bytes: int) -> None:
            """Forgotten."""

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

    def recover_segment(segment: Any, *arguments: Any) -> Any:
        file = segment.file()
        segment._file = Uncut(file)
        try:
            return real(segment, *arguments)
        finally:
            segment._file = file

    with patch.object(recovery, "recover_segment", recover_segment):
        yield


@planted("recovery-cuts-too-much", "produce", seeds_max=150, first_seed=8)
def recovery_cuts_too_much() -> Iterator[None]:
    """Recovery drops the last whole batch together with the torn one: its offsets are given again."""
    real = recovery.load_log

    def load_log(log: Any, *arguments: Any, **options: Any) -> Any:
        report = real(log, *arguments, **options)
        if report.problem and log.end_offset > log.start_offset:
            log.truncate_to(log.end_offset - 1)
        return report

    with patch("moldau.storage.open_dirs.load_log", load_log):
        yield


@planted("recovery-point-before-sync", "lossy-power", seeds_max=150, first_seed=14)
def recovery_point_before_sync() -> Iterator[None]:
    """The recovery point names the end of the log instead of its durable end: torn bytes below it are not checked."""
    real = LogDirs._offsets_of

    def offsets_of(self: LogDirs, home: LogDirectory) -> Any:
        return {tp: one._replace(recovery_point=int(self.logs[tp].end_offset)) for tp, one in real(self, home).items()}

    with patch.object(LogDirs, "_offsets_of", offsets_of):
        yield


@planted("producers-not-restored", "produce", "recovery")
def producers_not_restored() -> Iterator[None]:
    """Producer state is not rebuilt after a crash: a retry is not known as one."""
    real = recovery.load_log

    def load_log(log: Any, *arguments: Any, **options: Any) -> Any:
        report = real(log, *arguments, **options)
        log.producers = ProducerTable()
        log.producers.end_offset = log.end_offset
        return report

    with patch("moldau.storage.open_dirs.load_log", load_log):
        yield


@planted("index-rebuilt-wrong", "damage", "produce")
def index_rebuilt_wrong() -> Iterator[None]:
    """Index entries made while scanning point one entry too far."""
    real = OffsetIndex.append

    def append(self: OffsetIndex, relative: int, position: int) -> None:
        if self.count:
            position = max(position, int(self.position_of(self.count - 1)) + 1)
        real(self, max(0, relative - 2), position)

    with patch.object(OffsetIndex, "append", append):
        yield


# -- offsets ---------------------------------------------------------------------------------------------------------


@planted("watermark-falls", "produce")
def watermark_falls() -> Iterator[None]:
    """A new leader's high watermark stands at the log's start until the next append."""
    real = Partition.become_leader

    def become_leader(self: Partition, *arguments: Any) -> None:
        real(self, *arguments)
        self.high_watermark = self.log.start_offset
        if self.leadership is not None:
            self.leadership.high_watermark = self.log.start_offset

    with patch.object(Partition, "become_leader", become_leader):
        yield


@planted("start-offset-forgotten", "delete-records")
def start_offset_forgotten() -> Iterator[None]:
    """The checkpoint of start offsets is never written: deleted records come back."""
    real = LogDirs._offsets_of

    def offsets_of(self: LogDirs, home: LogDirectory) -> Any:
        return {tp: one._replace(start_offset=0) for tp, one in real(self, home).items()}

    with patch.object(LogDirs, "_offsets_of", offsets_of):
        yield


@planted("retries-not-recognised", "network", "produce")
def retries_not_recognised() -> Iterator[None]:
    """Sequence numbers are not checked at all."""
    with patch.object(ProducerTable, "check", lambda self, header, now_ms, origin_is_client: OK):
        yield


# -- compaction ------------------------------------------------------------------------------------------------------


@planted("compaction-drops-latest", "compaction")
def compaction_drops_latest() -> Iterator[None]:
    """The offset map notes every key one offset too late, so the newest record looks overwritten."""
    real = OffsetMap.put

    def put(self: OffsetMap, key: bytes, offset: int) -> bool:
        return real(self, key, offset + 1 if offset % 7 == 0 else offset)

    with patch.object(OffsetMap, "put", put):
        yield


@planted("compaction-swap-unsynced", "compaction", seeds_max=150, first_seed=5)
def compaction_swap_unsynced() -> Iterator[None]:
    """The cleaned copy replaces the originals without having been synced."""
    with patch.object(clean_log.LogCleaning, "_finish_cleaned", _finish_without_sync):
        yield


def _finish_without_sync(self: Any, cleaned: Any) -> None:
    cleaned.set_aborted(self._transactions.take_retained())
    cleaned.seal()


@planted("compaction-originals-first", "compaction", seeds_max=150)
def compaction_originals_first() -> Iterator[None]:
    """The originals are removed before the copy has a name that survives."""
    real = clean_log.LogCleaning._swap

    async def swap(self: Any, group: Any, cleaned: Any) -> None:
        for segment in group:
            for kind in (".log", ".index", ".timeindex"):
                if self._disk.exists(segment.path(kind)):
                    self._disk.rename(segment.path(kind), segment.path(kind) + ".deleted")
        await real(self, group, cleaned)

    with patch.object(clean_log.LogCleaning, "_swap", swap):
        yield


@planted("compaction-leftovers-kept", "compaction", seeds_max=200, first_seed=58)
def compaction_leftovers_kept() -> Iterator[None]:
    """A half-written copy is taken for a finished one at the next start."""
    real = leftovers.settle

    def settle(disk: Any, path: str) -> None:
        for name in disk.list(path):
            if name.endswith(".cleaned"):
                disk.rename(f"{path}/{name}", f"{path}/{name.removesuffix('.cleaned')}.swap")
        real(disk, path)

    with patch.object(recovery, "settle", settle):
        yield


# -- metadata --------------------------------------------------------------------------------------------------------


@planted("metadata-not-synced", "topics", "produce")
def metadata_not_synced() -> Iterator[None]:
    """The metadata store answers before its records are durable; a power loss takes the newest."""
    real = StoreEngine.__init__

    def init(self: StoreEngine, *arguments: Any, **options: Any) -> None:
        real(self, *arguments, **options)
        self.loses_unsynced = True

    with patch.object(StoreEngine, "__init__", init):
        yield
