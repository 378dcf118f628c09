"""The Spark side of writing: `df.write.format("moldau")` and `df.writeStream.format("moldau")`.

Tasks write, each in a transaction of its own, and hand it over open (`task`). The driver then decides the batch as
a whole (`client/decisions`). Nothing that is needed is remembered between two batches but in the broker: the process
that commits is Spark's to keep or to replace.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from moldau.client.transactional import TaskTransaction
from moldau.spark.option_reader import OptionsWrong
from moldau.spark.sink.commit import abort_batch, commit_all, commit_batch, settle_empty_batch
from moldau.spark.sink.options import SinkOptions, parse, plan_columns
from moldau.spark.sink.task import TaskPlace, WriteFailed, WriteJob, write_rows
from moldau.spark.telling import sentence_first
from moldau.spark.worker_process import keep_collections_short

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

QUERY_ID = "sql.streaming.queryId"
RUN_ID = "spark.jobGroup.id"
"""Spark runs each run of a query in a job group named by its run id."""

logger = logging.getLogger("moldau.spark")


@dataclass(frozen=True)
class TaskWrote(WriterCommitMessage):
    """What a task tells the driver. Small: a write may have thousands of tasks."""

    sink: str
    run: str
    transaction: tuple[str, int, int] | None
    """(transactional id, producer id, epoch); None: nothing to end."""
    rows: int
    size_bytes: int


class _Writing:
    """What both writers share."""

    def __init__(self, job: WriteJob, sink: str | None, run: str | None, *, streaming: bool) -> None:
        self.job = job
        self.sink = sink
        """Of a stream: only a name in front of the id of the query, which only tasks can see."""
        self.run = run
        self.streaming = streaming
        keep_collections_short()

    def write_task(self, batches: Iterator[pa.RecordBatch]) -> TaskWrote:
        place = self._place()
        wrote = write_rows(self.job, place, batches)
        transaction = None if wrote.transaction is None else tuple(wrote.transaction)
        keep_collections_short()
        return TaskWrote(place.sink, place.run, transaction, wrote.rows, wrote.size_bytes)

    def _place(self) -> TaskPlace:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise WriteFailed("a task of a write runs outside of Spark's tasks")
        query = context.getLocalProperty(QUERY_ID)
        # Inside of foreachBatch a batch write belongs to a run as well, and its ids can be used again.
        run = context.getLocalProperty(RUN_ID) if query is not None else None
        # A new checkpoint counts its batches from 0 again. With the id of the query, which lives in the checkpoint,
        # they are never taken for replays of batches under an older one.
        names = [self.sink, query if self.streaming else None]
        sink = ".".join(name for name in names if name is not None)
        if not sink:
            raise WriteFailed("Spark does not tell the id of the query: name the sink with the option sinkId")
        return TaskPlace(sink, run or self.run or sink, context.partitionId(), context.attemptNumber())

    def identity(self, wrote: Sequence[TaskWrote]) -> tuple[str, str] | None:
        """(sink, run); None when no task lived to tell."""
        if wrote:
            return wrote[0].sink, wrote[0].run
        return None if self.sink is None or self.run is None else (self.sink, self.run)

    def abort_all(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        wrote = told(messages)
        identity = self.identity(wrote)
        if self.job.options.exactly_once and identity is not None:
            abort_batch(self.job.contact, *identity, transactions_of(wrote))


class MoldauStreamWriter(DataSourceStreamArrowWriter):
    """Exactly once: a batch is decided once, whatever is replayed."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        # `overwrite` is what Spark says for the output mode complete: as in its Kafka sink every batch is appended.
        parsed = parse(options, streaming=True)
        self._writing = _Writing(WriteJob(parsed, plan_columns(parsed, schema)), parsed.sink_id, None, streaming=True)

    @sentence_first()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWrote:
        return self._writing.write_task(iterator)

    @sentence_first()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        job, wrote = self._writing.job, told(messages)
        identity = self._writing.identity(wrote)
        if not job.options.exactly_once or identity is None:
            return
        transactions = transactions_of(wrote)
        if transactions:
            commit_batch(job.contact, *identity, batchId, transactions)
        else:
            settle_empty_batch(job.contact, *identity)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self._writing.abort_all(messages)


class MoldauBatchWriter(DataSourceArrowWriter):
    """With txnAppId and txnVersion decided like a micro-batch; else all transactions are committed at the end."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        parsed = parse(options, streaming=False)
        if overwrite:
            raise OptionsWrong(["a topic can be written to, not overwritten: use mode('append')"])
        job = WriteJob(parsed, plan_columns(parsed, schema))
        # Pickled with the writer, so that all tasks and the commit know the same.
        self._writing = _Writing(job, batch_sink(parsed), uuid.uuid4().hex, streaming=False)

    @sentence_first()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWrote:
        return self._writing.write_task(iterator)

    @sentence_first()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        job, wrote = self._writing.job, told(messages)
        identity, transactions = self._writing.identity(wrote), transactions_of(wrote)
        if not job.options.exactly_once or identity is None:
            return
        version = job.options.txn_version
        if version is None:
            commit_all(job.contact, *identity, transactions)
        elif transactions:
            commit_batch(job.contact, *identity, version, transactions)
        else:
            settle_empty_batch(job.contact, *identity)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writing.abort_all(messages)


def batch_sink(options: SinkOptions) -> str:
    return options.sink_id or f"batch-{uuid.uuid4().hex}"


def told(messages: Sequence[Any]) -> list[TaskWrote]:
    """Messages of failed tasks are None."""
    return [message for message in messages if isinstance(message, TaskWrote)]


def transactions_of(wrote: Sequence[TaskWrote]) -> list[TaskTransaction]:
    return [TaskTransaction(*message.transaction) for message in wrote if message.transaction is not None]
