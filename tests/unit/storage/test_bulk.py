"""Closing many logs: the disk is asked for many at once, and for nothing twice."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from moldau.model.failures import DiskFailed
from moldau.ports import File
from moldau.runtime.disk import RealDisk
from moldau.storage.bulk import CLOSING_AT_ONCE
from moldau.storage.names import CLEAN_SHUTDOWN

from .support import TOPIC_ID, append, batch, log_dirs

LOGS = 2 * CLOSING_AT_ONCE


class MeetingDisk(RealDisk):
    """Its snapshots are opened only when so many logs are being closed at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.meeting: threading.Barrier | None = None
        self.synced: list[str] = []

    def open(self, path: str, *, create: bool = False) -> File:
        if self.meeting is not None and create and path.endswith(".snapshot"):
            self.meeting.wait(timeout=30)
        return super().open(path, create=create)

    def sync_dir(self, path: str) -> None:
        self.synced.append(path)
        super().sync_dir(path)


def test_many_logs_are_closed_at_once_and_their_directory_synced_once(tmp_path: Path) -> None:
    async def act() -> None:
        disk = MeetingDisk()
        dirs = log_dirs(disk, str(tmp_path))
        await dirs.open()
        for partition in range(LOGS):
            append(dirs.create("t", TOPIC_ID, partition), batch())
        disk.synced.clear()
        disk.meeting = threading.Barrier(CLOSING_AT_ONCE)
        await dirs.close()
        folders = [path for path in disk.synced if path != str(tmp_path)]
        assert sorted(folders) == sorted(log.path for log in dirs.logs.values())
        assert len(disk.synced) - len(folders) < LOGS // 2, (
            "once for the new folders; the rest are checkpoints and the marker"
        )
        again = log_dirs(RealDisk(), str(tmp_path))
        await again.open()
        assert again.clean_start
        assert {log.end_offset for log in again.logs.values()} == {1}
        await again.close()

    asyncio.run(act())


class FailingDisk(RealDisk):
    def __init__(self) -> None:
        super().__init__()
        self.broken = ""

    def sync_dir(self, path: str) -> None:
        if path == self.broken:
            raise DiskFailed(f"cannot sync {path}")
        super().sync_dir(path)


@pytest.mark.parametrize("broken", ["a", "a/t-2"], ids=["the directory", "one log in it"])
def test_a_directory_that_could_not_be_closed_whole_counts_as_not_closed(tmp_path: Path, broken: str) -> None:
    async def act() -> None:
        disk = FailingDisk()
        homes = [str(tmp_path / "a"), str(tmp_path / "b")]
        dirs = log_dirs(disk, *homes)
        await dirs.open()
        for partition in range(LOGS):
            append(dirs.create("t", TOPIC_ID, partition, homes[partition % 2]), batch())
        disk.broken = str(tmp_path / broken)
        await dirs.close()
        assert [disk.exists(f"{home}/{CLEAN_SHUTDOWN}") for home in homes] == [False, True]

    asyncio.run(act())
