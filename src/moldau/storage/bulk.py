"""Work on many logs or files at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from moldau.model.failures import DiskFailed, DiskHungry
from moldau.ports import Disk
from moldau.storage.partition_log import PartitionLog

CLOSING_AT_ONCE: Final = 16
"""Closing is waiting for the disk, which makes many waiting syncs durable at one go."""


async def close_logs(disk: Disk, logs: Sequence[PartitionLog], threads: int) -> None:
    """Close all of them, many at a time. What one raises is raised after the others have had their turn."""
    at_once = min(max(threads, CLOSING_AT_ONCE), len(logs))
    homes = dict.fromkeys(log.directory for log in logs if log.folder_unsynced and not log.offline)
    waiting = list(reversed(logs))
    problems: list[Exception] = []

    async def worker() -> None:
        while waiting:
            try:
                await disk.off_loop(partial(waiting.pop().close, home_later=True))
            except Exception as error:
                problems.append(error)

    for task in [asyncio.ensure_future(worker()) for _ in range(at_once)]:
        await task
    for home in homes:  # once for all the new folders in it
        await disk.off_loop(partial(disk.sync_dir, home))
    if problems:
        raise problems[0]


def remove_all(disk: Disk, paths: Sequence[str]) -> list[str]:
    """Remove folders, and files by the pattern `<folder>/<20 digits>.*.deleted`. What is gone already is fine. Returns
    what is to be tried again."""
    again: list[str] = []
    for path in paths:
        folder, star, suffix = path.partition("*")
        try:
            if not star:
                disk.remove_tree(path)
                continue
            parent, _, prefix = folder.rpartition("/")
            for name in disk.list(parent):
                if name.startswith(prefix) and name.endswith(suffix):
                    disk.remove(f"{parent}/{name}")
        except DiskHungry:
            again.append(path)
        except (FileNotFoundError, DiskFailed):
            continue
    return again
