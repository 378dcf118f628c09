"""Members of classic groups: join, sync, heartbeat, commit, leave - and crash, doze off, or speak out of turn."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moldau.model.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.heartbeat import HeartbeatRequest
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from moldau.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

from .client import GONE, Admin, split_tp
from .events import Commit, Founding, OffsetRead, Owning
from .world import World

PROTOCOL_TYPE = "simulation"
"""Not `consumer`: what members say to each other here is none of the coordinator's business."""
MAY_COME_LATE = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP})
"""Not commits: of one generation nothing keeps a late one from setting the group back, in Kafka neither."""
LOST = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})


class Rejoin(Exception):
    """The membership has to be agreed on anew."""


@dataclass(slots=True)
class MemberHabits:
    session_ms: int = 1000
    rebalance_ms: int = 1500
    nap_probability: float = 0.03
    crash_probability: float = 0.02
    leave_probability: float = 0.02
    stale_probability: float = 0.05
    """How often a member commits for a generation that is over: it must be refused."""
    delay_probability: float = 0.0
    """How often a request is held back while its sender goes on, on another connection."""


class OffsetClient(Admin):
    """Commits and reads offsets of a group, and writes both down."""

    group = ""

    async def commit(
        self, offsets: Mapping[str, int], generation: int, member_id: str, instance_id: str | None = None
    ) -> ErrorCode | None:
        """One try. None when in doubt."""
        now = self.world.loop.time()
        commits = [Commit(self.group, tp, offset, generation, member_id, now) for tp, offset in offsets.items()]
        self.world.history.coordination.commits += commits
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for tp, offset in offsets.items():
            topic, index = split_tp(tp)
            row = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            topics.setdefault(topic, []).append(row)
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            topics=[OffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()],
        )
        response = await self.request(ApiKey.OFFSET_COMMIT, request, newest=9)
        error = ErrorCode(max(row.error_code for topic in response.topics for row in topic.partitions))
        for commit in commits:
            commit.outcome, commit.t_end = "ok" if error is ErrorCode.NONE else "fail", self.world.loop.time()
        self.world.trace.add(f"{self.name} commits {dict(offsets)} in {generation}: {error.name}")
        return error

    async def committed(
        self, tps: list[str], *, stable: bool = False, member_id: str | None = None, epoch: int = -1
    ) -> dict[str, int] | None:
        """One try; None when it cannot be told now."""
        topics: dict[str, list[int]] = {}
        for tp in tps:
            topics.setdefault(split_tp(tp)[0], []).append(split_tp(tp)[1])
        t_begin = self.world.loop.time()
        wanted = [OffsetFetchRequestTopics(name=name, partition_indexes=rows) for name, rows in topics.items()]
        group = OffsetFetchRequestGroup(group_id=self.group, topics=wanted, member_id=member_id, member_epoch=epoch)
        request = OffsetFetchRequest(groups=[group], require_stable=stable)
        response = (await self.request(ApiKey.OFFSET_FETCH, request, newest=9)).groups[0]
        if response.error_code:
            return None
        found = {}
        for topic in response.topics:
            for row in topic.partitions:
                if row.error_code:
                    return None
                found[f"{topic.name}-{row.partition_index}"] = int(row.committed_offset)
        now = self.world.loop.time()
        self.world.history.coordination.reads += [
            OffsetRead(self.group, tp, offset, t_begin, now) for tp, offset in found.items()
        ]
        return found


class GroupMember(OffsetClient):
    def __init__(
        self,
        world: World,
        name: str,
        address: tuple[str, int],
        group: str,
        tps: list[str],
        habits: MemberHabits,
        instance_id: str | None = None,
    ) -> None:
        super().__init__(world, name, address)
        self.group = group
        self.tps = tps
        self.habits = habits
        self.instance_id = instance_id
        self.member_id = ""
        self.past_ids: list[tuple[str, int]] = []
        """(member id, generation) of lives that are over."""
        self.generation = -1
        self.positions: dict[str, int] = {}
        self.is_stable = False
        self.stopping = False
        self.calm = False

    def stop(self) -> None:
        self.stopping = True

    def calm_down(self) -> None:
        """No more naps, crashes and departures: the group must settle."""
        self.calm = True

    async def request(
        self, key: ApiKey, message: Any, *, newest: int | None = None, timeout_s: float | None = None
    ) -> Any:
        late = key in MAY_COME_LATE and not self.calm
        if late and self.chance.random() < self.habits.delay_probability:
            await self.hold_back(self.chance.choice((0.3, 1.0, 3.0)))
            timeout_s = self.chance.choice((0.1, 0.4))
        return await super().request(key, message, newest=newest, timeout_s=timeout_s)

    async def run(self) -> None:
        while not self.stopping:
            try:
                await self._join()
                await self._take_up()
                while not self.stopping:
                    await self.live()
            except GONE:
                await self.pause()
            except Rejoin:
                self.is_stable = False

    # -- coming in ---------------------------------------------------------------------------------------------------

    async def _join(self) -> None:
        self.is_stable = False
        t_begin = self.world.loop.time()
        protocols = [JoinGroupRequestProtocol(name="shuffle", metadata=b"")]
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.habits.session_ms,
            rebalance_timeout_ms=self.habits.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
        )
        newest = self.chance.choice((5, 7, None)) if self.instance_id else self.chance.choice((3, 5, None))
        response = await self.request(ApiKey.JOIN_GROUP, request, newest=newest, timeout_s=12.0)
        error = ErrorCode(response.error_code)
        self.world.trace.add(f"{self.name} joins as {self.member_id or '?'}: {error.name} {response.generation_id}")
        if error is not ErrorCode.NONE:
            await self._not_joined(error, response)
            raise Rejoin
        self.member_id = response.member_id
        leads = response.leader == self.member_id and not response.skip_assignment
        if leads:
            founding = Founding(self.group, int(response.generation_id), self.member_id, t_begin)
            self.world.history.coordination.foundings.append(founding)
        await self._sync(response, leads)

    async def _not_joined(self, error: ErrorCode, response: Any) -> None:
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        elif error in LOST:
            self._forget()
            await self.pause()
        else:
            await self.pause()

    def _forget(self) -> None:
        if self.member_id and self.generation >= 0:
            self.past_ids.append((self.member_id, self.generation))
        self.member_id = ""

    async def _sync(self, joined: Any, leads: bool) -> None:
        t_begin = self.world.loop.time()
        assignments = self._assign([row.member_id for row in joined.members]) if leads else {}
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name="shuffle",
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=json.dumps(tps).encode())
                for member_id, tps in assignments.items()
            ],
        )
        response = await self.request(ApiKey.SYNC_GROUP, request, timeout_s=12.0)
        error = ErrorCode(response.error_code)
        self.world.trace.add(f"{self.name} syncs {joined.generation_id}: {error.name} {response.assignment!r}")
        if error is not ErrorCode.NONE:
            if error in LOST:
                self._forget()
            await self.pause()
            raise Rejoin
        self.generation = int(joined.generation_id)
        tps = json.loads(response.assignment) if response.assignment else []
        self.positions = dict.fromkeys(tps, -1)
        self.world.history.coordination.ownings.append(
            Owning(
                self.group,
                self.generation,
                self.instance_id or self.member_id,
                self.member_id,
                tuple(tps),
                t_begin,
                self.world.loop.time(),
            )
        )

    def _assign(self, member_ids: list[str]) -> dict[str, list[str]]:
        """By chance: were the same generation ever to be shared out twice, it would show."""
        shares: dict[str, list[str]] = {member_id: [] for member_id in member_ids}
        for tp in self.tps:
            shares[self.chance.choice(member_ids)].append(tp)
        return shares

    async def _take_up(self) -> None:
        """Find out where to go on."""
        while any(position < 0 for position in self.positions.values()):
            found = await self.committed(list(self.positions), stable=True)
            if found is not None:
                self.positions = {tp: max(0, offset) for tp, offset in found.items()}
            else:
                await self._heartbeat()
                await self.pause()
        self.is_stable = True

    # -- being in ----------------------------------------------------------------------------------------------------

    async def live(self) -> None:
        """One round between two heartbeats."""
        chance, habits = self.chance, self.habits
        roll = 1.0 if self.calm else chance.random()
        if roll < habits.crash_probability:
            await self._crash()
        elif roll < habits.crash_probability + habits.leave_probability and self.instance_id is None:
            await self._leave()
        elif roll < habits.crash_probability + habits.leave_probability + habits.nap_probability:
            self.world.fabric.effects["nap"] += 1
            await asyncio.sleep(chance.uniform(0.3, 2.5) * habits.session_ms / 1000)
        if not self.calm and chance.random() < habits.stale_probability:
            await self._speak_out_of_turn()
        await self.work()
        await self._heartbeat()
        await asyncio.sleep(chance.uniform(0.3, 1.0) * habits.session_ms / 4000)

    async def work(self) -> None:
        """Make progress and say so."""
        for tp in self.positions:
            self.positions[tp] += self.chance.randint(0, 3)
        if self.positions and self.chance.random() < 0.7:
            error = await self.commit(self.positions, self.generation, self.member_id, self.instance_id)
            if error in LOST or error is ErrorCode.ILLEGAL_GENERATION:
                if error in LOST:
                    self._forget()
                raise Rejoin

    async def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        error = ErrorCode((await self.request(ApiKey.HEARTBEAT, request)).error_code)
        if error in LOST:
            self._forget()
        if error in LOST or error in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS):
            raise Rejoin

    async def _crash(self) -> None:
        """Gone without a word, and back as somebody new (or, static, as the same instance)."""
        self.world.fabric.effects["member crash"] += 1
        self.is_stable = False
        self.hang_up()
        self._forget()
        await asyncio.sleep(self.chance.uniform(0.05, 1.5))
        raise Rejoin

    async def _leave(self) -> None:
        self.is_stable = False
        request = LeaveGroupRequest(
            group_id=self.group, member_id=self.member_id, members=[MemberIdentity(member_id=self.member_id)]
        )
        await self.request(ApiKey.LEAVE_GROUP, request)
        self._forget()
        await asyncio.sleep(self.chance.uniform(0.05, 1.0))
        raise Rejoin

    async def _speak_out_of_turn(self) -> None:
        """Commit for a generation that is over, or as somebody who is gone. It must not be heard."""
        stale = [(self.member_id, self.generation - 1)] if self.generation > 0 else []
        # A past life may still count as a member, unless a newer generation came or its instance was replaced.
        stale += [past for past in self.past_ids[-2:] if past[1] < self.generation or self.instance_id is not None]
        if not stale or not self.is_stable:
            return
        member_id, generation = self.chance.choice(stale)
        offset = 1_000_000 + self.chance.randrange(1000)
        error = await self.commit({self.tps[0]: offset}, generation, member_id, self.instance_id)
        if error is ErrorCode.NONE:
            detail = f"{self.group}: {member_id} committed in {generation}, which is over"
            self.world.history.problem("stale-commit", detail)
