"""Logs and batches for storage tests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from moldau.core.log.settings import LogSettings
from moldau.ports import Chance, Disk
from moldau.records.batch import BatchHeader, iterate_headers
from moldau.records.builder import BatchBuilder, build_end_marker
from moldau.records.reader import Record, read_batch
from moldau.storage.directory import LogDirectory
from moldau.storage.flush_set import FlushSet
from moldau.storage.log_dirs import LogDirs
from moldau.storage.partition_log import PartitionLog
from moldau.storage.recovery import LoadReport, load_log

NOW_MS = 1_000_000
TOPIC_ID = bytes(range(16))


class ManualClock:
    """Time passes by setting `time_ms`; somebody sets the clock by `jumped_ms`."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.time_ms = now_ms
        self.jumped_ms = 0

    def wall_ms(self) -> int:
        return self.time_ms + self.jumped_ms

    def monotonic_ms(self) -> int:
        return self.time_ms

    def era(self) -> str:
        return "test"


class SeededEntropy:
    def stream(self, name: str) -> Chance:
        return random.Random(name)


def batch(
    values: int | Sequence[tuple[bytes | None, bytes | None]] = 1,
    *,
    size: int = 20,
    timestamp: int = NOW_MS,
    step_ms: int = 0,
    **header: Any,
) -> bytes:
    """A batch as a producer sends it: `values` records, or the given (key, value) pairs."""
    pairs = [(b"key", b"v" * size)] * values if isinstance(values, int) else values
    builder = BatchBuilder(**header)
    for index, (key, value) in enumerate(pairs):
        builder.append(key, value, timestamp=timestamp + index * step_ms)
    return builder.build()


def sequenced(base_sequence: int, count: int = 1, *, producer_id: int = 7, epoch: int = 0, **more: Any) -> bytes:
    return batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=base_sequence, **more)


def marker(*, aborted: bool, producer_id: int = 7, epoch: int = 0) -> bytes:
    return build_end_marker(
        aborted=aborted, producer_id=producer_id, producer_epoch=epoch, coordinator_epoch=1, timestamp=NOW_MS
    )


def bare_log(disk: Disk, root: str, **settings: Any) -> PartitionLog:
    """A log object without segments; `load_log` or `add_segment` makes it usable."""
    path = f"{root}/t-0"
    disk.make_dirs(path)
    home = LogDirectory(root)
    return PartitionLog(disk, home, path, "t", 0, TOPIC_ID, LogSettings(**settings), random.Random(1), FlushSet())


def new_log(disk: Disk, root: str, **settings: Any) -> PartitionLog:
    log = bare_log(disk, root, **settings)
    log.add_segment(0, NOW_MS)
    return log


def reopen(
    log: PartitionLog, *, clean: bool = False, recovery_point: int = 0, start_offset: int = 0, now_ms: int = NOW_MS
) -> tuple[PartitionLog, LoadReport]:
    """The same folder, opened by another process."""
    fresh = PartitionLog(
        log.disk, LogDirectory(log.directory), log.path, log.topic, log.partition, log.topic_id, log.settings,
        random.Random(2), FlushSet(),
    )  # fmt: skip
    return fresh, load_log(fresh, recovery_point, start_offset, clean, now_ms)


def append(log: PartitionLog, records: bytes | memoryview, *, epoch: int = 0, now_ms: int = NOW_MS) -> int:
    """Append as a client does and answer the base offset."""
    outcome = log.append_as_leader(records, epoch, now_ms)
    assert outcome.error == 0, (outcome.error, outcome.detail)
    return int(outcome.base_offset)


def append_internal(log: PartitionLog, records: bytes, *, epoch: int = 0) -> int:
    outcome = log.append_as_leader(records, epoch, NOW_MS, False)
    assert outcome.error == 0, (outcome.error, outcome.detail)
    return int(outcome.base_offset)


def read_all(log: PartitionLog, *, start: int | None = None, size: int = 1 << 20) -> list[tuple[bytes, BatchHeader]]:
    """Every batch from `start`, read the way a consumer does."""
    found: list[tuple[bytes, BatchHeader]] = []
    offset = int(log.start_offset) if start is None else start
    while offset < log.end_offset:
        piece = log.read(offset, log.end_offset, size, True)
        assert piece.error == 0
        if not piece.parts:
            break
        data = b"".join(bytes(part) for part in piece.parts)
        assert len(data) == piece.size_bytes
        taken = 0
        for position, header in iterate_headers(data):
            found.append((data[position : position + header.size_bytes], header))
            taken += header.size_bytes
            offset = int(header.next_offset)
        assert taken == len(data), "a read ended inside a batch"
    return found


def all_records(log: PartitionLog) -> list[Record]:
    return [
        record
        for data, header in read_all(log)
        if not header.is_control
        for record in read_batch(data, 0, header)
        if record.offset >= log.start_offset
    ]


def log_dirs(disk: Disk, *paths: str, clock: ManualClock | None = None, **settings: Any) -> LogDirs:
    resolved = LogSettings(**settings)
    return LogDirs(disk, paths, clock or ManualClock(), lambda _: resolved, entropy=SeededEntropy(), cluster_id="c")


async def dirs_with_log(disk: Disk, *paths: str, **settings: Any) -> tuple[LogDirs, PartitionLog]:
    """Opened directories and one empty log, t-0, in them."""
    dirs = log_dirs(disk, *paths, **settings)
    await dirs.open()
    return dirs, dirs.create("t", TOPIC_ID, 0)


def kill(dirs: LogDirs) -> None:
    """What a killed process leaves: locks gone, nothing written."""
    dirs.flush_set.flush_all()
    for release in dirs._releases.values():
        release()
