"""Background upkeep of the logs: retention and compaction."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from moldau.core.log.compaction import CleanPlan, dirtiest, plan_clean
from moldau.model.failures import CorruptBatch, DiskFailed, DiskFull, UnsupportedCodec
from moldau.model.ids import TopicPartition
from moldau.runtime.steady_clock import SteadyClock
from moldau.storage.checkpoints import read_offsets, write_offsets
from moldau.storage.clean_log import CleanerLimits, CleanReport, LogCleaning, Superseded
from moldau.storage.directory import LogDirectory
from moldau.storage.log_dirs import LogDirs
from moldau.storage.log_trim import facts_of
from moldau.storage.names import CLEANER_CHECKPOINT
from moldau.storage.partition_log import PartitionLog

RETENTION_INTERVAL_MS: Final = 300_000
BACKOFF_MS: Final = 15_000
FULL_BACKOFF_MS: Final = 300_000

told = logging.getLogger("moldau.cleaner")


class Cleaner:
    """Deletes what retention lets go and compacts the dirtiest logs, one at a time per worker."""

    def __init__(
        self,
        log_dirs: LogDirs,
        *,
        limits: CleanerLimits | None = None,
        enabled: bool = True,
        workers: int = 1,
        retention_interval_ms: int = RETENTION_INTERVAL_MS,
        backoff_ms: int = BACKOFF_MS,
        on_problem: Callable[[TopicPartition, str], None] | None = None,
        on_cleaned: Callable[[TopicPartition, CleanReport], None] | None = None,
        clock: SteadyClock | None = None,
    ) -> None:
        self.log_dirs = log_dirs
        self.limits = limits or CleanerLimits()
        self.retention_interval_ms = retention_interval_ms
        self.backoff_ms = backoff_ms
        self.uncleanable: dict[TopicPartition, str] = {}
        """Logs that could not be compacted, and why. They are left alone until the broker restarts."""
        self._enabled = enabled
        self._workers = max(1, workers)
        self._on_problem = on_problem
        self._on_cleaned = on_cleaned
        self._clock = clock
        self._cleaned: dict[str, dict[TopicPartition, int]] = {}
        self._under_way: set[TopicPartition] = set()
        self._writing = asyncio.Lock()
        self._told: dict[TopicPartition, str] = {}
        self._full_until_ms: dict[TopicPartition, int] = {}
        """Logs that found no room for their copy, and until when they wait (monotonic)."""
        self._told_full: set[str] = set()

    async def run(self) -> None:
        """Work until cancelled."""
        loops = [self._run_retention()]
        if self._enabled:
            loops += [self._run_compaction() for _ in range(self._workers)]
        await asyncio.gather(*loops)

    async def _run_retention(self) -> None:
        while True:
            await asyncio.sleep(self.retention_interval_ms / 1000)
            await self.retention_pass()

    async def _run_compaction(self) -> None:
        while True:
            if await self.clean_next() is None:
                await asyncio.sleep(self.backoff_ms / 1000)

    # --- retention ---------------------------------------------------------------------------------------------------

    async def retention_pass(self) -> int:
        """Apply retention to every log, and forget producers that expired; how many segments went."""
        deleted = 0
        for tp, log in list(self.log_dirs.logs.items()):
            if tp in self._under_way or log.offline:
                continue
            try:
                await self._know_times(log)
                deleted += log.delete_old_segments(self.log_dirs.clock.wall_ms(), self._may_judge_age(log))
            except DiskFailed as error:
                log.home.failed(error)
            except CorruptBatch as error:
                # A damaged segment keeps its log from being trimmed, not the broker from running.
                self._tell_once(tp, str(error))
            if self._clock is None or not self._clock.in_doubt:
                log.producers.expire(self.log_dirs.clock.wall_ms(), log.producer_expiration_ms)
            await asyncio.sleep(0)
        return deleted

    def _may_judge_age(self, log: PartitionLog) -> bool:
        settings = log.settings
        return self._clock is None or self._clock.may_delete_by_age(
            int(settings.retention_ms), stamped_here=settings.timestamp_log_append
        )

    async def _know_times(self, log: PartitionLog) -> None:
        """After a start the ages of segments come from their time indexes. There may be thousands: not all at once."""
        for segment in list(log.segments):
            if not segment.max_known and not log.offline:
                segment.know_max()
                await asyncio.sleep(0)

    # --- compaction --------------------------------------------------------------------------------------------------

    async def clean_next(self) -> CleanReport | None:
        """Compact the log that needs it most; None when none does."""
        plans: dict[str, tuple[TopicPartition, PartitionLog, CleanPlan]] = {}
        for tp, log in list(self.log_dirs.logs.items()):
            if not log.settings.compact or log.settings.held:
                continue
            plan = await self._plan_slowly(tp, log)
            if plan is not None:
                plans[str(tp)] = (tp, log, plan)
        name = dirtiest((name, plan, log.settings) for name, (_, log, plan) in plans.items())
        if name is None:
            return None
        tp, log, _ = plans[name]
        plan = self.plan(tp, log)  # again: others had their turn since
        return None if plan is None else await self.clean(tp, log, plan)

    async def _plan_slowly(self, tp: TopicPartition, log: PartitionLog) -> CleanPlan | None:
        """`plan`, with turns for others: a broker may have thousands of logs to look at."""
        try:
            await self._know_times(log)
        except CorruptBatch:
            pass  # `plan` meets it too, and tells
        except DiskFailed as error:
            log.home.failed(error)
        await asyncio.sleep(0)
        return self.plan(tp, log)

    def plan(self, tp: TopicPartition, log: PartitionLog) -> CleanPlan | None:
        """What compaction would do to a log; None when it is not to be compacted."""
        if not log.settings.compact or log.settings.held or log.offline:
            return None
        if tp in self.uncleanable or tp in self._under_way:
            return None
        if len(log.segments) < 2 or self._waits_for_room(tp):
            return None
        bound = log.first_unstable_offset()
        if log.high_watermark >= 0:
            bound = int(log.high_watermark) if bound is None else min(bound, int(log.high_watermark))
        try:
            facts = [facts_of(segment) for segment in log.segments]
            cleaned_offset = self._cleaned_in(log.home).get(tp)
        except DiskFailed as error:
            log.home.failed(error)
            return None
        except CorruptBatch as error:
            self.uncleanable[tp] = str(error)
            self._tell_once(tp, str(error))
            return None
        return plan_clean(
            facts,
            settings=log.settings,
            now_ms=self.log_dirs.clock.wall_ms(),
            cleaned_offset=cleaned_offset,
            start_offset=int(log.start_offset),
            end_offset=int(log.end_offset),
            first_unstable_offset=bound,
        )

    async def clean(self, tp: TopicPartition, log: PartitionLog, plan: CleanPlan) -> CleanReport | None:
        """Compact one log. A log that cannot be is set aside and reported, so that it does not block the others."""
        self._under_way.add(tp)
        cleaning = LogCleaning(self.log_dirs.disk, log, plan, self.limits, self.log_dirs.clock.wall_ms())
        try:
            report = await cleaning.run()
            await self._note_cleaned(tp, log, report.end_offset)
        except Superseded:
            return cleaning.report
        except DiskFull as error:
            self._wait_for_room(tp, log.home, str(error))
            return cleaning.report
        except (DiskFailed, FileNotFoundError) as error:  # the latter: the folder was removed by hand
            log.home.failed(error)
            return None
        except (CorruptBatch, UnsupportedCodec) as error:
            self.uncleanable[tp] = str(error)
            self._tell_once(tp, str(error))
            return cleaning.report
        finally:
            self._under_way.discard(tp)
        self._told_full.discard(log.home.path)
        if self._on_cleaned is not None:
            self._on_cleaned(tp, report)
        return report

    def _wait_for_room(self, tp: TopicPartition, home: LogDirectory, problem: str) -> None:
        """Compaction needs room before it gives any back. Nothing is lost without it: the unfinished copy is gone, the
        log is as it was, and the broker serves on."""
        self._full_until_ms[tp] = self.log_dirs.clock.monotonic_ms() + FULL_BACKOFF_MS
        if home.path not in self._told_full:
            self._told_full.add(home.path)
            told.warning("%s has no room to compact %s: %s. Tried again every few minutes.", home.path, tp, problem)

    def _waits_for_room(self, tp: TopicPartition) -> bool:
        until_ms = self._full_until_ms.get(tp)
        if until_ms is None:
            return False
        if self.log_dirs.clock.monotonic_ms() < until_ms:
            return True
        del self._full_until_ms[tp]
        return False

    def _tell_once(self, tp: TopicPartition, problem: str) -> None:
        if self._told.get(tp) != problem:
            self._told[tp] = problem
            if self._on_problem is not None:
                self._on_problem(tp, problem)

    def _cleaned_in(self, home: LogDirectory) -> dict[TopicPartition, int]:
        known = self._cleaned.get(home.path)
        if known is None:
            known = read_offsets(self.log_dirs.disk, f"{home.path}/{CLEANER_CHECKPOINT}")
            self._cleaned[home.path] = known
        return known

    async def forget(self, gone: Iterable[TopicPartition]) -> None:
        """Logs were deleted: one made later under the same name has not been cleaned at all."""
        gone = list(gone)
        for home in self.log_dirs.online():
            try:
                known = self._cleaned_in(home)
                if [tp for tp in gone if known.pop(tp, None) is not None]:
                    await self._write_cleaned(home)
            except DiskFailed as error:
                home.failed(error)

    async def _note_cleaned(self, tp: TopicPartition, log: PartitionLog, end_offset: int) -> None:
        self._cleaned_in(log.home)[tp] = end_offset
        await self._write_cleaned(log.home)

    async def _write_cleaned(self, home: LogDirectory) -> None:
        """One at a time: several workers, and deletions of topics, have something to note."""
        async with self._writing:
            offsets = {tp: offset for tp, offset in self._cleaned_in(home).items() if tp in self.log_dirs.logs}
            path = f"{home.path}/{CLEANER_CHECKPOINT}"
            await self.log_dirs.disk.off_loop(partial(write_offsets, self.log_dirs.disk, path, offsets))
