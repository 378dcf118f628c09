"""Random lives of group shards: every invariant after every step, and the law of deciders at the end.

The machine plays clients that mostly behave and sometimes do not: they join, sync, heartbeat, commit and leave with ids
and generations that may be old or made up, restart under their instance ids, and open and end transactions. Time passes
in jumps; the coordinator fails over.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.core.group.commands import (
    DeleteGroups,
    DescribeGroups,
    Heartbeat,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetToCommit,
    Protocol,
    SyncGroup,
    TopicPartitions,
    TopicsDeleted,
    TopicToCommit,
)
from moldau.core.group.replies import JoinReply, SyncReply
from moldau.core.group.settings import GroupSettings
from moldau.core.group.shard import GroupShard
from moldau.model.errors import ErrorCode, Refused
from tests.unit.core.group.stage import Stage, ranged, replayed

GROUPS = st.sampled_from(["g", "h"])
PRODUCERS = st.integers(1, 3)
PARTITIONS = st.integers(0, 2)
INSTANCES = st.sampled_from([None, None, "a", "b"])
PROTOCOLS = st.sampled_from(
    [
        ranged("orders"),
        ranged("orders", "old"),
        (*ranged("orders"), Protocol("sticky", b"s")),
        (Protocol("sticky", b"s"), *ranged("old")),
    ]
)
SETTINGS = GroupSettings(
    max_size=4,
    offsets_retention_ms=200_000,
    offsets_retention_check_interval_ms=50_000,
    new_member_join_timeout_ms=90_000,
)


class GroupLife(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage(SETTINGS)
        self.ids: list[tuple[str, str, str | None]] = []
        """(group, member id, instance id) of everybody the coordinator ever named."""
        self.generations: dict[str, int] = {}
        self.syncs: dict[int, tuple[str, int, str | None]] = {}
        """By ticket: member id, generation, instance id."""
        self.tickets: dict[int, tuple[str, str | None]] = {}
        self.has_transactions = False

    @initialize(has_transactions=st.booleans())
    def begin(self, has_transactions: bool) -> None:
        self.has_transactions = has_transactions

    def somebody(self, data: st.DataObject) -> tuple[str, str, str | None]:
        if not self.ids:
            return ("g", "nobody", None)
        return data.draw(st.sampled_from(self.ids[-8:]))

    def generation(self, group: str, data: st.DataObject) -> int:
        live = self.stage.shard.soft.classic.get(group)
        now = 0 if live is None else live.generation
        return now - data.draw(st.sampled_from([0, 0, 0, 0, 1, -1]))

    # -- clients -----------------------------------------------------------------------------------------------------

    @rule(group=GROUPS, instance=INSTANCES, protocols=PROTOCOLS, two_steps=st.booleans(), skips=st.booleans())
    def join_as_nobody(self, group: str, instance: str | None, protocols: Any, two_steps: bool, skips: bool) -> None:
        ticket = self.stage.join(
            group=group,
            instance_id=instance,
            protocols=protocols,
            requires_known_member_id=two_steps,
            supports_skipping_assignment=skips,
        )
        self.tickets[ticket] = (group, instance)
        if ticket in self.stage.waiting:
            live = self.stage.live(group)
            self.ids.append((group, next(reversed(live.members)), instance))

    @rule(data=st.data(), protocols=PROTOCOLS)
    def join_again(self, data: st.DataObject, protocols: Any) -> None:
        group, member_id, instance = self.somebody(data)
        ticket = self.stage.join(member_id, group, instance_id=instance, protocols=protocols)
        self.tickets[ticket] = (group, instance)

    @rule(group=GROUPS)
    def everybody_joins_again(self, group: str) -> None:
        live = self.stage.shard.soft.classic.get(group)
        for member in tuple(live.members.values()) if live is not None else ():
            changes = {"instance_id": member.instance_id, "protocols": member.protocols}
            self.tickets[self.stage.join(member.member_id, group, **changes)] = (group, member.instance_id)

    @rule(data=st.data())
    def sync(self, data: st.DataObject) -> None:
        group, member_id, instance = self.somebody(data)
        self.sync_one(group, member_id, self.generation(group, data), instance)

    @rule(group=GROUPS)
    def everybody_syncs(self, group: str) -> None:
        live = self.stage.shard.soft.classic.get(group)
        for member_id in tuple(live.members) if live is not None else ():
            self.sync_one(group, member_id, live.generation if live is not None else -1, None)

    def sync_one(self, group: str, member_id: str, generation: int, instance: str | None) -> None:
        live = self.stage.shard.soft.classic.get(group)
        everybody = tuple((known, f"{known}@{generation}".encode()) for known in live.members) if live else ()
        leads = live is not None and live.leader == member_id
        self.stage.do(SyncGroup(-1, group, generation, member_id, instance, assignments=everybody if leads else ()))
        self.tickets[self.stage.ticket] = (group, instance)
        self.syncs[self.stage.ticket] = (member_id, generation, instance)

    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        group, member_id, instance = self.somebody(data)
        generation = self.generation(group, data)
        error = self.stage.do(Heartbeat(group, generation, member_id, instance)).error
        if error is ErrorCode.NONE:
            assert generation == self.stage.live(group).generation

    @rule(data=st.data(), by_instance=st.booleans())
    def leave(self, data: st.DataObject, by_instance: bool) -> None:
        group, member_id, instance = self.somebody(data)
        self.stage.do(LeaveGroup(group, (LeavingMember("" if by_instance else member_id, instance),)))

    # -- offsets -----------------------------------------------------------------------------------------------------

    @rule(data=st.data(), topic=st.sampled_from(["orders", "old"]), partition=PARTITIONS, simple=st.booleans())
    def commit(self, data: st.DataObject, topic: str, partition: int, simple: bool) -> None:
        group, member_id, instance = self.somebody(data)
        generation = self.generation(group, data)
        if simple:
            member_id, instance, generation = "", None, -1
        topics = (TopicToCommit(topic, (OffsetToCommit(partition, len(self.stage.log)),)),)
        reply = self.stage.do(OffsetCommit(group, generation, member_id, instance, topics))
        live = self.stage.shard.soft.classic.get(group)
        if not isinstance(reply, Refused) and live is not None and live.members:
            assert generation == live.generation
            assert member_id in live.members

    @precondition(lambda self: self.has_transactions)
    @rule(group=GROUPS, producer=PRODUCERS, partition=PARTITIONS)
    def commit_in_transaction(self, group: str, producer: int, partition: int) -> None:
        self.stage.txn_commit(producer, len(self.stage.log), group=group, partition=partition)

    @precondition(lambda self: self.has_transactions)
    @rule(producer=PRODUCERS, committed=st.booleans())
    def end_transaction(self, producer: int, committed: bool) -> None:
        self.stage.end_transaction(producer, committed=committed)

    # -- administrators and time -------------------------------------------------------------------------------------

    @rule(group=GROUPS, partition=PARTITIONS, kind=st.integers(0, 4))
    def administrate(self, group: str, partition: int, kind: int) -> None:
        self.stage.do(
            (
                DeleteGroups((group,)),
                OffsetDelete(group, (TopicPartitions("old", (partition,)),)),
                TopicsDeleted((("old", bytes(16)),)),
                DescribeGroups(("g", "h")),
                ListGroups(),
            )[kind]
        )
        if group not in self.stage.shard.state.groups:
            self.generations.pop(group, None)

    @rule(milliseconds=st.sampled_from([1, 500, 3_000, 9_999, 60_000, 300_000]))
    def wait(self, milliseconds: int) -> None:
        self.stage.advance(milliseconds)

    @rule()
    def fail_over(self) -> None:
        self.stage.restart()
        self.generations.clear()  # what was agreed on but not stored is forgotten, as in Kafka

    @rule(group=GROUPS)
    def the_log_refuses(self, group: str) -> None:
        self.stage.fails = Refused(ErrorCode.UNKNOWN_SERVER_ERROR)

    # -- laws --------------------------------------------------------------------------------------------------------

    @invariant()
    def generations_never_fall(self) -> None:
        for group in ("g", "h"):
            live = self.stage.shard.soft.classic.get(group)
            if group not in self.stage.shard.state.groups:
                self.generations.pop(group, None)
            elif live is not None:
                assert live.generation >= self.generations.get(group, 0)
                self.generations[group] = live.generation

    @invariant()
    def answers_fit_together(self) -> None:
        """Nobody is handed anything but what the leader said for it, in the generation it was said for."""
        for ticket, (group, instance) in list(self.tickets.items()):
            if ticket not in self.stage.answers:
                assert ticket in self.stage.waiting
                continue
            del self.tickets[ticket]
            reply = self.stage.answers[ticket]
            if isinstance(reply, JoinReply) and reply.member_id:
                self.ids.append((group, reply.member_id, instance))
                assert bool(reply.members) <= (reply.leader == reply.member_id)
            if isinstance(reply, SyncReply) and reply.assignment:
                member_id, generation, _ = self.syncs[ticket]
                owner, _, at = reply.assignment.decode().rpartition("@")
                assert int(at) == generation
                # A static member may hold what was assigned to the id it had before; ids begin with the instance's.
                assert owner == member_id or owner.split("-")[0] == member_id.split("-")[0] != "c"

    @invariant()
    def the_log_is_the_truth(self) -> None:
        if len(self.stage.log) % 5 == 0:
            self.check_replay()

    def check_replay(self) -> None:
        state = self.stage.shard.state
        assert replayed(self.stage.log).state == state
        again = GroupShard()
        for producer_id, record in state.snapshot():
            again.apply(record, producer_id)
        assert again.state == state

    def check_compacted_replay(self) -> None:
        """The newest record of every key tells as much as all of them. (Which records of a transaction the cleaner may
        drop is its own question.) Only simple groups that lost their last offset leave no trace."""
        if self.has_transactions:
            return
        newest = {record[:-1]: entry for entry in self.stage.log for record in (entry[2],)}
        compacted = replayed([entry for entry in self.stage.log if newest[entry[2][:-1]] is entry]).state.groups
        state = self.stage.shard.state
        assert compacted == {g.group_id: g for g in state.groups.values() if g.metadata is not None or g.offsets}

    def teardown(self) -> None:
        self.check_replay()
        self.check_compacted_replay()
        waiting = set(self.stage.waiting)
        self.stage.advance(1_000_000)
        assert not waiting & self.stage.waiting, "somebody waits for ever"


TestGroupLife = GroupLife.TestCase
TestGroupLife.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
