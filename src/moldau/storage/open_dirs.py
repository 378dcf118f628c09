"""Opening one entry of `log.dirs`: see whose it is, and recover its logs in parallel."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from moldau.core.log.settings import FOREVER
from moldau.model.failures import DiskFailed, MoldauError
from moldau.model.ids import NO_TOPIC_ID, TopicPartition
from moldau.ports import Chance, Clock, Disk
from moldau.storage.checkpoints import (
    MOLDAU,
    MetaProperties,
    decode_broker_epoch,
    decode_meta,
    decode_partition_metadata,
    encode_clean_shutdown,
    encode_meta,
    read_offsets,
)
from moldau.storage.directory import LogDirectory
from moldau.storage.findings import CHECKPOINT, OFFLINE, UNKNOWN, Finding
from moldau.storage.leftovers import segment_bases
from moldau.storage.names import (
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    CLUSTER_METADATA_DIR,
    DELETE_DIR_SUFFIX,
    FUTURE_DIR_SUFFIX,
    LOG_SUFFIX,
    META_PROPERTIES,
    PARTITION_METADATA,
    offset_name,
    parse_partition_dir,
)
from moldau.storage.offset_copy import KnownOffsets, read_known
from moldau.storage.partition_log import PartitionLog
from moldau.storage.recovery import LoadReport, load_log

told = logging.getLogger("moldau.storage")
MakeLog = Callable[[LogDirectory, str, str, int, bytes], PartitionLog]


@dataclass(slots=True)
class OpenProgress:
    """How far opening has come, over all directories seen so far."""

    directory: str = ""
    clean: bool = True
    logs_done: int = 0
    logs_total: int = 0
    segments_done: int = 0
    segments_total: int = 0
    bytes_done: int = 0
    bytes_total: int = 0
    problem: str = ""
    """The latest repair, in words."""


@dataclass(frozen=True, slots=True)
class DirectoryIdentity:
    """Who this broker is; a directory of somebody else is refused."""

    node_id: int
    cluster_id: str


@dataclass(frozen=True, slots=True)
class OpenedDirectory:
    logs: list[PartitionLog]
    clean: bool
    broker_epoch: int


class DirectoryOpener:
    """Opens directories one after the other, and the logs of each in parallel."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        identity: DirectoryIdentity,
        chance: Chance,
        make_log: MakeLog,
        threads: int,
        on_progress: Callable[[OpenProgress], None] | None,
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._identity = identity
        self._chance = chance
        self._make_log = make_log
        self._threads = max(1, threads)
        self._on_progress = on_progress
        self._progress = OpenProgress()
        self.findings: list[Finding] = []
        self.topic_id_of: Callable[[str], bytes | None] = lambda topic: None

    async def open(self, home: LogDirectory) -> OpenedDirectory:
        """Recover a directory that the caller has locked. Raises DiskFailed when it is another broker's, or broken."""
        self._check_identity(home)
        clean, broker_epoch = self._take_clean_marker(home)
        logs = await self._open_logs(home, clean)
        _tell_how(home.path, len(logs), clean)
        return OpenedDirectory(logs, clean, broker_epoch)

    def _check_identity(self, home: LogDirectory) -> None:
        path = f"{home.path}/{META_PROPERTIES}"
        try:
            meta = decode_meta(self._disk.read(path))
        except FileNotFoundError:
            meta = MetaProperties()
        mine = self._identity
        if meta.node_id not in (-1, mine.node_id):
            raise DiskFailed(
                f"{home.path} belongs to node {meta.node_id}, this is node {mine.node_id}. "
                f"Set node.id={meta.node_id}, or choose another data directory."
            )
        if meta.cluster_id and mine.cluster_id and meta.cluster_id != mine.cluster_id:
            raise DiskFailed(
                f"{home.path} belongs to cluster {meta.cluster_id}, this broker to {mine.cluster_id}. "
                "Choose another data directory."
            )
        directory_id = meta.directory_id if meta.directory_id != NO_TOPIC_ID else self._chance.randbytes(16)
        home.directory_id = directory_id
        home.signed = meta.written_by == MOLDAU
        wanted = MetaProperties(meta.cluster_id or mine.cluster_id, mine.node_id, directory_id, meta.written_by)
        if wanted != meta:
            self._disk.replace(path, encode_meta(wanted))

    def _take_clean_marker(self, home: LogDirectory) -> tuple[bool, int]:
        """Whether the directory was stopped cleanly, and by which broker epoch. From now on it counts as not."""
        path = f"{home.path}/{CLEAN_SHUTDOWN}"
        try:
            epoch = decode_broker_epoch(self._disk.read(path))
        except FileNotFoundError:
            # A directory without any log has nothing to recover.
            return not self._partition_dirs(home), -1
        self._disk.remove(path)
        self._disk.sync_dir(home.path)
        return True, epoch

    def _partition_dirs(self, home: LogDirectory) -> list[str]:
        """Folders of partitions. KRaft's own log and what is being deleted or moved are none."""
        return [
            name
            for name in self._disk.list(home.path)
            if name != CLUSTER_METADATA_DIR
            and parse_partition_dir(name) is not None
            and self._disk.is_dir(f"{home.path}/{name}")
        ]

    async def _open_logs(self, home: LogDirectory, clean: bool) -> list[PartitionLog]:
        for name in self._disk.list(home.path):
            # A move that did not finish is begun again by whoever asked for it.
            if name.endswith((DELETE_DIR_SUFFIX, FUTURE_DIR_SUFFIX)) and self._disk.is_dir(f"{home.path}/{name}"):
                await self._disk.off_loop(partial(self._disk.remove_tree, f"{home.path}/{name}"))
        names = self._partition_dirs(home)
        known = read_known(self._disk, home.path)
        for problem in known.problems:
            self._found(Finding(CHECKPOINT, "", UNKNOWN, UNKNOWN, UNKNOWN, 0, problem))
        cleaned = read_offsets(self._disk, f"{home.path}/{CLEANER_CHECKPOINT}")
        logs = [self._new_log(home, name) for name in names]
        for log in logs:
            tp = TopicPartition(log.topic, log.partition)
            self._expect(log, FOREVER if clean else known.of(tp, self._id_of(log)).recovery_point)
        self._progress.directory = home.path
        self._progress.clean = clean
        self._tell()
        waiting = list(reversed(logs))

        async def worker() -> None:
            while waiting:
                log = waiting.pop()
                tp = TopicPartition(log.topic, log.partition)
                await self._load(log, known, cleaned.get(tp, 0), clean)

        workers = [asyncio.ensure_future(worker()) for _ in range(min(self._threads, len(logs)))]
        try:
            for task in workers:
                await task
        finally:
            for task in workers:
                task.cancel()
        return logs

    def _expect(self, log: PartitionLog, recovery_point: int) -> None:
        """Count what opening a log will have to look at: all segments, and the bytes from the recovery point on."""
        bases = segment_bases(self._disk, log.path)
        self._progress.logs_total += 1
        self._progress.segments_total += len(bases)
        for base, following in zip(bases, [*bases[1:], FOREVER], strict=False):
            if following > recovery_point:
                self._progress.bytes_total += self._disk.size_bytes(f"{log.path}/{offset_name(base)}{LOG_SUFFIX}")

    def _new_log(self, home: LogDirectory, name: str) -> PartitionLog:
        parsed = parse_partition_dir(name)
        assert parsed is not None
        try:
            topic_id = decode_partition_metadata(self._disk.read(f"{home.path}/{name}/{PARTITION_METADATA}"))
        except FileNotFoundError:
            topic_id = NO_TOPIC_ID
        return self._make_log(home, name, parsed[0], parsed[1], topic_id)

    async def _load(self, log: PartitionLog, known: KnownOffsets, cleaned_offset: int, clean: bool) -> None:
        """Load one log. What is wrong with it alone takes it offline, and no other; a disk that fails is another
        matter."""
        _, recovery_point, start_offset = known.of(TopicPartition(log.topic, log.partition), self._id_of(log))
        now_ms = self._clock.wall_ms()
        loop = asyncio.get_running_loop()

        def segment_checked(size_bytes: int) -> None:
            loop.call_soon_threadsafe(self._count_bytes, size_bytes)

        def work() -> LoadReport:
            report = load_log(
                log,
                recovery_point,
                start_offset,
                clean,
                now_ms,
                segment_checked,
                cleaned_offset,
                known.certain,
                not known.served_by_others,
            )
            if log.durable_end_offset < log.end_offset:
                # What was found after a crash may still be in the page cache only.
                log.sync_now()
            return report

        try:
            report = await self._disk.off_loop(work)
        except DiskFailed:
            raise
        except Exception as error:
            report = self._leave_offline(log, error, start_offset, recovery_point)
        for finding in report.findings:
            self._found(finding)
        progress = self._progress
        progress.logs_done += 1
        progress.segments_done += report.segments
        progress.problem = report.problem or progress.problem
        self._tell()

    def _id_of(self, log: PartitionLog) -> bytes:
        return self.topic_id_of(log.topic) or log.topic_id

    def _leave_offline(self, log: PartitionLog, error: Exception, start_offset: int, recovery_point: int) -> LoadReport:
        reason = str(error) if isinstance(error, MoldauError) else f"{type(error).__name__}: {error}"
        if not isinstance(error, MoldauError):
            told.error("%s-%d could not be loaded", log.topic, log.partition, exc_info=error)
        log.fail(reason, start_offset, recovery_point)
        report = LoadReport()
        report.segments = len(log.segments)
        report.problem = reason
        size_bytes = log.size_bytes
        report.findings.append(
            Finding(OFFLINE, log.topic, log.partition, start_offset, recovery_point, size_bytes, reason)
        )
        return report

    def _found(self, finding: Finding) -> None:
        self.findings.append(finding)
        told.warning("%s", finding.text)

    def _count_bytes(self, size_bytes: int) -> None:
        self._progress.bytes_done += size_bytes
        self._tell()

    def _tell(self) -> None:
        if self._on_progress is not None:
            self._on_progress(self._progress)


def make_dirs_durably(disk: Disk, path: str) -> None:
    """Make a directory whose name survives a power loss, and so does that of every parent made on the way.

    The directory's own name is synced even if it is there: who made it may have been killed before syncing.
    """
    made = [path]
    while (parent := made[-1].rpartition("/")[0]) and not disk.is_dir(parent):
        made.append(parent)
    disk.make_dirs(path)
    for name in reversed(made):
        disk.sync_dir(name.rpartition("/")[0] or ("/" if name.startswith("/") else "."))


def sign_directory(disk: Disk, home: LogDirectory) -> None:
    """Say in the directory that it needs moldau's metadata: without it nobody knows how long records are kept."""
    path = f"{home.path}/{META_PROPERTIES}"
    disk.replace(path, encode_meta(replace(decode_meta(disk.read(path)), written_by=MOLDAU)))
    home.signed = True


def write_clean_marker(disk: Disk, home: LogDirectory, broker_epoch: int) -> None:
    disk.replace(f"{home.path}/{CLEAN_SHUTDOWN}", encode_clean_shutdown(broker_epoch))


def _tell_how(path: str, count: int, clean: bool) -> None:
    if count == 0:
        told.info("found no logs in %s", path)
        return
    how = "after a clean stop" if clean else "after an unclean stop, everything since the recovery points checked"
    told.info("opened %d %s in %s %s", count, "log" if count == 1 else "logs", path, how)
