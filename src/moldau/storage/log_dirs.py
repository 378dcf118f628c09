"""All logs of a broker, in the directories of `log.dirs`.

A directory that fails goes offline with its logs; the others go on. A broker without any directory cannot start.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from moldau.core.log.settings import FOREVER, LogSettings
from moldau.model.checks import check
from moldau.model.failures import DirectoryLocked, DiskFailed, DiskHungry
from moldau.model.ids import TopicPartition
from moldau.ports import Clock, Disk, Entropy
from moldau.storage.bulk import close_logs, remove_all
from moldau.storage.checkpoints import encode_partition_metadata, write_offsets, write_unsynced
from moldau.storage.descriptions import DirectoryDescription, LogDescription
from moldau.storage.directory import LogDirectory
from moldau.storage.findings import Finding
from moldau.storage.flush_set import FlushSet
from moldau.storage.log_state import LogState
from moldau.storage.move_log import move_log
from moldau.storage.names import (
    DELETED_SUFFIX,
    EPOCH_CHECKPOINT,
    LOCK,
    PARTITION_METADATA,
    REPLICATION_CHECKPOINT,
    delete_dir_name,
    partition_dir_name,
)
from moldau.storage.offset_copy import LogOffsets, write_known
from moldau.storage.open_dirs import (
    DirectoryIdentity,
    DirectoryOpener,
    OpenProgress,
    make_dirs_durably,
    sign_directory,
    write_clean_marker,
)
from moldau.storage.partition_log import PartitionLog
from moldau.storage.segment import Segment
from moldau.storage.syncer import Syncer

CHECKPOINT_INTERVAL_MS: Final = 60_000
FLUSH_CHECK_MS_MIN: Final = 10
LOOK_EVERY_MS: Final = 20
"""How often, at most, a flush looks whether the directories are still there."""

IDLE_LOOK_MS: Final = 5_000
REMOVE_AGAIN_MS: Final = 5_000


class LogDirs:
    """Opens, makes, deletes and closes the logs of a broker."""

    def __init__(
        self,
        disk: Disk,
        directories: Sequence[str],
        clock: Clock,
        settings_for: Callable[[str], LogSettings],
        *,
        entropy: Entropy,
        flush_set: FlushSet | None = None,
        node_id: int = 1,
        cluster_id: str = "",
        recovery_threads: int = 2,
        producer_expiration_ms: int = 86_400_000,
        checkpoint_interval_ms: int = CHECKPOINT_INTERVAL_MS,
    ) -> None:
        self.disk = disk
        self.clock = clock
        self.settings_for = settings_for
        self.flush_set = flush_set if flush_set is not None else FlushSet()
        self.directories = [LogDirectory(path) for path in dict.fromkeys(directories)]
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.syncer = Syncer(disk, clock)
        self.topic_id_of: Callable[[str], bytes | None] = lambda topic: None
        """The id the cluster knows a topic by, where it does: a damaged partition.metadata may name another."""
        self.findings: list[Finding] = []
        """What opening found wrong, in the order it was found."""
        self.clean_start = True
        """Whether every directory had been stopped cleanly."""
        self.previous_broker_epoch = -1
        self.on_offline: Callable[[LogDirectory], None] | None = None
        """Told once about each directory that fails."""
        self.chance = entropy.stream("storage")
        self._identity = DirectoryIdentity(node_id, cluster_id)
        self._recovery_threads = recovery_threads
        self._producer_expiration_ms = producer_expiration_ms
        self._checkpoint_interval_ms = checkpoint_interval_ms
        self._releases: dict[str, Callable[[], None]] = {}
        self._opened: list[LogDirectory] = []
        """What closing may write to. The others are somebody else's, or were not looked at to the end."""
        self._futures: dict[TopicPartition, PartitionLog] = {}
        self._removals: list[tuple[int, str]] = []
        self._wake = asyncio.Event()
        self._checkpointing = asyncio.Lock()
        self._writing_checkpoints = threading.Lock()
        """A checkpoint whose waiter was cancelled is still being written by its thread when the logs are closed."""
        self._closed = False
        self._looked_ms = -LOOK_EVERY_MS
        self.flush_set.before = self.look_after_directories
        for home in self.directories:
            home.on_offline = self._went_offline

    # --- opening -----------------------------------------------------------------------------------------------------

    async def open(self, progress: Callable[[OpenProgress], None] | None = None) -> None:
        """Lock the directories and recover every log. Raises DirectoryLocked when another broker serves one of them,
        DiskFailed when no directory is usable."""
        opener = DirectoryOpener(
            self.disk, self.clock, self._identity, self.chance, self.make_log, self._recovery_threads, progress
        )
        self._lock_all()
        opener.topic_id_of = self.topic_id_of
        self.findings = opener.findings
        for home in self.online():
            try:
                opened = await opener.open(home)
            except DiskHungry:
                self.unlock()  # others could take its place, but the same would befall them
                raise
            except DiskFailed as error:
                home.fail(str(error))
                continue
            self.clean_start = self.clean_start and opened.clean
            self.previous_broker_epoch = max(self.previous_broker_epoch, opened.broker_epoch)
            for log in opened.logs:
                self._adopt(log)
            self._opened.append(home)
        if not self.online():
            self.unlock()
            raise DiskFailed("; ".join(f"{home.path}: {home.reason}" for home in self.directories))

    def sign(self) -> None:
        """Once the metadata knows everything in them, the directories are moldau's."""
        for home in self.online():
            try:
                if not home.signed:
                    sign_directory(self.disk, home)
            except (DiskFailed, FileNotFoundError) as error:
                home.failed(error)

    def _lock_all(self) -> None:
        """Before anything is read or recovered. A directory that another broker serves is a mistake in the settings
        and stops the start, as in Kafka; one that cannot even be locked is broken and only goes offline."""
        for home in self.directories:
            try:
                make_dirs_durably(self.disk, home.path)
                self._releases[home.path] = self.disk.lock(f"{home.path}/{LOCK}")
            except (DirectoryLocked, DiskHungry):
                self.unlock()
                raise
            except DiskFailed as error:
                home.fail(str(error))

    def _adopt(self, log: PartitionLog) -> None:
        tp = TopicPartition(log.topic, log.partition)
        other = self.logs.get(tp)
        if other is not None:
            # A move was interrupted between renaming the copy and removing the original: both are complete.
            if log.failure or other.failure:
                raise DiskFailed(f"{log.path} and {other.path} hold the same partition, and one of them is damaged")
            loser, log = (log, other) if other.end_offset >= log.end_offset else (other, log)
            self._discard(loser)
        self.logs[tp] = log

    def make_log(self, home: LogDirectory, folder: str, topic: str, partition: int, topic_id: bytes) -> PartitionLog:
        log = PartitionLog(
            self.disk,
            home,
            f"{home.path}/{folder}",
            topic,
            partition,
            topic_id,
            self.settings_for(topic),
            self.chance,
            self.flush_set,
        )
        log.producer_expiration_ms = self._producer_expiration_ms
        self.syncer.attach(log)
        log.on_removed = self._segments_removed
        return log

    def set_producer_expiration(self, milliseconds: int) -> None:
        """`producer.id.expiration.ms` changed while the broker runs."""
        self._producer_expiration_ms = milliseconds
        for log in self.logs.values():
            log.producer_expiration_ms = milliseconds

    # --- making and deleting -----------------------------------------------------------------------------------------

    def online(self) -> list[LogDirectory]:
        return [home for home in self.directories if not home.offline]

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        return self.logs.get(TopicPartition(topic, partition))

    def create(self, topic: str, topic_id: bytes, partition: int, directory: str | None = None) -> PartitionLog:
        """An empty log, in the directory with the fewest partitions unless one is named. Raises DiskFailed."""
        tp = TopicPartition(topic, partition)
        check(tp not in self.logs, "the log exists already", tp)
        home = self._choose(directory)
        log = self.make_log(home, partition_dir_name(topic, partition), topic, partition, topic_id)
        try:
            self.disk.make_dir(log.path)
            # A log lost with the machine before its first record is made again from the cluster's metadata.
            write_unsynced(self.disk, f"{log.path}/{PARTITION_METADATA}", encode_partition_metadata(topic_id))
            write_unsynced(self.disk, f"{log.path}/{EPOCH_CHECKPOINT}", log.epochs.encode().encode())
            log.add_segment(0, self.clock.wall_ms())
        except DiskFailed as error:
            home.failed(error)
            raise
        self.logs[tp] = log
        return log

    def set_topic_id(self, log: PartitionLog, topic_id: bytes) -> None:
        """Give a log that has no topic id (an old or damaged partition.metadata) the one the cluster knows."""
        log.topic_id = topic_id
        self.disk.replace(f"{log.path}/{PARTITION_METADATA}", encode_partition_metadata(topic_id))

    def _choose(self, directory: str | None) -> LogDirectory:
        online = self.online()
        if directory is not None:
            online = [home for home in online if home.path == directory]
        if not online:
            raise DiskFailed(f"no usable log directory{f' {directory}' if directory else ''}")
        if len(online) == 1:
            return online[0]
        counts = {home.path: 0 for home in online}
        for log in [*self.logs.values(), *self._futures.values()]:
            if log.directory in counts:
                counts[log.directory] += 1
        return min(online, key=lambda home: counts[home.path])

    def delete(self, topic: str, partition: int) -> None:
        """Take a log away. Its folder is renamed at once and removed after `file.delete.delay.ms`."""
        log = self.logs.pop(TopicPartition(topic, partition), None)
        if log is not None:
            self._discard(log)

    def _discard(self, log: PartitionLog) -> None:
        log.abandon()
        if log.home.offline:
            return
        target = f"{log.directory}/{delete_dir_name(log.topic, log.partition, self.chance.randbytes(16).hex())}"
        try:
            self.disk.rename(log.path, target)
        except FileNotFoundError:
            return  # somebody removed the folder by hand
        except DiskFailed as error:
            log.home.failed(error)
            return
        self._remove_later(target, int(log.settings.file_delete_delay_ms))

    def _segments_removed(self, log: LogState, segments: list[Segment]) -> None:
        delay_ms = int(log.settings.file_delete_delay_ms)
        for segment in segments:
            self._remove_later(f"{log.path}/{segment.base_offset:020d}.*{DELETED_SUFFIX}", delay_ms)

    def _remove_later(self, path: str, delay_ms: int) -> None:
        self._removals.append((self.clock.monotonic_ms() + delay_ms, path))
        self._wake.set()

    # --- moving ------------------------------------------------------------------------------------------------------

    def future_of(self, tp: TopicPartition) -> PartitionLog | None:
        """The copy of a log that is being moved, for DescribeLogDirs."""
        return self._futures.get(tp)

    async def move(self, tp: TopicPartition, directory: str) -> PartitionLog:
        """Copy a log to another directory while it is in use, then let the copy take its place.

        Returns the log that now stands for the partition; whoever holds the old one must take the new one. Raises
        KeyError when there is no such log or directory.
        """
        return await move_log(self, tp, directory)

    def register_future(self, tp: TopicPartition, copy: PartitionLog) -> None:
        check(tp not in self._futures, "the log is being moved already", tp)
        self._futures[tp] = copy

    def drop_future(self, tp: TopicPartition) -> None:
        """Give up a move."""
        copy = self._futures.pop(tp, None)
        if copy is not None:
            self._discard(copy)

    def promote(self, tp: TopicPartition, old: PartitionLog, copy: PartitionLog) -> None:
        """The copy takes the place of the original."""
        self._futures.pop(tp, None)
        self.logs[tp] = copy
        self._discard(old)

    # --- upkeep ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Checkpoints, syncs that are due by `flush.ms`, removal of deleted files. Runs until cancelled. Every deadline
        here is of monotonic time: the wall clock may be set back by days."""
        next_checkpoint_ms = self.clock.monotonic_ms() + self._checkpoint_interval_ms
        while not self._closed:
            now_ms = self.clock.monotonic_ms()
            self.look_after_directories()
            await self.remove_due(now_ms)
            flush_ms = self.sync_due(now_ms)
            if now_ms >= next_checkpoint_ms:
                await self.checkpoint()
                next_checkpoint_ms = self.clock.monotonic_ms() + self._checkpoint_interval_ms
            deadlines = [
                next_checkpoint_ms,
                flush_ms,
                now_ms + IDLE_LOOK_MS,
                *(deadline for deadline, _ in self._removals),
            ]
            await self._wait((min(deadlines) - self.clock.monotonic_ms()) / 1000)

    def look_after_directories(self) -> None:
        """A directory that was renamed or removed takes what is written to its open files along: whoever comes to its
        path next finds none of it, so nothing may be acknowledged any more."""
        now_ms = self.clock.monotonic_ms()
        if now_ms - self._looked_ms < LOOK_EVERY_MS:
            return
        self._looked_ms = now_ms
        for home in self._opened:
            if not home.offline and home.path in self._releases and not self.disk.is_in_place(f"{home.path}/{LOCK}"):
                home.fail("the directory was renamed or removed while it was served")

    async def _wait(self, seconds: float) -> None:
        self._wake.clear()
        if seconds > 0:
            # Not `wait_for`: on Python 3.11 it swallows a cancellation that comes together with the wake-up.
            try:
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
            except TimeoutError:
                return

    def sync_due(self, now_ms: int) -> int:
        """Ask for the syncs that `flush.ms` demands; when to look again."""
        next_ms = FOREVER
        for log in self.logs.values():
            flush_ms = int(log.settings.flush_ms)
            if flush_ms == FOREVER or log.offline:
                continue
            if log.unsynced_since_ms >= 0 and now_ms - log.unsynced_since_ms >= flush_ms:
                log.request_sync()
            next_ms = min(next_ms, now_ms + max(flush_ms, FLUSH_CHECK_MS_MIN))
        return next_ms

    async def remove_due(self, now_ms: int) -> None:
        """Remove the files and folders whose delay has passed."""
        due = [path for deadline, path in self._removals if deadline <= now_ms]
        if not due:
            return
        self._removals = [entry for entry in self._removals if entry[0] > now_ms]
        for path in await self.disk.off_loop(lambda: remove_all(self.disk, due)):
            self._remove_later(path, REMOVE_AGAIN_MS)

    async def checkpoint(self) -> None:
        """Write how far each log is known to be durable, and where it starts. One at a time: a checkpoint taken
        earlier must not overwrite one taken later."""
        async with self._checkpointing:
            for home in self.online():
                offsets = self._offsets_of(home)
                try:
                    await self.disk.off_loop(partial(self._write_checkpoints, home, offsets))
                except DiskFailed as error:
                    home.failed(error)

    def _offsets_of(self, home: LogDirectory) -> dict[TopicPartition, LogOffsets]:
        return {
            tp: LogOffsets(log.topic_id, int(log.durable_end_offset), int(log.start_offset))
            for tp, log in self.logs.items()
            if log.home is home
        }

    def _high_watermarks_in(self, home: LogDirectory) -> dict[TopicPartition, int]:
        return {
            tp: int(log.high_watermark if log.high_watermark >= 0 else log.end_offset)
            for tp, log in list(self.logs.items())
            if log.home is home
        }

    def _write_checkpoints(self, home: LogDirectory, offsets: dict[TopicPartition, LogOffsets]) -> None:
        with self._writing_checkpoints:
            write_known(self.disk, home.path, offsets)
            write_offsets(self.disk, f"{home.path}/{REPLICATION_CHECKPOINT}", self._high_watermarks_in(home))

    def describe(self) -> list[DirectoryDescription]:
        return [self._describe(home) for home in self.directories]

    def _describe(self, home: LogDirectory) -> DirectoryDescription:
        if home.offline:
            return DirectoryDescription(home.path, home.directory_id, True, home.reason)
        try:
            space = self.disk.space(home.path)
        except (DiskFailed, FileNotFoundError) as error:
            return DirectoryDescription(home.path, home.directory_id, True, str(error))
        logs = [
            LogDescription(log.topic, log.partition, log.size_bytes, is_future)
            for known, is_future in ((self.logs, False), (self._futures, True))
            for log in known.values()
            if log.home is home
        ]
        return DirectoryDescription(home.path, home.directory_id, False, "", space.total_bytes, space.free_bytes, logs)

    def _went_offline(self, home: LogDirectory) -> None:
        if self.on_offline is not None:
            self.on_offline(home)

    # --- closing -----------------------------------------------------------------------------------------------------

    async def close(self, broker_epoch: int = -1, *, unlock: bool = True) -> None:
        """Make everything durable, write the checkpoints and the clean-shutdown markers, release the locks."""
        if self._closed:
            return
        self._closed = True
        self._wake.set()
        self.flush_set.flush_all()
        await self.syncer.close()
        bugs: list[Exception] = []
        for home in self._opened:
            try:
                await self._close_directory(home, broker_epoch)
            except (DiskFailed, FileNotFoundError) as error:
                home.fail(f"cannot be closed: {error}")
            except Exception as error:
                bugs.append(error)  # told once the other directories are safe
        if unlock:
            self.unlock()
        if bugs:
            raise bugs[0]

    async def _close_directory(self, home: LogDirectory, broker_epoch: int) -> None:
        logs = [] if home.offline else [log for log in self.logs.values() if log.home is home]
        await close_logs(self.disk, logs, self._recovery_threads)
        if not home.offline:
            self._write_checkpoints(home, self._offsets_of(home))
            write_clean_marker(self.disk, home, broker_epoch)

    def unlock(self) -> None:
        """Leave the directories to whoever comes next."""
        for release in self._releases.values():
            release()
        self._releases.clear()
