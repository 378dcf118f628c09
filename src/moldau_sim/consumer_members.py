"""Members of KIP-848 groups: one heartbeat tells the coordinator what a member has, and the member what it should have.

A partition that is taken away is held until the member has said that it lets go; the coordinator may give it to nobody
before. That is what `Holding` writes down.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from moldau.model.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)

from .client import GONE, split_tp
from .events import Holding
from .members import OffsetClient
from .world import World

LEAVE, LEAVE_FOR_A_WHILE = -1, -2
LOST = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNRELEASED_INSTANCE_ID,
    }
)


@dataclass(slots=True)
class ConsumerHabits:
    session_ms: int = 1000
    heartbeat_ms: int = 150
    assignor: str | None = None
    nap_probability: float = 0.03
    crash_probability: float = 0.02
    leave_probability: float = 0.02
    stale_probability: float = 0.05


class ConsumerMember(OffsetClient):
    def __init__(
        self,
        world: World,
        name: str,
        address: tuple[str, int],
        group: str,
        topics: list[str],
        habits: ConsumerHabits,
        instance_id: str | None = None,
    ) -> None:
        super().__init__(world, name, address)
        self.group = group
        self.topics = topics
        self.habits = habits
        self.instance_id = instance_id
        self.lives = 0
        self.member_id = ""
        self.epoch = 0
        self.held: dict[str, Holding] = {}
        self.positions: dict[str, int] = {}
        self.target: set[str] = set()
        self.acknowledged: set[str] | None = None
        """What the coordinator was last told that we own."""
        self.gone_ids: list[tuple[str, int]] = []
        """(member id, epoch) of lives that the coordinator has confirmed to be over."""
        self.stopping = False
        self.calm = False
        self._new_life()

    @property
    def is_stable(self) -> bool:
        return self.epoch > 0 and set(self.held) == self.target

    def stop(self) -> None:
        self.stopping = True

    def calm_down(self) -> None:
        self.calm = True

    async def run(self) -> None:
        while not self.stopping:
            try:
                await self._round()
            except GONE:
                self.acknowledged = None
                await self.pause()

    # -- lives -------------------------------------------------------------------------------------------------------

    def _new_life(self) -> None:
        self._let_go(set(self.held))
        self.lives += 1
        self.member_id = f"{self.name}-life{self.lives}"
        self.epoch = 0
        self.target = set()
        self.acknowledged = None

    def _let_go(self, tps: set[str]) -> None:
        """From this moment on, another member may be given them."""
        now = self.world.loop.time()
        for tp in sorted(tps):
            holding = self.held.pop(tp)
            holding.t_end = min(now, holding.t_end)
            self.positions.pop(tp, None)

    async def _round(self) -> None:
        chance, habits = self.chance, self.habits
        roll = 1.0 if self.calm else chance.random()
        if roll < habits.crash_probability:
            self.world.fabric.effects["member crash"] += 1
            self.hang_up()
            self._new_life()
            await asyncio.sleep(chance.uniform(0.05, 1.0))
        elif roll < habits.crash_probability + habits.leave_probability and self.epoch > 0:
            await self._leave()
        elif roll < habits.crash_probability + habits.leave_probability + habits.nap_probability:
            self.world.fabric.effects["nap"] += 1
            await asyncio.sleep(chance.uniform(0.3, 2.5) * habits.session_ms / 1000)
        await self._commit()
        if chance.random() < 0.7:
            # Giving up takes a while in between: the member finishes what it is doing.
            self._let_go(set(self.held) - self.target)
        await self._heartbeat()
        await self._take_up()
        if not self.calm and self.gone_ids and chance.random() < habits.stale_probability:
            await self._speak_out_of_turn()
        await asyncio.sleep(chance.uniform(0.2, 1.0) * habits.heartbeat_ms / 1000)

    # -- heartbeats --------------------------------------------------------------------------------------------------

    async def _heartbeat(self) -> None:
        owned = set(self.held)
        sent_at = self.world.loop.time()
        full = self.epoch == 0 or self.acknowledged is None
        request = await self._request(owned if full or owned != self.acknowledged else None, full)
        response = await self.request(ApiKey.CONSUMER_GROUP_HEARTBEAT, request)
        error = ErrorCode(response.error_code)
        self.world.trace.add(f"{self.name} heartbeat {self.epoch}: {error.name} {response.member_epoch}")
        if error in LOST:
            self.gone_ids.append((self.member_id, self.epoch))
            self._new_life()
            await self.pause()
            return
        if error is not ErrorCode.NONE:
            await self.pause()
            return
        self.epoch = int(response.member_epoch)
        self.acknowledged = owned
        for holding in self.held.values():
            holding.t_end = sent_at + self.habits.session_ms / 1000
        if response.assignment is not None:
            await self._assigned(response.assignment, sent_at)

    async def _request(self, owned: set[str] | None, full: bool) -> ConsumerGroupHeartbeatRequest:
        parts: list[ConsumerGroupHeartbeatRequestTopicPartitions] | None = None
        if owned is not None:
            by_topic: dict[str, list[int]] = {}
            for tp in sorted(owned):
                by_topic.setdefault(split_tp(tp)[0], []).append(split_tp(tp)[1])
            parts = [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=await self.topic_id(topic), partitions=rows)
                for topic, rows in by_topic.items()
            ]
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id if full else None,
            rebalance_timeout_ms=60_000 if full else -1,
            subscribed_topic_names=self.topics if full else None,
            server_assignor=self.habits.assignor if full else None,
            topic_partitions=parts,
        )

    async def _assigned(self, assignment: Any, sent_at: float) -> None:
        now = self.world.loop.time()
        names = {await self.topic_id(topic): topic for topic in self.topics}
        self.target = {
            f"{names[row.topic_id]}-{index}" for row in assignment.topic_partitions for index in row.partitions
        }
        for tp in sorted(self.target - set(self.held)):
            holding = Holding(self.group, self.instance_id or self.member_id, tp, now)
            holding.t_end = sent_at + self.habits.session_ms / 1000
            self.held[tp] = holding
            self.world.history.coordination.holdings.append(holding)

    async def _leave(self) -> None:
        """A static member may say that it is coming back: what it had is kept for it."""
        for_good = self.instance_id is None or self.chance.random() < 0.5
        member_id, epoch = self.member_id, self.epoch
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=member_id,
            member_epoch=LEAVE if for_good else LEAVE_FOR_A_WHILE,
            instance_id=self.instance_id,
        )
        self._new_life()
        response = await self.request(ApiKey.CONSUMER_GROUP_HEARTBEAT, request)
        if response.error_code == 0 and for_good:
            self.gone_ids.append((member_id, epoch))
        await asyncio.sleep(self.chance.uniform(0.05, 0.5))

    # -- offsets -----------------------------------------------------------------------------------------------------

    async def _take_up(self) -> None:
        unknown = sorted(set(self.held) - set(self.positions))
        if unknown:
            found = await self.committed(unknown, stable=True, member_id=self.member_id, epoch=self.epoch)
            for tp, offset in (found or {}).items():
                if tp in self.held:
                    self.positions[tp] = max(0, offset)

    async def _commit(self) -> None:
        """Also for what is about to be given up: the last chance."""
        for tp in self.positions:
            self.positions[tp] += self.chance.randint(0, 3)
        if self.positions and self.chance.random() < 0.7:
            await self.commit(dict(self.positions), self.epoch, self.member_id)

    async def _speak_out_of_turn(self) -> None:
        member_id, epoch = self.chance.choice(self.gone_ids[-2:])
        error = await self.commit({f"{self.topics[0]}-0": 1_000_000 + self.lives}, epoch, member_id)
        if error is ErrorCode.NONE:
            detail = f"{self.group}: {member_id} committed in epoch {epoch} after it was gone"
            self.world.history.problem("stale-commit", detail)
