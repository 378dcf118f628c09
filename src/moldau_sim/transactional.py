"""Transactional producers of both protocol generations, step by step, with everything that can happen in between.

Version 1 tells the coordinator of each partition by a call of its own and keeps its epoch; version 2 (KIP-890) does it
by writing, and gets a new epoch with each end. Every step is retried until it is answered for good or patience runs
out; then the transaction is aborted, and a producer of version 1 - whose late writes nothing but a new epoch keeps
out - asks to be let in anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moldau.model.errors import ErrorCode
from moldau.records.builder import BatchBuilder
from moldau.wire.apis import ApiKey
from moldau.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from moldau.wire.messages.end_txn import EndTxnRequest
from moldau.wire.messages.init_producer_id import InitProducerIdRequest
from moldau.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

from .client import GONE, Admin, split_tp
from .events import Commit, Session, Txn
from .history import make_value
from .producer import RETRIED
from .world import World

AGAIN = RETRIED | {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
}
OVER = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)
"""This producer is not the one the coordinator knows: let in anew, or gone."""
TO_ABORT = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)
NEWEST_V1 = {ApiKey.PRODUCE: 11, ApiKey.TXN_OFFSET_COMMIT: 4, ApiKey.END_TXN: 4, ApiKey.ADD_PARTITIONS_TO_TXN: 3}


class Fenced(Exception):
    """The session is over."""


class MustAbort(Exception):
    """The transaction cannot be committed any more."""

    def __init__(self, why: str, *, unresolved: bool = False) -> None:
        super().__init__(why)
        self.unresolved = unresolved
        """A step may still arrive, long after we stopped waiting for it."""


@dataclass(slots=True)
class TxnHabits:
    version: int = 2
    timeout_ms: int = 3000
    partitions_max: int = 3
    records_max: int = 3
    abort_probability: float = 0.25
    offsets_probability: float = 0.3
    delay_probability: float = 0.0
    """How often a request is held back while its sender goes on, on another connection."""
    abandon_probability: float = 0.0
    """How often a request without an answer is not tried again: the transaction is aborted with it under way."""
    nap_probability: float = 0.05
    """How often a producer sleeps in the middle: perhaps past its timeout, perhaps until it is replaced."""
    vanish_probability: float = 0.02
    patience_s: float = 6.0


class Transactional(Admin):
    """One transactional id's calls. What is decided between them is the business of whoever uses it."""

    def __init__(
        self, world: World, name: str, address: tuple[str, int], transactional_id: str, habits: TxnHabits
    ) -> None:
        super().__init__(world, name, address)
        self.transactional_id = transactional_id
        self.habits = habits
        self.producer_id, self.producer_epoch = -1, -1
        self.session = -1
        self.sequences: dict[str, int] = {}
        self.added: set[str] = set()
        self.count = 0
        self.txn: Txn | None = None
        self.was = (-1, -1)
        """Who this producer believes to be when it asks to be let in again (KIP-360)."""

    # -- one step ----------------------------------------------------------------------------------------------------

    async def step(self, key: ApiKey, message: Any, error_of: Callable[[Any], int]) -> Any:
        """Ask until there is an answer that stands."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.habits.patience_s
        newest = NEWEST_V1.get(key) if self.habits.version == 1 else None
        while True:
            sent_at = loop.time()
            error: ErrorCode | None = None
            try:
                response = await self._ask(key, message, newest)
                error = ErrorCode(error_of(response))
                self.world.trace.add(f"{self.name} {key.name} {self.producer_id}/{self.producer_epoch}: {error.name}")
            except GONE:
                pass
            if error is ErrorCode.NONE or error is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                if self.txn is not None:
                    self.txn.accepted.append((key.name, sent_at))
                return response
            if error is not None:
                self._refused(key, error)
            abandoned = error is None and self.chance.random() < self.habits.abandon_probability
            if abandoned or loop.time() > deadline:
                raise MustAbort(f"no answer to {key.name}", unresolved=True)
            await self.pause()

    async def _ask(self, key: ApiKey, message: Any, newest: int | None) -> Any:
        if self.chance.random() < self.habits.delay_probability:
            await self.hold_back(self.chance.choice((0.3, 1.0, 3.0)))
            return await self.request(key, message, newest=newest, timeout_s=self.chance.choice((0.1, 0.4)))
        return await self.request(key, message, newest=newest)

    def _refused(self, key: ApiKey, error: ErrorCode) -> None:
        if error in OVER:
            raise Fenced(error.name)
        if error in TO_ABORT:
            raise MustAbort(error.name)
        if error not in AGAIN:
            self.world.history.problem("refused", f"{self.name} {key.name}: {error.name}")
            raise Fenced(error.name)

    # -- the calls ---------------------------------------------------------------------------------------------------

    async def init(self) -> None:
        (producer_id, producer_epoch), self.was = self.was, (-1, -1)
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.habits.timeout_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        self.txn = None
        response = await self.step(ApiKey.INIT_PRODUCER_ID, request, lambda answer: int(answer.error_code))
        self.producer_id, self.producer_epoch = int(response.producer_id), int(response.producer_epoch)
        self.sequences.clear()
        sessions = self.world.history.coordination.sessions
        self.session = len(sessions)
        rank = (self.producer_id, self.producer_epoch)
        sessions.append(Session(self.session, self.transactional_id, self.world.loop.time(), rank))

    def begin(self) -> Txn:
        txns = self.world.history.coordination.txns
        self.txn = Txn(len(txns), self.transactional_id, self.session, self.world.loop.time())
        txns.append(self.txn)
        self.added.clear()
        return self.txn

    async def produce(self, tp: str, rows: Sequence[tuple[bytes | None, bytes]]) -> None:
        if self.habits.version == 1 and tp not in self.added:
            await self._add(tp)
        history, txn = self.world.history, self.txn
        assert txn is not None
        topic, index = split_tp(tp)
        builder = BatchBuilder(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.sequences.get(tp, 0),
            transactional=True,
        )
        sends = []
        now_ms = self.world.hosts[self.address[0]].clock.wall_ms()
        for key, value in rows:
            builder.append(key, value, timestamp=now_ms)
            send = history.send(f"{self.name}.{self.producer_id}.{self.producer_epoch}", tp, value, key)
            send.txn = txn.number
            sends.append(send)
        try:
            topic_id = await self.topic_id(topic)
        except GONE:
            raise MustAbort("no topic id") from None
        part = PartitionProduceData(index=index, records=builder.build())
        data = TopicProduceData(name=topic, topic_id=topic_id, partition_data=[part])
        request = ProduceRequest(transactional_id=self.transactional_id, acks=-1, timeout_ms=4000, topic_data=[data])
        response = await self.step(
            ApiKey.PRODUCE, request, lambda answer: int(answer.responses[0].partition_responses[0].error_code)
        )
        self.sequences[tp] = self.sequences.get(tp, 0) + len(sends)
        row = response.responses[0].partition_responses[0]
        for number, send in enumerate(sends):
            if row.base_offset >= 0:
                history.sent(send, int(row.base_offset) + number)

    async def _add(self, tp: str) -> None:
        topic, index = split_tp(tp)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[index])],
        )
        await self.step(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            request,
            lambda answer: int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code),
        )
        self.added.add(tp)

    async def commit_offsets(
        self,
        group: str,
        offsets: Mapping[str, int],
        generation: int = -1,
        member_id: str = "",
        instance_id: str | None = None,
    ) -> None:
        who: dict[str, Any] = {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "group_id": group,
        }
        if self.habits.version == 1:
            await self.step(
                ApiKey.ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest(**who), lambda answer: int(answer.error_code)
            )
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for tp, offset in offsets.items():
            topic, index = split_tp(tp)
            row = TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            topics.setdefault(topic, []).append(row)
        request = TxnOffsetCommitRequest(
            **who,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()],
        )
        assert self.txn is not None
        now = self.world.loop.time()
        commits = [
            Commit(group, tp, offset, generation, member_id or self.name, now, self.txn.number)
            for tp, offset in offsets.items()
        ]
        self.world.history.coordination.commits += commits
        await self.step(
            ApiKey.TXN_OFFSET_COMMIT,
            request,
            lambda answer: max(row.error_code for topic in answer.topics for row in topic.partitions),
        )
        for commit in commits:
            commit.outcome, commit.t_end = "ok", self.world.loop.time()

    async def end(self, *, commit: bool) -> None:
        txn = self.txn
        assert txn is not None
        if commit:
            txn.t_commit = self.world.loop.time()
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=commit,
        )
        response = await self.step(ApiKey.END_TXN, request, lambda answer: int(answer.error_code))
        txn.outcome, txn.t_end = "committed" if commit else "aborted", self.world.loop.time()
        self.txn = None
        if self.habits.version != 1:
            self.producer_id, self.producer_epoch = int(response.producer_id), int(response.producer_epoch)
            self.sequences.clear()

    async def abort_after(self, problem: MustAbort) -> None:
        """What clients do when a transaction cannot go on: abort it, and under version 1 begin a new session if
        something may still be under way."""
        txn = self.txn
        if txn is None or txn.t_commit < float("inf"):
            raise Fenced(f"in doubt after {problem}")
        if not self.added and self.habits.version == 1 and not problem.unresolved:
            raise Fenced("nothing to abort")
        try:
            await self.end(commit=False)
        except MustAbort as again:
            raise Fenced(f"cannot abort: {again}") from None
        if problem.unresolved and self.habits.version == 1:
            if self.chance.random() < 0.5:
                self.was = (self.producer_id, self.producer_epoch)
            raise Fenced("something is still under way")


class TransactionalWorker(Transactional):
    """Writes transactions over several partitions, dozes off, comes back as a zombie, or never comes back."""

    def __init__(
        self,
        world: World,
        name: str,
        address: tuple[str, int],
        transactional_id: str,
        tps: Sequence[str],
        habits: TxnHabits,
    ) -> None:
        super().__init__(world, name, address, transactional_id, habits)
        self.tps = list(tps)
        self.stopping = False
        self.committed = 0
        self.vanished = False
        self.position = 0

    def stop(self) -> None:
        self.stopping = True
        habits = self.habits
        habits.delay_probability = habits.nap_probability = habits.vanish_probability = habits.abandon_probability = 0.0

    async def run(self) -> None:
        """Until told to stop and one more transaction was committed (L1), or gone for good."""
        while not self.vanished:
            try:
                if self.producer_id < 0:
                    await self.init()
                last = self.stopping
                await self.transaction(commit=last or self.chance.random() >= self.habits.abort_probability)
                if last:
                    return
            except Fenced as why:
                await self._start_over(why)
            except MustAbort as problem:
                try:
                    await self.abort_after(problem)
                except Fenced as why:
                    await self._start_over(why)
            await asyncio.sleep(self.chance.uniform(0, 0.05))

    async def _start_over(self, why: Fenced) -> None:
        self.world.trace.add(f"{self.name} begins anew: {why}")
        self.producer_id = -1
        await asyncio.sleep(self.chance.uniform(0.05, 0.6))

    async def transaction(self, *, commit: bool) -> None:
        chance, habits = self.chance, self.habits
        txn = self.begin()
        tps = chance.sample(self.tps, chance.randint(1, min(habits.partitions_max, len(self.tps))))
        for tp in tps:
            rows: list[tuple[bytes | None, bytes]] = []
            for _ in range(chance.randint(1, habits.records_max)):
                self.count += 1
                rows.append((None, make_value(f"{self.name}~{txn.number}", self.count, chance.randint(0, 60))))
            await self.produce(tp, rows)
            if await self.between():
                return
        if chance.random() < habits.offsets_probability:
            self.position += 1
            await self.commit_offsets(f"g-{self.name}", {self.tps[0]: txn.number})
            if await self.between():
                return
        await self.end(commit=commit)
        self.committed += commit

    async def between(self) -> bool:
        """Between two steps: nothing, a nap, or the end of this producer. True when it vanished."""
        roll = self.chance.random()
        if roll < self.habits.vanish_probability:
            self.vanished = True
            self.hang_up()
            self.world.fabric.effects["producer vanished"] += 1
            return True
        if roll < self.habits.vanish_probability + self.habits.nap_probability:
            self.world.fabric.effects["nap"] += 1
            await asyncio.sleep(self.chance.choice((0.3, 1.0, self.habits.timeout_ms / 1000 + 1.0)))
        return False
