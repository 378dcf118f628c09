"""A member of a consumer group under KIP-848: the broker shares out the partitions, a heartbeat carries everything.

One loop does all of it (`GroupReader.batches`): there is no second task that could own a partition while the first
still prints its records. A partition that is taken away is committed before its release is told.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Final

from moldau.client import groups
from moldau.client.cluster import Cluster, group_by_topic
from moldau.client.connection import BrokerConnection
from moldau.client.consumer import ConsumedRecord, decode_partition, fetch
from moldau.client.failures import BrokerRefused, OutOfRange, raise_for
from moldau.client.offsets import EARLIEST, LATEST, Position, list_offsets, resolve
from moldau.model.errors import ErrorCode
from moldau.model.ids import TopicPartition
from moldau.wire.apis import ApiKey
from moldau.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from moldau.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

JOINING: Final = 0
LEAVING: Final = -1
REBALANCE_TIMEOUT_MS: Final = 60_000
POLL_MS: Final = 500
COMMIT_EVERY_S: Final = 5.0
FENCED: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH})
UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND})
"""Who is told this when it leaves is no member any more, or never was."""


class GroupMember:
    """What the coordinator and we tell each other. `target` is what it wants us to own."""

    def __init__(self, cluster: Cluster, group_id: str, topics: Sequence[str]) -> None:
        self.group_id = group_id
        self.member_id = str(uuid.uuid4())
        self.epoch = JOINING
        self.target: frozenset[TopicPartition] = frozenset()
        self.interval_s = 0.0
        self.may_be_known = False
        """Whether we asked to join; the answer may have been lost."""
        self._cluster = cluster
        self._topics = list(topics)

    async def beat(self, owned: frozenset[TopicPartition]) -> bool:
        """Tell what we own and learn what we should. False: we were expelled, nothing is ours, the next beat joins."""
        try:
            await groups.at_coordinator(self._cluster, self.group_id, lambda _, link: self._exchange(link, owned))
        except BrokerRefused as refusal:
            if refusal.code not in FENCED:
                raise
            self.epoch, self.target = JOINING, frozenset()
            return False
        return True

    async def leave(self) -> None:
        self.epoch = LEAVING
        try:
            await groups.at_coordinator(self._cluster, self.group_id, lambda _, link: self._exchange(link, frozenset()))
        except BrokerRefused as refusal:
            if refusal.code not in UNKNOWN:
                raise

    async def is_settled(self, owned: frozenset[TopicPartition]) -> bool:
        """Whether the coordinator has shared out for the group as it is, and these partitions are all of our share.
        An answer to a heartbeat does not tell: no partitions may mean none yet, and some may mean some so far."""

        async def ask(_: int, connection: BrokerConnection) -> ConsumerGroupDescribeResponse:
            request = ConsumerGroupDescribeRequest(group_ids=[self.group_id])
            response: ConsumerGroupDescribeResponse = await connection.request(
                ApiKey.CONSUMER_GROUP_DESCRIBE, request, timeout_s=self._cluster.timeout_s
            )
            (row,) = response.groups
            if row.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
                raise_for(row.error_code, row.error_message, subject=self.group_id)
            return response

        (group,) = (await groups.at_coordinator(self._cluster, self.group_id, ask)).groups
        is_shared_out = group.error_code == 0 and group.group_epoch == group.assignment_epoch
        return is_shared_out and any(
            member.member_epoch == self.epoch == group.assignment_epoch
            and owned
            == {
                TopicPartition(topic.topic_name, index)
                for topic in member.target_assignment.topic_partitions
                for index in topic.partitions
            }
            for member in group.members
            if member.member_id == self.member_id
        )

    async def _exchange(self, connection: BrokerConnection, owned: frozenset[TopicPartition]) -> None:
        if not connection.serves(ApiKey.CONSUMER_GROUP_HEARTBEAT):
            raise BrokerRefused(ErrorCode.UNSUPPORTED_VERSION, "joining a group needs Kafka 4.0 or newer, or moldau")
        joining = self.epoch == JOINING
        self.may_be_known |= joining
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if joining else -1,
            subscribed_topic_names=self._topics if joining else None,
            topic_partitions=[] if joining else await self._with_ids(owned),
        )
        response: ConsumerGroupHeartbeatResponse = await connection.request(
            ApiKey.CONSUMER_GROUP_HEARTBEAT, request, timeout_s=self._cluster.timeout_s
        )
        raise_for(response.error_code, response.error_message, subject=self.group_id)
        self.member_id = response.member_id or self.member_id
        self.epoch = response.member_epoch
        self.interval_s = response.heartbeat_interval_ms / 1000
        if response.assignment is not None:
            named = {row.topic_id: list(row.partitions) for row in response.assignment.topic_partitions}
            self.target = await self._with_names(named)

    async def _with_ids(self, owned: frozenset[TopicPartition]) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
        rows = group_by_topic(dict.fromkeys(sorted(owned)))
        return [
            ConsumerGroupHeartbeatRequestTopicPartitions(
                topic_id=(await self._cluster.topic(name)).topic_id, partitions=list(indexes)
            )
            for name, indexes in rows.items()
        ]

    async def _with_names(self, rows: Mapping[bytes, list[int]]) -> frozenset[TopicPartition]:
        await self._cluster.refresh(self._topics)
        names = {self._cluster.topics[name].topic_id: name for name in self._topics if name in self._cluster.topics}
        return frozenset(
            TopicPartition(names[topic_id], index)
            for topic_id, indexes in rows.items()
            if topic_id in names
            for index in indexes
        )


class GroupReader:
    """Records of whatever the group gives us. What is committed is where reading goes on, of every partition we own:
    also where it began and nothing came, so that what comes later is not missed. It never is beyond a record that was
    not taken."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topics: Sequence[str],
        *,
        begin: Position,
        read_committed: bool,
        now_s: Callable[[], float],
    ) -> None:
        self.owned: frozenset[TopicPartition] = frozenset()
        self._cluster = cluster
        self._member = GroupMember(cluster, group_id, topics)
        self._begin = begin
        self._read_committed = read_committed
        self._now_s = now_s
        self._positions: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._committed_s = now_s()
        self._next_beat_s = now_s()

    def take(self, record: ConsumedRecord) -> None:
        """This record is dealt with; it counts as read from now on."""
        self._positions[TopicPartition(record.topic, record.partition)] = record.offset + 1

    async def batches(self) -> AsyncGenerator[list[ConsumedRecord], None]:
        """Lists of records, empty ones while there is nothing: whoever reads may then look at `is_level`. Who asks for
        the next list has dealt with all of the last; who stops inside one says with `take` how far it came."""
        while True:
            if self._now_s() >= self._next_beat_s:
                if not await self._member.beat(self.owned):
                    self._forget(self.owned)
                    continue
                if self._member.target != self.owned:
                    await self._follow(self._member.target)
                    continue  # tells the coordinator at once
                self._next_beat_s = self._now_s() + self._member.interval_s
            wait_ms = max(1, min(POLL_MS, round((self._next_beat_s - self._now_s()) * 1000)))
            async for records in self._poll(wait_ms):
                yield records
            if self._now_s() - self._committed_s >= COMMIT_EVERY_S:
                await self.commit()

    def is_level(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether everything we own has been read up to these ends."""
        return all(self._positions[place] >= ends[place] for place in self.owned)

    async def is_settled(self) -> bool:
        """Whether nothing more is on its way to us; while it is, we do not wait for our turn to ask for it."""
        settled = await self._member.is_settled(self.owned)
        if not settled:
            self._next_beat_s = min(self._next_beat_s, self._now_s() + POLL_MS / 1000)
        return settled

    async def commit(self) -> None:
        """Tell the group where we are. Somebody who was expelled cannot: those records will be read again."""
        self._committed_s = self._now_s()
        news = {place: at for place, at in self._positions.items() if self._committed.get(place) != at}
        if not news:
            return
        offsets = {place: groups.Committed(at) for place, at in news.items()}
        group_id, member_id, epoch = self._member.group_id, self._member.member_id, self._member.epoch
        try:
            await groups.commit_offsets(self._cluster, group_id, offsets, member_id=member_id, epoch=epoch)
        except BrokerRefused as refusal:
            if refusal.code not in FENCED:
                raise
        else:
            self._committed |= news

    async def close(self) -> None:
        try:
            if self._member.epoch > JOINING:
                await self.commit()
        finally:
            if self._member.may_be_known:
                await self._member.leave()

    async def _poll(self, wait_ms: int) -> AsyncGenerator[list[ConsumedRecord], None]:
        if not self._positions:
            await asyncio.sleep(wait_ms / 1000)
        else:
            rows = await fetch(self._cluster, self._positions, read_committed=self._read_committed, wait_ms=wait_ms)
            for place, row in rows:
                records, next_offset = decode_partition(place, row, self._positions[place], self._read_committed)
                if records:
                    yield records
                self._positions[place] = next_offset
        yield []

    async def _follow(self, target: frozenset[TopicPartition]) -> None:
        """Give back what is no longer ours, then begin with what is new."""
        lost, gained = self.owned - target, target - self.owned
        if lost:
            await self.commit()
            self._forget(lost)
        if gained:
            self._positions |= await self._starts(sorted(gained))
        self.owned = target

    async def _starts(self, gained: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Where the group is; where it never was, or what it wants is gone, where we were told to begin."""
        committed = await groups.committed_offsets(self._cluster, self._member.group_id)
        low = await list_offsets(self._cluster, dict.fromkeys(gained, EARLIEST))
        high = await list_offsets(self._cluster, dict.fromkeys(gained, LATEST))
        begin = await resolve(self._cluster, gained, self._begin, read_committed=self._read_committed)
        starts = {}
        for place in gained:
            (first, _), (end, _) = low[place], high[place]
            if place in committed and first <= committed[place].offset <= end:
                starts[place] = self._committed[place] = committed[place].offset
            elif first <= begin[place] <= end:
                starts[place] = begin[place]
            else:
                raise OutOfRange(place, begin[place], first, end)  # before it is a position, which would be committed
        return starts

    def _forget(self, places: frozenset[TopicPartition]) -> None:
        self.owned -= places
        for place in places:
            self._positions.pop(place, None)
            self._committed.pop(place, None)
