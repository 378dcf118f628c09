"""Making logs durable without holding up the loop: one sync at a time per directory, joined requests (group commit).

A request made while a sync runs waits for the next one, which then covers everything appended meanwhile, of every log
that asked. So the number of syncs follows the disk, not the number of producers.
"""

from __future__ import annotations

import asyncio
from typing import Final

from moldau.model.failures import DiskFailed, DiskHungry
from moldau.ports import Clock, Disk
from moldau.storage.directory import LogDirectory
from moldau.storage.log_state import LogState, SyncJob

HUNGRY_SECONDS: Final = 0.25
"""How long syncs wait after one that found no descriptor."""


class _Queue:
    """What waits for the next sync of one directory."""

    def __init__(self, home: LogDirectory) -> None:
        self.home = home
        self.waiting: dict[int, LogState] = {}
        self.next_round: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None


class Syncer:
    """Owns the sync task of each directory. A task lives while there is something to sync."""

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self._queues: dict[str, _Queue] = {}
        self._closing = False

    def attach(self, log: LogState) -> None:
        """Let `log` ask for syncs."""
        log.on_sync_wanted = self.request
        log.sync_waiter = self.sync
        log.monotonic_ms = self._clock.monotonic_ms

    def request(self, log: LogState) -> None:
        self._enqueue(log)

    async def sync(self, log: LogState) -> int:
        """Wait until what `log` holds now is durable. Raises DiskFailed when it cannot become so."""
        wanted = log.end_offset
        while log.durable_end_offset < wanted:
            if log.offline:
                raise DiskFailed(f"{log.path} is offline: {log.home.reason or 'closed'}")
            queue = self._enqueue(log)
            if queue.next_round is None:
                queue.next_round = asyncio.get_running_loop().create_future()
            await asyncio.shield(queue.next_round)
        return int(log.durable_end_offset)

    def _enqueue(self, log: LogState) -> _Queue:
        queue = self._queues.get(log.home.path)
        if queue is None:
            queue = self._queues[log.home.path] = _Queue(log.home)
        queue.waiting[id(log)] = log
        if queue.task is None:
            queue.task = asyncio.get_running_loop().create_task(self._run(queue), name=f"sync[{log.home.path}]")
        return queue

    async def _run(self, queue: _Queue) -> None:
        try:
            while queue.waiting and not queue.home.offline:
                if not await self._round(queue):
                    if self._closing:
                        return
                    await asyncio.sleep(HUNGRY_SECONDS)
        finally:
            queue.task = None

    async def _round(self, queue: _Queue) -> bool:
        """Sync what waits. False when it has to wait longer."""
        logs = list(queue.waiting.values())
        done, queue.next_round = queue.next_round, None
        queue.waiting = {}
        jobs: list[tuple[LogState, SyncJob]] = []
        try:
            for log in logs:
                if not log.closed:
                    jobs.append((log, log.begin_sync()))
            await self._disk.off_loop(lambda: _run_jobs([job for _, job in jobs]))
        except DiskHungry as error:
            queue.home.failed(error)
            for log, job in jobs:
                log.undo_sync(job)
            queue.waiting = {id(log): log for log in logs if not log.closed} | queue.waiting
            return False
        except (DiskFailed, FileNotFoundError) as error:
            # Never retried: after a failed sync the kernel may have dropped what it could not write.
            queue.home.fail(str(error))
        else:
            now_ms = self._clock.monotonic_ms()
            for log, job in jobs:
                log.finish_sync(job, now_ms)
        finally:
            if done is not None and not done.done():
                done.set_result(None)
        return True

    async def close(self) -> None:
        """Wait for syncs under way."""
        self._closing = True
        for queue in list(self._queues.values()):
            if queue.task is not None:
                await queue.task


def _run_jobs(jobs: list[SyncJob]) -> None:
    for job in jobs:
        job.run()
