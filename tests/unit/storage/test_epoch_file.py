"""The history of leader epochs: nobody waits for the disk to take it, and a crash that lost it costs nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from moldau.ports import File
from moldau.runtime.disk import RealDisk, RealFile
from moldau.storage.names import EPOCH_CHECKPOINT

from .support import TOPIC_ID, append, batch, kill, log_dirs


class CountingDisk(RealDisk):
    """Counts what waits for the platter."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs: list[str] = []

    def open(self, path: str, *, create: bool = False) -> File:
        file = super().open(path, create=create)
        assert isinstance(file, RealFile)
        wait = file.sync

        def sync() -> None:
            self.syncs.append(path)
            wait()

        file.sync = sync  # type: ignore[method-assign]
        return file

    def sync_dir(self, path: str) -> None:
        self.syncs.append(path)
        super().sync_dir(path)


def test_the_first_append_of_an_epoch_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    async def act() -> None:
        disk = CountingDisk()
        dirs = log_dirs(disk, str(tmp_path))
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        disk.syncs.clear()
        append(log, batch(), epoch=3)
        append(log, batch(), epoch=5)
        assert disk.syncs == []
        assert disk.read(f"{log.path}/{EPOCH_CHECKPOINT}") == b"0\n2\n3 0\n5 1\n"
        await log.sync()
        assert f"{log.path}/{EPOCH_CHECKPOINT}" in disk.syncs
        assert log.path in disk.syncs, "its name too"
        await dirs.close()

    asyncio.run(act())


@pytest.mark.parametrize("left", ["", "0\n1\n3 0\n", "0\n2\n3", "\x00" * 12], ids=["empty", "old", "torn", "zeros"])
def test_a_crash_that_left_an_older_history_costs_nothing(disk: RealDisk, tmp_path: Path, left: str) -> None:
    async def act() -> None:
        dirs = log_dirs(disk, str(tmp_path))
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        append(log, batch(2), epoch=3)
        append(log, batch(), epoch=5)
        dirs.flush_set.flush_all()
        kill(dirs)
        disk.replace(f"{log.path}/{EPOCH_CHECKPOINT}", left.encode())
        again = log_dirs(disk, str(tmp_path))
        await again.open()
        (found,) = again.logs.values()
        assert found.epochs.entries == [(3, 0), (5, 2)]
        await again.close()

    asyncio.run(act())
