"""Deciding a batch once, although its driver may die or be doubled at any moment.

A batch consists of transactions that its tasks left open. Committing it takes three steps that survive every crash:

    prepare   each transaction is taken over, so that its task cannot touch it any more, and loses its timeout (KIP-939)
    decide    one record in `__moldau_decisions`, written in a transaction of its own: before it nothing of the batch
              counts, after it all of it does
    finish    the decided transactions are committed, and a second record says that they are; whoever comes next
              finishes what this driver left unfinished

The second record is what lets ids be used again: as long as it is missing, nobody has written anything more under the
ids of the decision, so their coordinators still know what became of them.

A driver first takes over the sink's decision id. That fences every older driver: its decision either stands by then and
is seen, or will never stand. From then on it goes on from its own last commit for as long as nobody takes over from it:
the next decision cannot be written otherwise. Nothing is aborted unconditionally: an abort names the producer epoch
that was seen open while this driver still was the owner, and preparing changes that epoch. So a driver that was stopped
in the middle and wakes up after its successor cannot abort what the successor decided.

    committer = BatchCommitter(cluster, sink="orders")
    await committer.recover(run)                              # once, before the first task of this run begins
    id = task_transactional_id("orders", run, "0.0.0")        # for client/transactional.begin
    outcome = await committer.commit(batch=7, run=run, transactions=handles)
"""

from __future__ import annotations

import asyncio
import enum
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote

from moldau.client.cluster import Cluster
from moldau.client.decision_log import DecidedTransaction, Decision, decision_partition, judge, read_decisions
from moldau.client.failures import BrokerRefused
from moldau.client.patience import TRANSPORT_FAILURES, Patience
from moldau.client.transactional import TransactionalWriter, begin
from moldau.client.transactions import list_transactions
from moldau.client.two_phase import Coordinators, Described, Ended, NotPrepared, TaskTransaction
from moldau.model.errors import ErrorCode
from moldau.model.failures import WorldError
from moldau.model.ids import TopicPartition
from moldau.records.builder import BatchBuilder

PREFIX: Final = "moldau-sink:"
ONGOING: Final = "Ongoing"
COMMITTED: Final = frozenset({"PrepareCommit", "CompleteCommit"})
COMMIT_WITHIN_S: Final = 120.0
DECISION_TIMEOUT_MS: Final = 60_000
"""Of the transaction that holds the decision itself: it lives for a moment."""
PARALLEL_MAX: Final = 64
COMPRESS_FROM_BYTES: Final = 64 * 1024
GZIP: Final = 1

_FENCED: Final = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})

log = logging.getLogger("moldau.sink")
S = TypeVar("S")
T = TypeVar("T")


def decision_id(sink: str) -> str:
    """The transactional id under which the sink's drivers decide."""
    return PREFIX + quote(sink, safe="")


def run_prefix(sink: str, run: str) -> str:
    return f"{decision_id(sink)}:{quote(run, safe='')}:"


def task_transactional_id(sink: str, run: str, task: str) -> str:
    """`task` tells the attempts of a run apart that may live at the same time; later batches may use it again."""
    return run_prefix(sink, run) + task


class CommitOutcome(enum.Enum):
    DECIDED = "decided"
    FINISHED_EARLIER = "finished earlier"
    """The batch was decided before, with other transactions; those are committed, the ones given now aborted."""
    DROPPED = "dropped"
    """A later batch of this sink was decided already; the transactions given now are aborted."""


class SinkTakenOver(WorldError):
    """Another driver of the same sink has begun. What it finds undecided it aborts."""

    def __init__(self, sink: str) -> None:
        super().__init__(
            f"another query writes to the sink '{sink}' now, and decides what becomes of this one's last batch. "
            f"If two queries are meant to run at once, give each its own checkpoint (batch writes: its own txnAppId)"
        )
        self.sink = sink


class DecidedTransactionLost(WorldError):
    """A transaction of a decided batch was not committed. Cannot happen to prepared ones, unless by hand."""

    def __init__(self, sink: str, decision: Decision, transaction: DecidedTransaction, why: str) -> None:
        super().__init__(
            f"batch {decision.batch} of the sink '{sink}' was decided, but the transaction of "
            f"{transaction.transactional_id} (producer {transaction.writer_id}, epoch {transaction.writer_epoch}) "
            f"is not committed: {why}. Its records are missing in the output"
        )
        self.decision = decision
        self.transaction = transaction


class BatchTooLarge(WorldError):
    """The record of the decision does not fit."""


class _Held(NamedTuple):
    """The sink as this committer left it: what it decided last is finished, and `writer` writes what comes next."""

    batch: int
    partition: TopicPartition
    writer: TransactionalWriter


class BatchCommitter:
    """The driver's side of one sink. Holds no state that a successor would need; what it remembers of its own last
    commit only saves questions, and is worth nothing once somebody else has taken over."""

    def __init__(
        self,
        cluster: Cluster,
        sink: str,
        *,
        within_s: float = COMMIT_WITHIN_S,
        accepts_losses: bool = False,
        on_step: Callable[[str], None] = lambda _: None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.sink = sink
        self._cluster = cluster
        self._within_s = within_s
        self._accepts_losses = accepts_losses
        """Go on, with an error in the log, where a decided transaction was lost; else nothing goes on."""
        self._on_step = on_step
        """Told before and after every step that changes something: tests stop drivers there."""
        self._now_ms = now_ms
        self._coordinators = Coordinators(cluster)
        self._slots = asyncio.Semaphore(PARALLEL_MAX)
        self._held: _Held | None = None

    async def recover(self, run: str) -> int | None:
        """Before a run's first task: fence older drivers, finish what they decided, abort what they left undecided.
        The last decided batch, if any."""
        patience = Patience(self._within_s)
        self._held = None
        partition = await decision_partition(self._cluster, self.sink, patience)
        writer = await self._take_over(patience)
        last, writer = await self._last_decision(writer, partition, patience)
        log.info("run %s of the sink '%s' begins after batch %s", run, self.sink, "-" if last is None else last.batch)
        if last is not None:
            writer = await self._finish_last(last, writer, partition, patience)
        leftovers = await self._open_ones(decision_id(self.sink) + ":", (), patience)
        if leftovers:
            # Still the owner, after looking? Then none of them belongs to a successor.
            await self._confirm(writer, patience)
            await self._abort_all(leftovers, patience)
        return None if last is None else last.batch

    async def commit(self, batch: int, run: str, transactions: Sequence[TaskTransaction]) -> CommitOutcome:
        """Commit the batch exactly once. When this raises, the batch was either not decided, or it was and the next
        `commit` of the same batch (or `recover`) finishes it."""
        ours = tuple(transactions)
        if not ours:
            return CommitOutcome.DECIDED
        patience = Patience(self._within_s)
        held, self._held = self._held, None
        if held is not None and held.batch < batch:
            try:
                await self._commit_as_owner(held.writer, held.partition, batch, run, ours, patience)
                return CommitOutcome.DECIDED
            except SinkTakenOver as taken_over:
                await self._check_unharmed(ours, taken_over, patience)
        return await self._commit_anew(batch, run, ours, patience)

    async def _check_unharmed(
        self, ours: Sequence[TaskTransaction], taken_over: SinkTakenOver, patience: Patience
    ) -> None:
        """Was it only another process of the same query that committed a batch in between? A successor of the query
        would have ended what this one left open; then it must not be fenced in its turn."""
        try:
            await self._prepare_all(ours, patience)
        except NotPrepared:
            raise taken_over from None
        log.info("another process has committed to the sink '%s' meanwhile: looking anew", self.sink)

    async def _commit_anew(
        self, batch: int, run: str, ours: Sequence[TaskTransaction], patience: Patience
    ) -> CommitOutcome:
        """Without knowing what happened to the sink before."""
        partition = await decision_partition(self._cluster, self.sink, patience)
        await self._coordinators.find_many([one.transactional_id for one in ours], patience)
        writer = await self._take_over(patience)
        self._on_step("fenced")
        last, writer = await self._last_decision(writer, partition, patience)
        if last is not None:
            writer = await self._finish_last(last, writer, partition, patience)
            if last.batch >= batch:
                return await self._repeated(batch, run, ours, last, patience)
        await self._commit_as_owner(writer, partition, batch, run, ours, patience)
        return CommitOutcome.DECIDED

    async def _commit_as_owner(
        self,
        writer: TransactionalWriter,
        partition: TopicPartition,
        batch: int,
        run: str,
        ours: Sequence[TaskTransaction],
        patience: Patience,
    ) -> None:
        """The batch is later than the sink's last decision, which is finished. That the decision can be written with
        this writer proves that nobody has taken over since."""
        prepared, leftovers = await asyncio.gather(
            self._prepare_all(ours, patience),
            self._open_ones(decision_id(self.sink) + ":", [one.transactional_id for one in ours], patience),
        )
        handles = [
            DecidedTransaction(*(after or before), before.producer_id, before.producer_epoch)
            for before, after in zip(ours, prepared, strict=True)
        ]
        decision = Decision(batch, run, tuple(handles), prepared=all(prepared))
        if not decision.prepared:
            # Their epochs say nothing about who decided them: leave those of other runs to their timeout.
            own = run_prefix(self.sink, run)
            leftovers = [one for one in leftovers if one.transactional_id.startswith(own)]
        self._on_step("prepared")
        writer = await self._decide(decision, writer, partition, patience)
        self._on_step("decided")
        await asyncio.gather(self._finish(decision, patience), self._abort_all(leftovers, patience))
        self._on_step("finished")
        writer = await self._decide(replace(decision, finished=True), writer, partition, patience)
        self._on_step("noted")
        self._held = _Held(batch, partition, writer)

    async def abort(self, run: str, transactions: Sequence[TaskTransaction]) -> None:
        """Leave nothing of a failed batch behind: the given transactions and all others of this run, except those that
        a decision names. Fences nobody, so a driver that was replaced cannot disturb its successor with this."""
        patience = Patience(self._within_s)
        partition = await decision_partition(self._cluster, self.sink, patience)
        judged = judge(await read_decisions(self._cluster, partition, self.sink, patience))
        unfinished = [one for one in (judged.decided, *judged.open) if one is not None and not one.finished]
        named = {one.transactional_id for decision in unfinished for one in decision.transactions}
        extra = [one.transactional_id for one in transactions]
        open_ones = await self._open_ones(run_prefix(self.sink, run), named, patience, also=extra)
        await self._abort_all(open_ones, patience)

    # -- fence, decide -----------------------------------------------------------------------------------------

    async def _take_over(self, patience: Patience) -> TransactionalWriter:
        """Older drivers are fenced and whatever they had written undecided is aborted when this returns."""
        return await begin(
            self._cluster,
            decision_id(self.sink),
            timeout_ms=DECISION_TIMEOUT_MS,
            within_s=patience.left_s,
            delivery_timeout_s=self._within_s,
            coordinators=self._coordinators,
            spares_prepared=False,
        )

    async def _last_decision(
        self, writer: TransactionalWriter, partition: TopicPartition, patience: Patience
    ) -> tuple[Decision | None, TransactionalWriter]:
        """What stands. Of the owner nothing is open; so a record without an end either lost its marker to cleaning, or
        was written by a successor while this driver slept: then it is not the owner any more."""
        events = await read_decisions(self._cluster, partition, self.sink, patience)
        judged = judge(events)
        if not judged.open:
            return judged.decided, writer
        writer = await self._confirm(writer, patience)
        return judge(events, settled=True).decided, writer

    async def _confirm(self, writer: TransactionalWriter, patience: Patience) -> TransactionalWriter:
        """Raise if another driver has taken over."""
        try:
            handle = await self._coordinators.take_over(
                writer.handle.transactional_id, patience, timeout_ms=DECISION_TIMEOUT_MS, believed=writer.handle
            )
        except BrokerRefused as refusal:
            if refusal.code in _FENCED:
                raise SinkTakenOver(self.sink) from refusal
            raise
        return writer.following(handle)

    async def _decide(
        self, decision: Decision, writer: TransactionalWriter, partition: TopicPartition, patience: Patience
    ) -> TransactionalWriter:
        """The commit point: when this returns the record stands. The answer writes the next one."""
        value = decision.encode()
        builder = BatchBuilder(
            codec=GZIP if len(value) >= COMPRESS_FROM_BYTES else 0,
            producer_id=writer.handle.producer_id,
            producer_epoch=writer.handle.producer_epoch,
            base_sequence=writer.next_sequence(partition, 1),
            transactional=True,
        )
        builder.append(self.sink.encode(), value, (), self._now_ms())
        data = builder.build()
        try:
            await writer.produce(partition, data, 1)
            await writer.flush()
        except BrokerRefused as refusal:
            if refusal.code in _TOO_LARGE:
                raise BatchTooLarge(
                    f"the decision about {len(decision.transactions)} transactions takes {len(data)} bytes, more than "
                    f"max.message.bytes of {partition.topic}: write with fewer tasks, or raise it"
                ) from refusal
            if refusal.code in _FENCED:
                raise SinkTakenOver(self.sink) from refusal
            raise
        self._on_step("note written" if decision.finished else "written")
        ending = await self._coordinators.end_and_go_on(writer.handle, patience, commit=True)
        if ending.how is not Ended.YES:
            raise SinkTakenOver(self.sink)
        return writer.following(ending.following)

    # -- prepare, finish ---------------------------------------------------------------------------------------

    async def _prepare_all(
        self, transactions: Sequence[TaskTransaction], patience: Patience
    ) -> list[TaskTransaction | None]:
        prepared = await self._each(transactions, lambda one: self._coordinators.prepare(one, patience))
        unprepared = [one for one, after in zip(transactions, prepared, strict=True) if after is None]
        if unprepared:
            found = await self._coordinators.describe([one.transactional_id for one in unprepared], patience)
            for one in unprepared:
                _check_open(one, found.get(one.transactional_id))
        return prepared

    async def _finish(self, decision: Decision, patience: Patience) -> None:
        """Commit what was just decided."""
        await self._each(decision.transactions, lambda one: self._finish_one(decision, one, patience))

    async def _finish_one(self, decision: Decision, transaction: DecidedTransaction, patience: Patience) -> None:
        self._on_step("finishing")
        name, handle = transaction.transactional_id, transaction.handle
        while True:
            if await self._coordinators.end(handle, patience, commit=True) is Ended.YES:
                return
            found = (await self._coordinators.describe([name], patience)).get(name)
            if found is None or not found.is_prepared or patience.is_over:
                break
            # Still open, and another epoch speaks for it: a late copy of a request to prepare came through, or
            # another driver finishes the same decision.
            handle = await self._coordinators.prepare(transaction.written, patience) or handle
        why = loss(transaction, found, decision)
        if why is not None:
            lost = DecidedTransactionLost(self.sink, decision, transaction, why)
            if not self._accepts_losses:
                raise lost
            log.error("%s. Going on, as was asked for", lost)

    async def _finish_last(
        self, last: Decision, writer: TransactionalWriter, partition: TopicPartition, patience: Patience
    ) -> TransactionalWriter:
        """Before anything new is decided or written: nothing of the last decision may be left open."""
        if last.finished:
            return writer
        log.warning("batch %d of the sink '%s' was decided and is being finished now", last.batch, self.sink)
        await self._coordinators.find_many([one.transactional_id for one in last.transactions], patience)
        await self._finish(last, patience)
        return await self._decide(replace(last, finished=True), writer, partition, patience)

    async def _repeated(
        self, batch: int, run: str, ours: Sequence[TaskTransaction], last: Decision, patience: Patience
    ) -> CommitOutcome:
        """The batch, or a later one, was decided before: what was written for it now must not become visible."""
        await self._abort_all(await self._open_ones(run_prefix(self.sink, run), (), patience), patience)
        await self._abort_all([one for one in ours if not _is_named(one, last)], patience)
        self._on_step("repeated")
        if last.batch == batch:
            log.info("batch %d of the sink '%s' was decided before", batch, self.sink)
            return CommitOutcome.FINISHED_EARLIER
        log.warning("batch %d of the sink '%s' is dropped: %d was decided before", batch, self.sink, last.batch)
        return CommitOutcome.DROPPED

    # -- leftovers ---------------------------------------------------------------------------------------------

    async def _open_ones(
        self, prefix: str, except_ids: Iterable[str], patience: Patience, also: Sequence[str] = ()
    ) -> list[TaskTransaction]:
        """Open transactions whose id begins so, each with the epoch that speaks for it at this moment."""
        pauses = patience.pauses()
        while True:
            try:
                listed = await list_transactions(self._cluster, states=[ONGOING])
                break
            except (BrokerRefused, *TRANSPORT_FAILURES) as failure:
                await pauses.after(failure)
        excepted = set(except_ids)
        wanted = [row.transactional_id for row in listed if row.transactional_id.startswith(prefix)]
        names = [name for name in dict.fromkeys([*wanted, *also]) if name not in excepted]
        found = await self._coordinators.describe(names, patience) if names else {}
        return [
            TaskTransaction(name, row.producer_id, row.producer_epoch)
            for name, row in found.items()
            if row.state == ONGOING
        ]

    async def _abort_all(self, transactions: Sequence[TaskTransaction], patience: Patience) -> None:
        """Those that are still what they were; somebody else has seen to the others."""
        if transactions:
            log.info("aborting %d transactions of the sink '%s'", len(transactions), self.sink)
        await self._each(transactions, lambda one: self._coordinators.end(one, patience, commit=False))

    async def _each(self, items: Sequence[S], act: Callable[[S], Awaitable[T]]) -> list[T]:
        """A bounded number at a time. Waits for all; then raises the first failure."""

        async def one(item: S) -> T:
            async with self._slots:
                return await act(item)

        results = await asyncio.gather(*(one(item) for item in items), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [result for result in results if not isinstance(result, BaseException)]


# -- judgements, pure ------------------------------------------------------------------------------------------------


def _is_open(transaction: TaskTransaction, found: Described | None) -> bool:
    return (
        found is not None
        and found.state == ONGOING
        and (found.producer_id, found.producer_epoch) == (transaction.producer_id, transaction.producer_epoch)
    )


def _check_open(transaction: TaskTransaction, found: Described | None) -> None:
    if found is None:
        raise NotPrepared(transaction, "its coordinator does not know it")
    if not _is_open(transaction, found):
        raise NotPrepared(
            transaction, f"it is {found.state} with producer {found.producer_id} in epoch {found.producer_epoch}"
        )


def _is_named(ours: TaskTransaction, decision: Decision) -> bool:
    """Whether a decision means this very transaction, not an earlier one under the same id."""
    return any(one.written == ours for one in decision.transactions)


def loss(transaction: DecidedTransaction, found: Described | None, decision: Decision) -> str | None:
    """Why a decided transaction that cannot be committed any more must be taken for lost; None: it was committed.

    Asked only as long as nothing says that the decision is finished: until then nobody begins anything under its ids.
    """
    if found is None:
        # Ids are forgotten long after they came to rest, and nobody but a finisher brings a prepared one to rest.
        return None if decision.prepared else "its coordinator has forgotten it"
    went_on = (found.producer_id, found.producer_epoch) > (transaction.producer_id, transaction.producer_epoch + 1)
    if found.state in COMMITTED and (decision.prepared or not went_on):
        return None  # prepared again by another finisher, its epoch is a later one
    return f"it is {found.state} with producer {found.producer_id} in epoch {found.producer_epoch}"
