"""`spark.read.format("moldau")`: from options to the offsets that tasks read."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from moldau.client.cluster import Cluster
from moldau.model.ids import TopicPartition
from moldau.spark.option_reader import OptionsWrong
from moldau.spark.session import Contact, with_cluster
from moldau.spark.source import log_ends, plan
from moldau.spark.source.loss import BATCH_ADVICE, Loss, SourceDataLost
from moldau.spark.source.options import SourceOptions
from moldau.spark.source.positions import Anchor
from moldau.spark.telling import sentence_first
from moldau.spark.types import OffsetRange, ReadSettings
from moldau.spark.worker_process import keep_collections_short, keep_freed_memory

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger("moldau.spark")


@dataclass
class OffsetsPartition(InputPartition):
    """What one task reads."""

    ranges: tuple[OffsetRange, ...]


def read_partition(settings: ReadSettings, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Runs on executors. Spark makes a partition of its own where there is nothing to read."""
    if isinstance(partition, OffsetsPartition):
        from moldau.spark.fetch.read import read_ranges

        keep_freed_memory()
        with sentence_first():
            yield from read_ranges(settings, partition.ranges)
        keep_collections_short()


def parallelism() -> int:
    """How many tasks run at once, as far as the driver can tell: its own cores, which is right for local masters."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux has it
        return os.cpu_count() or 1


def share(options: SourceOptions, ranges: Sequence[OffsetRange]) -> list[InputPartition]:
    """One input partition for each task."""
    tasks = plan.tasks(
        ranges,
        parallelism=parallelism(),
        tasks_min=options.min_partitions,
        task_records_max=options.max_records_per_partition,
    )
    return [OffsetsPartition(tuple(task)) for task in tasks]


def report(losses: Sequence[Loss], *, fail: bool, what_to_do: str | None = None) -> None:
    """Raise where a promise is broken, or say the same as a warning and go on."""
    broken = [loss for loss in losses if loss.breaks_a_promise]
    if broken and fail:
        raise SourceDataLost(broken, what_to_do)
    for loss in losses:
        why = "going on because failOnDataLoss=false" if loss.breaks_a_promise else "going on"
        logger.warning("data loss, %s: %s", why, loss.sentence())


class MoldauBatchReader(DataSourceReader):
    """Reads from the starting to the ending limit, both looked up when the frame is planned (see `spark.current`).

    It takes no filters, on purpose: Spark keeps one plan for all scans of a `load()` and does not say which scan it
    reads for, so a filter taken for one of them would hold for the others too.
    """

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self.settings = options.read_settings(planned_once=True)

    @sentence_first()
    def partitions(self) -> list[InputPartition]:
        contact = Contact.of(self.options.bootstrap, self.options.client)
        ranges = with_cluster(contact, self._ranges, what="planning the read")
        keep_collections_short()
        return share(self.options, ranges)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(self.settings, partition)

    async def _ranges(self, cluster: Cluster) -> list[OffsetRange]:
        options = self.options
        now = await log_ends.take(cluster, options, strict=True)
        now_ms = int(time.time() * 1000)
        starts, ends = [
            await log_ends.resolve(cluster, limit, now, now_ms=now_ms, read_committed=options.read_committed)
            for limit in (options.starting, options.ending)
        ]
        self._check_order(starts, ends)
        expected = now.offsets(ends)
        if options.read_committed and any(end > now.latest[p] for p, end in ends.items()):
            # Held back by an open transaction, or never written? The high watermark tells.
            now = await log_ends.take(cluster, options, expected=expected)
        ranges, losses = plan.ranges(now.offsets(starts), expected, now)
        report(losses, fail=options.fail_on_data_loss, what_to_do=BATCH_ADVICE)
        return ranges

    def _check_order(self, starts: dict[TopicPartition, int], ends: dict[TopicPartition, int]) -> None:
        exact = (Anchor.OFFSETS, Anchor.EXACT)
        if self.options.starting.anchor not in exact:
            return
        crossed = [p for p, start in starts.items() if start > ends[p]]
        if crossed:
            told = ", ".join(f"{p} (starts at {starts[p]}, ends at {ends[p]})" for p in crossed[:10])
            raise OptionsWrong([f"the starting offset is after the ending offset in {told}"])
