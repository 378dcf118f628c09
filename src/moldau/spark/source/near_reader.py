"""Small micro-batches without tasks in Python: the planning process fetches them itself and hands them to Spark.

A Python worker on an executor costs a micro-batch some 50 ms, whatever it reads. The planning process is warm and
connected already, so it reads a batch of a few records faster than it could ask somebody else to. Spark has a way for
that, made for its simple readers: rows may come along with the plan, and the plan's partition is read by an executor
only where those rows are gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyspark.sql.datasource import InputPartition
from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper

from moldau.spark.source.batch_reader import OffsetsPartition
from moldau.spark.source.options import SourceOptions
from moldau.spark.source.stream_reader import MoldauStreamReader

NEAR_BYTES_MAX: Final = 1 << 20
"""Rows that come with the plan pass through the driver: more than this and tasks are the better way."""


class MoldauNearReader(MoldauStreamReader):
    """Spark asks `getCache` right after `partitions` where it takes the reader for a simple one.

    It must do so only when rows are ready: of simple readers it does not want to know how far the topics go, and a
    query's progress would not tell.
    """

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._rows: list[Any] | None = None
        self._record_bytes = 0.0

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What `isinstance` believes. `getattr`: it is also asked while the object is being unpickled."""
        ready = getattr(self, "_rows", None) is not None
        return _SimpleStreamReaderWrapper if ready else MoldauNearReader

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._rows = None
        planned = super().partitions(start, end)
        ranges = [part for task in planned if isinstance(task, OffsetsPartition) for part in task.ranges]
        if not self._looks_small(sum(part.end - part.start for part in ranges)):
            return planned
        whole = OffsetsPartition(tuple(ranges))
        self._rows = self._read_near(whole)
        # Rows come with exactly one partition, which stands for all of them.
        return planned if self._rows is None else [whole]

    def getCache(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Any] | None:
        rows, self._rows = self._rows, None
        return None if rows is None else iter(rows)

    def _looks_small(self, records: int) -> bool:
        most = min(self.options.near_records_max, self.options.max_records_per_partition or records)
        if self.options.min_partitions is not None or not 0 < records <= most:
            return False
        if records * self._record_bytes <= NEAR_BYTES_MAX:
            return True
        # Forgotten by and by, so that large records once upon a time do not decide for ever.
        self._record_bytes *= 0.99
        return False

    def _read_near(self, partition: OffsetsPartition) -> list[Any] | None:
        """The batch's rows, or None as soon as they turn out to be too many bytes."""
        rows: list[Any] = []
        size_bytes = count = 0
        for batch in self.read(partition):
            rows.append(batch)
            count += batch.num_rows
            size_bytes += batch.nbytes
            if size_bytes > NEAR_BYTES_MAX:
                self._record_bytes = size_bytes / max(count, 1)
                return None
        self._record_bytes = size_bytes / count if count else self._record_bytes / 2
        return rows
