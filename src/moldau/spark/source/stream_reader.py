"""`spark.readStream.format("moldau")`: one object in one long-lived process plans all micro-batches of a query."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from moldau.client.cluster import Cluster
from moldau.model.ids import TopicPartition
from moldau.spark.session import Contact, with_cluster
from moldau.spark.source import log_ends, plan
from moldau.spark.source.batch_reader import read_partition, report, share
from moldau.spark.source.loss import NOT_SUBSCRIBED, Loss
from moldau.spark.source.offsets import Offsets, from_document, to_document
from moldau.spark.source.options import SourceOptions
from moldau.spark.source.plan import Snapshot
from moldau.spark.telling import sentence_first

T = TypeVar("T")

COMMIT_PAUSE_S: Final = 10.0
"""After a commit that failed the group is left alone for a while: it must not slow the query down."""
COMMIT_AGAIN_S: Final = 300.0
"""A query with nothing to do says so now and then, or it would look stopped and its offsets would expire."""


class MoldauStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark pickles one copy for the executors at query start; what is set later stays in the planning process."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.settings = options.read_settings()
        self._initial: Offsets | None = None
        self._targets: Offsets | None = None
        self._seen: Snapshot | None = None
        self._planned: tuple[dict[str, Any], Snapshot] | None = None
        self._last_batch_s = float("-inf")
        self._committed: Mapping[TopicPartition, int] = {}
        self._committed_s = float("-inf")
        self._commit_again_s = 0.0
        self._told: set[Loss] = set()

    # -- where to begin ----------------------------------------------------------------------------------------------

    @sentence_first()
    def initialOffset(self) -> dict[str, Any]:
        """Asked more than once, also while a restarted query repeats its first batch: answered once."""
        if self._initial is None:
            self._initial = self._ask(self._resolve_initial, "looking up the starting offsets")
        return to_document(self._initial)

    async def _resolve_initial(self, cluster: Cluster) -> Offsets:
        options = self.options
        now = await log_ends.take(cluster, options, strict=True)
        found = await log_ends.resolve(
            cluster,
            options.starting,
            now,
            now_ms=int(time.time() * 1000),
            read_committed=options.read_committed,
        )
        return now.offsets(found, initial=True)

    # -- how far to go -----------------------------------------------------------------------------------------------

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.min_offsets_per_trigger is not None:
            return ReadMinRows(self.options.min_offsets_per_trigger)
        return ReadAllAvailable()

    @sentence_first()
    def prepareForTriggerAvailableNow(self) -> None:
        async def pin(cluster: Cluster) -> Offsets:
            now = await log_ends.take(cluster, self.options)
            return now.offsets(now.latest)

        self._targets = self._ask(pin, "looking up the end of the topics")

    @sentence_first()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch; equal to `start` when there is nothing to do. All before `start` is done."""
        begin = from_document(start)
        now = self._ask(lambda cluster: self._look(cluster, begin), "looking up the end of the topics")
        first = Offsets(begin.partitions, begin.topic_ids) if begin.initial else None
        if first is not None and self.options.starting.depends_on_now:
            # Only the ends of batches go into the checkpoint. A beginning that depends on the time must be in it soon,
            # whether records come or not, so it becomes the end of an empty first batch.
            return self._plan(replace(first, start=first), now)
        positions, losses = plan.positions(begin, now)
        self._report(losses)
        limited = not isinstance(limit, ReadAllAvailable)
        available = plan.batch_end(begin, positions, now, targets=self._targets)
        if limited and self._waits(plan.waiting_records(positions, available)):
            return start
        end = available
        if limited and self.options.max_offsets_per_trigger is not None:
            most = self.options.max_offsets_per_trigger
            end = plan.batch_end(begin, positions, now, targets=self._targets, records_max=most)
        if first is None and (end.partitions, end.topic_ids) == (begin.partitions, begin.topic_ids):
            return start
        return self._plan(replace(end, start=first), now)

    def _plan(self, end: Offsets, now: Snapshot) -> dict[str, Any]:
        document = to_document(end)
        self._planned = (document, now)
        return document

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return to_document(self._seen.offsets(self._seen.latest)) if self._seen is not None else None

    async def _look(self, cluster: Cluster, begin: Offsets) -> Snapshot:
        """A snapshot, and meanwhile tell the group how far the query is."""
        if self._seen is None:
            strict = self.options.fail_on_data_loss
            now = await log_ends.take(cluster, self.options, expected=begin, strict=strict)
            await self._commit(cluster, begin, now)
        else:
            now, _ = await asyncio.gather(
                log_ends.take(cluster, self.options, expected=begin), self._commit(cluster, begin, self._seen)
            )
        self._seen = now
        return now

    def _waits(self, records: int) -> bool:
        """minOffsetsPerTrigger and maxTriggerDelay: better a larger batch later, but not too late."""
        least = self.options.min_offsets_per_trigger
        if least is None or self._targets is not None:
            return False
        now_s = time.monotonic()
        overdue = (now_s - self._last_batch_s) * 1000 >= self.options.max_trigger_delay_ms
        if records < least and not overdue:
            return True
        self._last_batch_s = now_s
        return False

    # -- what to read ------------------------------------------------------------------------------------------------

    @sentence_first()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        until = from_document(end)
        begin = until.start or from_document(start)
        ranges, losses = plan.ranges(begin, until, self._snapshot_for(end, until))
        self._report(losses)
        return share(self.options, ranges)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(self.settings, partition)

    def _snapshot_for(self, end: dict[str, Any], until: Offsets) -> Snapshot:
        """The one the end was taken from; a batch that is repeated after a restart needs a new one."""
        if self._planned is None or self._planned[0] != end:
            now = self._ask(
                lambda cluster: log_ends.take(cluster, self.options, expected=until), "looking up the end of the topics"
            )
            self._planned = (end, now)  # Spark may plan a batch more than once
        return self._planned[1]

    # -- what is done ------------------------------------------------------------------------------------------------

    @sentence_first()
    def commit(self, end: dict[str, Any]) -> None:
        """Spark calls it late, while it plans the batch after; usually `latestOffset` has told the group already."""
        done, seen = from_document(end), self._seen
        if seen is not None:
            self._ask(lambda cluster: self._commit(cluster, done, seen), "committing to the group")

    async def _commit(self, cluster: Cluster, done: Offsets, seen: Snapshot) -> None:
        progress = {p: offset for p, offset in done.partitions.items() if p in seen.earliest}
        now_s = time.monotonic()
        known = progress == self._committed and now_s < self._committed_s + COMMIT_AGAIN_S
        if not self.options.group or not progress or known or now_s < self._commit_again_s:
            return
        if await log_ends.commit_progress(cluster, self.options.group, progress):
            self._committed, self._committed_s = progress, now_s
        else:
            self._commit_again_s = time.monotonic() + COMMIT_PAUSE_S

    # -- inside ------------------------------------------------------------------------------------------------------

    def _ask(self, work: Callable[[Cluster], Awaitable[T]], what: str) -> T:
        return with_cluster(Contact.of(self.options.bootstrap, self.options.client), work, what=what)

    def _report(self, losses: Sequence[Loss]) -> None:
        """Once for each: a batch is looked at when its end is chosen and when it is planned."""
        losses = [self._explained(loss) for loss in losses]
        report([loss for loss in losses if loss not in self._told], fail=self.options.fail_on_data_loss)
        self._told = set(losses)

    def _explained(self, loss: Loss) -> Loss:
        """What is not found may exist and only be left out of the options since the query was last started."""
        named = self.options.subscription.includes(TopicPartition(loss.topic, loss.partition))
        return loss if named else replace(loss, reason=NOT_SUBSCRIBED)
