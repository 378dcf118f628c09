"""Transactional producers that take part in an outside two-phase commit (KIP-939): each transaction is taken over, then
decided, and only then ended, however long that takes. What was decided must come true."""

from __future__ import annotations

import asyncio

from moldau.client.connection import BrokerConnection
from moldau.wire.apis import ApiKey
from moldau.wire.messages.init_producer_id import InitProducerIdRequest

from .transactional import Fenced, MustAbort, TransactionalWorker

NO_TIMEOUT_MS = 2**31 - 1
LONG_PROBABILITY = 0.3
"""How often more time passes between decision and end than the transaction was given at its begin."""


class TwoPhaseWorker(TransactionalWorker):
    """Is the writer and the outside coordinator in turn, with a connection for each: the coordinator's grows old while
    those of writers are given up and made anew."""

    in_trouble = False
    _other_connection: BrokerConnection | None = None

    def _change_sides(self) -> None:
        self._connection, self._other_connection = self._other_connection, self._connection

    async def _start_over(self, why: Fenced) -> None:
        # The next writer is another process. On a connection from before a keeping that nobody followed up, its
        # beginning would be taken for a late copy.
        self.hang_up()
        await super()._start_over(why)

    async def abort_after(self, problem: MustAbort) -> None:
        self.in_trouble = True
        try:
            await super().abort_after(problem)
        finally:
            self.in_trouble = False

    async def end(self, *, commit: bool) -> None:
        if self.in_trouble:
            await super().end(commit=commit)
            return
        self._change_sides()
        try:
            await self._end_from_outside(commit)
        finally:
            self._change_sides()

    async def _end_from_outside(self, commit: bool) -> None:
        writer = (self.producer_id, self.producer_epoch)
        if not await self._take_over(writer):
            raise Fenced("the transaction was over before it could be prepared")
        self.world.fabric.effects["prepared"] += 1
        if self.chance.random() < LONG_PROBABILITY:
            await asyncio.sleep(self.habits.timeout_ms / 1000 + 1.0)
        await self._finish(writer, commit)
        self.producer_id = -1  # the next transaction has a timeout again

    async def _take_over(self, writer: tuple[int, int]) -> bool:
        """Whether the transaction is still the one that was written; then this producer may end it."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=NO_TIMEOUT_MS,
            enable2_pc=True,
            keep_prepared_txn=True,
        )
        answer = await self.step(ApiKey.INIT_PRODUCER_ID, request, lambda row: int(row.error_code))
        self.producer_id, self.producer_epoch = int(answer.producer_id), int(answer.producer_epoch)
        return (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == writer

    async def _finish(self, writer: tuple[int, int], commit: bool) -> None:
        """There is no way back. Asked again until it is answered."""
        txn, decided_at = self.txn, self.world.loop.time()
        assert txn is not None
        over = False
        while not over:
            try:
                await super().end(commit=commit)
                over = True
            except MustAbort as problem:
                if not problem.unresolved:
                    self.world.history.problem("decided-lost", f"{self.name} {self.transactional_id}: {problem}")
                    raise Fenced(str(problem)) from None
            except Fenced:
                over = await self._is_over(writer)
        if commit:
            txn.t_commit = decided_at
        txn.outcome, txn.t_end = "committed" if commit else "aborted", self.world.loop.time()
        self.txn = None

    async def _is_over(self, writer: tuple[int, int]) -> bool:
        """Fenced by a late copy of our own: either the end has been carried out, or we take over once more."""
        while True:
            try:
                return not await self._take_over(writer)
            except MustAbort:
                continue
