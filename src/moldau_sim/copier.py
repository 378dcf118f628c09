"""Consume, transform, produce: a group member that copies records, with its offsets inside the transaction.

Whatever happens - the worker dozes off and loses its partitions, the broker dies, answers get lost - each input record
must be in the output exactly once. The worker's group keeps others out of its transaction (KIP-447).
"""

from __future__ import annotations

import asyncio
from typing import Final

from moldau.model.errors import ErrorCode

from .consumer import Consumer
from .history import make_value
from .members import GroupMember, MemberHabits, Rejoin
from .transactional import Fenced, MustAbort, Transactional, TxnHabits
from .world import World

RECORDS_MAX: Final = 8
"""In one batch, which must fit into the smallest segment."""


class Copier(GroupMember):
    def __init__(
        self,
        world: World,
        name: str,
        address: tuple[str, int],
        group: str,
        tps: list[str],
        outputs: list[str],
        habits: MemberHabits,
        txn_habits: TxnHabits,
    ) -> None:
        super().__init__(world, name, address, group, tps, habits)
        self.outputs = outputs
        self.producer = Transactional(world, f"{name}-out", address, f"copy-{name}", txn_habits)
        self.readers = {tp: Consumer(world, f"{name}-in-{tp}", address, tp) for tp in tps}
        self.count = 0

    def calm_down(self) -> None:
        super().calm_down()
        self.producer.habits.delay_probability = 0.0

    async def work(self) -> None:
        producer = self.producer
        try:
            if producer.producer_id < 0:
                await producer.init()
            await self._copy()
        except Fenced as why:
            self.world.trace.add(f"{self.name} begins anew: {why}")
            producer.producer_id = -1
            raise Rejoin from None  # positions are known again after the next assignment
        except MustAbort as problem:
            try:
                await producer.abort_after(problem)
            except Fenced:
                producer.producer_id = -1
            raise Rejoin from None

    async def _copy(self) -> None:
        """One transaction: some records of one partition."""
        if not self.positions:
            return
        tp = self.chance.choice(sorted(self.positions))
        position = self.positions[tp]
        row = await self.readers[tp].fetch(position, max_wait_ms=50, max_bytes=self.chance.choice((200, 4096)))
        if row is None or row.error_code != ErrorCode.NONE:
            return
        rows, position = self.readers[tp]._rows(row, position)
        if not rows:
            return
        if len(rows) > RECORDS_MAX:
            rows, position = rows[:RECORDS_MAX], rows[RECORDS_MAX].offset
        producer = self.producer
        txn = producer.begin()
        output = self.chance.choice(self.outputs)
        copies: list[tuple[bytes | None, bytes]] = []
        for record in rows:
            self.count += 1
            value = make_value(f"{self.name}~{txn.number}", self.count, 0)
            copies.append((b"%s@%d" % (tp.encode(), record.offset), value))
        await producer.produce(output, copies)
        await self._nap()
        await producer.commit_offsets(self.group, {tp: position}, self.generation, self.member_id)
        await self._nap()
        await producer.end(commit=True)
        self.positions[tp] = position

    async def _nap(self) -> None:
        if not self.calm and self.chance.random() < self.producer.habits.nap_probability:
            self.world.fabric.effects["nap"] += 1
            await asyncio.sleep(self.chance.uniform(0.3, 2.5) * self.habits.session_ms / 1000)
