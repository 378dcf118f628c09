"""One Spark task of a write: Arrow batches in, transactional record batches out, the transaction left open.

Encoding happens on the task's thread, sending on the loop thread of the bridge: while one Arrow batch is encoded the
last ones are on the wire. The task does not end its transaction. Its message names it, and the driver decides.
"""

from __future__ import annotations

import concurrent.futures
import logging
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from moldau.client.cluster import Cluster
from moldau.client.decisions import task_transactional_id
from moldau.client.failures import BrokerRefused
from moldau.client.transactional import RecordWriter, TaskTransaction, begin, begin_idempotent
from moldau.client.two_phase import Coordinators
from moldau.model.errors import ErrorCode
from moldau.model.failures import MoldauError
from moldau.model.ids import TopicPartition
from moldau.records.column_encode import ColumnEncoder, RowRefused, SealedBatch
from moldau.spark.session import Contact, call, open_cluster, patiently, submit
from moldau.spark.sink.topics import TopicFacts, forget, topic_facts, transaction_timeout_ms_max

if TYPE_CHECKING:
    from moldau.spark.sink.options import RecordPlan, SinkOptions

TRANSACTION_TIMEOUT_MS: Final = 15 * 60_000
DELIVERY_TIMEOUT_MS: Final = 120_000
KEY_PREVIEW_BYTES: Final = 40

logger = logging.getLogger("moldau.spark")


class WriteFailed(MoldauError):
    """A task cannot write its rows. Nothing of them becomes visible."""


@dataclass(frozen=True)
class WriteJob:
    """What every task of a write must know. Picklable."""

    options: SinkOptions
    plan: RecordPlan

    @property
    def contact(self) -> Contact:
        return Contact.of(self.options.bootstrap, self.options.client)


@dataclass(frozen=True)
class TaskPlace:
    """Which task this is. `run` tells two incarnations of a query apart, so that they never share an id."""

    sink: str
    run: str
    partition: int
    attempt: int

    @property
    def transactional_id(self) -> str:
        """Used again by the next micro-batch of the run, so that ids do not pile up. Two attempts that live at the same
        time share it only when Spark repeats a whole stage: then the newer one fences the older."""
        return task_transactional_id(self.sink, self.run, f"{self.partition}.{self.attempt}")


@dataclass(frozen=True)
class TaskOutcome:
    """`transaction` None: the task had no rows, or wrote without a transaction."""

    transaction: TaskTransaction | None
    rows: int
    size_bytes: int


def write_rows(job: WriteJob, place: TaskPlace, batches: Iterator[Any]) -> TaskOutcome:
    """Write everything and leave the transaction open. Whatever fails is aborted first."""
    filled = (batch for batch in batches if batch.num_rows > 0)
    first = next(filled, None)
    if first is None:
        return TaskOutcome(None, 0, 0)
    task = _Task(job, place, call(_open_writer(job, place)))
    try:
        task.take(first)
        for batch in filled:
            task.take(batch)
        return task.finish()
    except BaseException:
        task.abandon()
        raise


class _Task:
    def __init__(self, job: WriteJob, place: TaskPlace, writer: RecordWriter) -> None:
        options = job.options
        self.job = job
        self.place = place
        self.contact = job.contact
        self.writer = writer
        self.encoder = ColumnEncoder(
            producer_id=writer.handle.producer_id,
            producer_epoch=writer.handle.producer_epoch,
            transactional=options.exactly_once,
            codec=options.codec,
            level=options.level,
            batch_bytes=options.batch_bytes,
            open_bytes_max=options.buffer_bytes,
        )
        self.topics: dict[str, int] = {}
        self.size_bytes = 0
        self.sending: concurrent.futures.Future[None] | None = None

    def topic_number(self, name: str) -> int:
        """The encoder's number of a topic; asks the cluster about topics that are new to this task."""
        if name not in self.topics:
            facts: TopicFacts = call(patiently(self.contact, lambda cluster: topic_facts(cluster, name)))
            self.topics[name] = self.encoder.add_topic(
                name,
                facts.partition_count,
                message_bytes_max=facts.message_bytes_max,
                # Short micro-batches would otherwise all fill partition 0.
                sticky=random.randrange(facts.partition_count),
            )
        return self.topics[name]

    def take(self, batch: Any) -> None:
        from moldau.spark.sink.columns import record_columns

        options, plan = self.job.options, self.job.plan
        rows_before = self.encoder.rows
        try:
            if options.topic is not None:
                self.topic_number(options.topic)
            columns = record_columns(batch, plan, self.topic_number, ignore_null_fields=options.ignore_null_fields)
            self.encoder.add(columns, time.time_ns() // 1_000_000)
        except RowRefused as refused:
            raise self._explained(refused, batch, rows_before) from None
        self._send(self.encoder.take())

    def finish(self) -> TaskOutcome:
        try:
            self.encoder.finish()
        except RowRefused as refused:
            raise self._explained(refused, None, 0) from None
        self._send(self.encoder.take())
        self._wait_sent()
        call(self.writer.flush())
        transaction = self.writer.handle if self.job.options.exactly_once else None
        return TaskOutcome(transaction, self.encoder.rows, self.size_bytes)

    def abandon(self) -> None:
        """Leave nothing visible. Failing at that is no worse: the driver's next commit and the timeout abort too."""
        if self.sending is not None:
            self.sending.cancel()
        try:
            call(_abort(self.contact, self.writer))
        except Exception as failure:  # the reason to abandon matters more than this one
            logger.warning("%s could not be aborted at once: %s", self.place.transactional_id, failure)

    def _send(self, sealed: Sequence[SealedBatch]) -> None:
        """Hand over to the loop thread; wait only if it still has the last ones, which bounds what lies around."""
        if not sealed:
            return
        self.size_bytes += sum(len(batch.data) for batch in sealed)
        self._wait_sent()
        self.sending = submit(_produce(self.writer, sealed))

    def _wait_sent(self) -> None:
        if self.sending is not None:
            sending, self.sending = self.sending, None
            sending.result()

    def _explained(self, refused: RowRefused, batch: Any, rows_before: int) -> WriteFailed:
        key = ""
        if batch is not None and self.job.plan.key is not None and refused.row >= rows_before:
            cell = batch.column(self.job.plan.key)[refused.row - rows_before].as_py()
            key = f" (key {preview(cell)})"
        return WriteFailed(
            f"row {refused.row} of Spark partition {self.place.partition}{key} cannot be written: {refused.why}. "
            + ("Nothing of this write is visible" if self.job.options.exactly_once else "Rows before it may be visible")
        )


def preview(cell: Any) -> str:
    text = repr(cell)
    return text if len(text) <= KEY_PREVIEW_BYTES else f"{text[:KEY_PREVIEW_BYTES]}..."


async def _produce(writer: RecordWriter, sealed: Sequence[SealedBatch]) -> None:
    for batch in sealed:
        await writer.produce(TopicPartition(batch.topic, batch.partition), batch.data, batch.count)


async def _abort(contact: Contact, writer: RecordWriter) -> None:
    forget(await open_cluster(contact))
    await writer.abort()


_coordinators: WeakKeyDictionary[Cluster, Coordinators] = WeakKeyDictionary()
"""Who coordinates which id, as earlier tasks of this process learned: ids come again with every micro-batch."""


async def _open_writer(job: WriteJob, place: TaskPlace) -> RecordWriter:
    cluster = await open_cluster(job.contact)
    options = job.options
    delivery_s = int(options.client.get("delivery.timeout.ms", DELIVERY_TIMEOUT_MS)) / 1000
    if not options.exactly_once:
        return await begin_idempotent(cluster, within_s=job.contact.api_timeout_s, delivery_timeout_s=delivery_s)
    asked = options.transaction_timeout_ms
    timeout_ms = TRANSACTION_TIMEOUT_MS if asked is None else asked
    while True:
        try:
            return await begin(
                cluster,
                place.transactional_id,
                timeout_ms=timeout_ms,
                within_s=job.contact.api_timeout_s,
                delivery_timeout_s=delivery_s,
                coordinators=_coordinators.setdefault(cluster, Coordinators(cluster)),
            )
        except BrokerRefused as refused:
            if refused.code is not ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise
            most = await transaction_timeout_ms_max(cluster)
            if asked is not None or most >= timeout_ms:
                raise WriteFailed(
                    f"the cluster refuses a transaction timeout of {timeout_ms} ms: its transaction.max.timeout.ms is "
                    f"{most}. Set the option kafka.transaction.timeout.ms to less"
                ) from None
            timeout_ms = most
