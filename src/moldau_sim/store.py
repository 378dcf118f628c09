"""A metadata store in memory, with faults. The engine outlives processes, as a database file or an ensemble does.

An append is atomic and durable at one instant between its call and its return, so a crash finds it done or not done,
and the caller may not know which. Faults: slow, failed before (nothing happened), failed after (it did happen).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from moldau.model.failures import Fenced, StoreFailed
from moldau.ports import BrokerLease

from .process import Process
from .trace import Trace


@dataclass(slots=True)
class _Lease:
    broker_epoch: int
    payload: bytes
    ends_at: float


class StoreEngine:
    """What the store holds."""

    def __init__(self, chance: random.Random | None = None, trace: Trace | None = None) -> None:
        self.chance = chance or random.Random(0)
        self.trace = trace or Trace()
        self.records: list[tuple[int, bytes]] = []
        self.snapshot: tuple[int, list[bytes]] = (0, [])
        self.end = 0
        self.fence = 0
        self.controller: tuple[int, Process] | None = None
        self.broker_epoch = 0
        self.leases: dict[int, _Lease] = {}
        self.effects: Counter[str] = Counter()
        self.latency_seconds_max = 0.0
        self.fail_before_probability = 0.0
        self.fail_after_probability = 0.0
        self.loses_unsynced = False
        """A planted bug: appends return before they are durable, so a power loss takes the newest."""
        self._synced_end = 0
        self._waiters: list[asyncio.Future[None]] = []

    def append(self, records: Sequence[bytes], fence: int) -> int:
        if fence != self.fence:
            raise Fenced(f"fence {fence} is not the newest, {self.fence}")
        for record in records:
            self.end += 1
            self.records.append((self.end, bytes(record)))
        if not self.loses_unsynced:
            self._synced_end = self.end
        self.trace.add(f"store append to {self.end}")
        self.wake()
        return self.end

    def save_snapshot(self, offset: int, records: Sequence[bytes]) -> None:
        self.snapshot = (offset, [bytes(record) for record in records])
        self.records = [(at, record) for at, record in self.records if at > offset]

    def lose_power(self) -> None:
        """The host of the store lost power. Only a store with the planted bug notices."""
        lost = self.end - self._synced_end if self.loses_unsynced else 0
        if lost > 0:
            kept = self._synced_end + self.chance.randint(0, lost)
            self.records = [(at, record) for at, record in self.records if at <= kept]
            self.end = self._synced_end = kept
            self.effects["metadata lost"] += lost

    def wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def wait(self) -> asyncio.Future[None]:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return waiter


class SimulatedStore:
    """The `MetadataStore` port of one process on an engine."""

    def __init__(self, engine: StoreEngine | None = None, process: Process | None = None) -> None:
        self.engine = engine or StoreEngine()
        self._process = process or Process("nobody")
        self._fence: int | None = None
        self._closed = False

    async def _delay(self) -> None:
        self._check()
        latency = self.engine.latency_seconds_max
        if latency:
            await asyncio.sleep(self.engine.chance.uniform(0, latency))
            self._check()

    def _check(self) -> None:
        self._process.check_alive()
        if self._closed:
            raise StoreFailed("the metadata store is closed")

    def _may_fail(self, probability: float, when: str) -> None:
        if probability and self.engine.chance.random() < probability:
            self.engine.effects[f"store failed {when}"] += 1
            self.engine.trace.add(f"store fails {when}")
            raise StoreFailed(f"the store did not answer (simulated, {when} the append)")

    async def append(self, records: Sequence[bytes], *, fence: int) -> int:
        await self._delay()
        self._may_fail(self.engine.fail_before_probability, "before")
        offset = self.engine.append(records, fence)
        self._may_fail(self.engine.fail_after_probability, "after")
        await self._delay()
        return offset

    async def read(self, *, after: int, records_max: int = 10_000) -> list[tuple[int, bytes]]:
        await self._delay()
        records = self.engine.records
        if not records or records[-1][0] <= after:
            return []
        # Offsets are dense, so the position of the first wanted record is arithmetic.
        start = max(0, after + 1 - records[0][0])
        return records[start : start + records_max]

    async def wait(self, *, after: int) -> None:
        self._check()
        while self.engine.end <= after:
            await self.engine.wait()
            self._check()

    async def save_snapshot(self, offset: int, records: Sequence[bytes]) -> None:
        await self._delay()
        if offset > self.engine.end:
            raise StoreFailed(f"a snapshot at {offset} would cover records that do not exist")
        if offset >= self.engine.snapshot[0]:
            self.engine.save_snapshot(offset, records)

    async def load_snapshot(self) -> tuple[int, list[bytes]]:
        await self._delay()
        offset, records = self.engine.snapshot
        return offset, list(records)

    async def register(self, node_id: int, payload: bytes, *, lease_ms: int) -> int:
        await self._delay()
        engine = self.engine
        engine.broker_epoch += 1
        engine.leases[node_id] = _Lease(engine.broker_epoch, bytes(payload), self._lease_end(lease_ms))
        return engine.broker_epoch

    def _lease_end(self, lease_ms: int) -> float:
        return asyncio.get_running_loop().time() + lease_ms / 1000

    def _lease(self, node_id: int, broker_epoch: int) -> _Lease | None:
        lease = self.engine.leases.get(node_id)
        if lease is None or lease.broker_epoch != broker_epoch or lease.ends_at <= asyncio.get_running_loop().time():
            return None
        return lease

    async def renew(self, node_id: int, broker_epoch: int, *, lease_ms: int) -> None:
        await self._delay()
        lease = self._lease(node_id, broker_epoch)
        if lease is None:
            raise Fenced(f"broker {node_id} with epoch {broker_epoch} has lost its lease")
        lease.ends_at = self._lease_end(lease_ms)

    async def unregister(self, node_id: int, broker_epoch: int) -> None:
        await self._delay()
        if self._lease(node_id, broker_epoch) is not None:
            del self.engine.leases[node_id]

    async def brokers(self) -> list[BrokerLease]:
        await self._delay()
        now = asyncio.get_running_loop().time()
        return [
            BrokerLease(node_id, lease.broker_epoch, lease.payload)
            for node_id, lease in sorted(self.engine.leases.items())
            if lease.ends_at > now
        ]

    async def campaign(self, node_id: int) -> int:
        await self._delay()
        engine = self.engine
        while engine.controller is not None and engine.controller[0] != node_id and engine.controller[1].alive:
            await asyncio.wait([engine.wait()], timeout=1.0)
            self._check()
        engine.fence += 1
        engine.controller = (node_id, self._process)
        self._fence = engine.fence
        return engine.fence

    async def resign(self, fence: int) -> None:
        await self._delay()
        self._give_up(fence)

    def _give_up(self, fence: int) -> None:
        if fence == self.engine.fence and self.engine.controller is not None:
            self.engine.controller = None
            self.engine.wake()

    async def close(self) -> None:
        if self._closed:
            return
        if self._fence is not None:
            self._give_up(self._fence)
        self._closed = True
        self.engine.wake()
