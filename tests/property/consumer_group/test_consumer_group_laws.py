"""Random lives of KIP-848 groups, with guests of the classic protocol coming and going in between.

Checked after every step: all invariants of the shard, and the one that matters to people: no two members that the
coordinator counts as such read the same partition. Checked at the end of each life: replaying the log gives the state,
and a quiet group settles, with every partition read by somebody, within a few heartbeats of each member.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.core.group.consumer.apply import consumer_of
from moldau.core.group.settings import GroupSettings
from moldau.core.group.shard import GroupShard
from tests.unit.core.group.consumer.crowd import Client, Crowd, Guest
from tests.unit.core.group.stage import replayed

SUBSCRIPTIONS = st.sampled_from([("orders",), ("orders", "users"), ("users",), ("orders", "ghost")])
PATTERNS = st.sampled_from(["^o.*", "(orders|extra)", ".*"])
SETTINGS = GroupSettings(consumer_assignment_interval_ms=0, initial_rebalance_delay_ms=0, consumer_max_size=7)
MEMBERS_MAX = 6
ROUND_MS = 3_000
"""Members speak three times in a session, as real ones do: a SyncGroup that finds the group stable is no sign of life
(nor is it to Apache Kafka), so who speaks only twice and syncs with one of them is thrown out."""
QUIET_ROUNDS = 24
"""Longer than any session, so that whoever crashed is noticed."""


class ConsumerGroupLife(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.crowd = Crowd(SETTINGS, orders=5, users=3)
        self.clients: list[Any] = []
        self.zombies: list[Any] = []
        self.names = 0

        self.cooperative = False

    @initialize(cooperative=st.booleans())
    def guests_are_of_one_kind(self, cooperative: bool) -> None:
        self.cooperative = cooperative

    def name(self) -> str:
        self.names += 1
        return f"m{self.names}"

    def somebody(self, data: st.DataObject, kind: type) -> Any:
        return data.draw(st.sampled_from([client for client in self.clients if isinstance(client, kind)]))

    def has(self, kind: type) -> bool:
        return any(isinstance(client, kind) for client in self.clients)

    def counts(self, client: Any) -> bool:
        """Whether the coordinator still counts it as a member."""
        group = self.crowd.shard.state.groups.get("g")
        consumer = consumer_of(group)
        if consumer is not None:
            return client.member_id in consumer.members
        live = self.crowd.shard.soft.classic.get("g")
        return live is not None and client.member_id in live.members

    # -- members of the consumer protocol ----------------------------------------------------------------------------

    @precondition(lambda self: len(self.clients) < MEMBERS_MAX)
    @rule(topics=SUBSCRIPTIONS, assignor=st.sampled_from([None, "range", "uniform"]))
    def join(self, topics: tuple[str, ...], assignor: str | None) -> None:
        client = Client(self.crowd, self.name(), *topics, assignor=assignor)
        client.heartbeat()
        self.clients.append(client)

    @precondition(lambda self: len(self.clients) < MEMBERS_MAX)
    @rule(regex=PATTERNS)
    def join_by_pattern(self, regex: str) -> None:
        client = Client(self.crowd, self.name(), regex=regex)
        client.topics = ()
        client.heartbeat()
        self.clients.append(client)

    @precondition(lambda self: len(self.clients) < MEMBERS_MAX)
    @rule(instance=st.sampled_from(["a", "b"]))
    def join_as_instance(self, instance: str) -> None:
        client = Client(self.crowd, self.name(), instance_id=instance)
        client.heartbeat()
        if client.epoch:
            self.clients.append(client)

    @precondition(lambda self: self.has(Client))
    @rule(data=st.data(), lost=st.booleans(), partial=st.booleans())
    def heartbeat(self, data: st.DataObject, lost: bool, partial: bool) -> None:
        self.somebody(data, Client).heartbeat(lost=lost, partial=partial)

    @precondition(lambda self: self.has(Client))
    @rule(data=st.data())
    def revoke(self, data: st.DataObject) -> None:
        client = self.somebody(data, Client)
        client.owned &= client.told

    @precondition(lambda self: self.has(Client))
    @rule(data=st.data(), topics=SUBSCRIPTIONS)
    def subscribe_to_something_else(self, data: st.DataObject, topics: tuple[str, ...]) -> None:
        client = self.somebody(data, Client)
        client.topics = topics
        client.fields.pop("regex", None)
        client.heartbeat()

    @precondition(lambda self: self.has(Client))
    @rule(data=st.data(), for_a_while=st.booleans())
    def leave(self, data: st.DataObject, for_a_while: bool) -> None:
        client = self.somebody(data, Client)
        client.owned = frozenset()
        client.leave(-2 if for_a_while and client.fields.get("instance_id") else -1)
        self.clients.remove(client)

    # -- guests ------------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.clients) < MEMBERS_MAX)
    @rule(instance=st.sampled_from([None, None, "a"]))
    def join_as_guest(self, instance: str | None) -> None:
        guest = Guest(self.crowd, self.name(), cooperative=self.cooperative)
        guest.instance_id = instance
        guest.join()
        self.clients.append(guest)

    @precondition(lambda self: self.has(Guest))
    @rule(data=st.data())
    def guest_step(self, data: st.DataObject) -> None:
        self.somebody(data, Guest).step()

    @precondition(lambda self: self.has(Guest))
    @rule(data=st.data())
    def guest_leaves(self, data: st.DataObject) -> None:
        guest = self.somebody(data, Guest)
        guest.leave()
        self.clients.remove(guest)

    # -- the world ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: bool(self.clients))
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """It reads on, but says nothing any more."""
        client = self.somebody(data, object)
        self.clients.remove(client)
        self.zombies.append(client)

    @rule(by_ms=st.sampled_from([100, 4_000, 11_000, 46_000, 61_000]))
    def time_passes(self, by_ms: int) -> None:
        self.crowd.advance(by_ms)

    @rule(name=st.sampled_from(["orders", "users", "extra"]), more=st.integers(1, 3))
    def topic_grows(self, name: str, more: int) -> None:
        known = self.crowd.topics.get(name)
        self.crowd.topics.put(name, min((0 if known is None else known.partition_count) + more, 12))

    @rule()
    def topic_is_deleted(self) -> None:
        if "extra" in self.crowd.topics.known:
            self.crowd.topics.remove("extra")

    @rule()
    def coordinator_fails_over(self) -> None:
        self.crowd.restart()

    @rule()
    def everybody_steps(self) -> None:
        for client in self.clients:
            client.step()

    # -- laws --------------------------------------------------------------------------------------------------------

    @invariant()
    def nobody_reads_what_another_reads(self) -> None:
        readers: dict[Any, str] = {}
        for client in (*self.clients, *self.zombies):
            if not self.counts(client):
                continue
            for partition in client.owned:
                assert partition not in readers, (partition, readers[partition], client.member_id)
                readers[partition] = client.member_id

    @invariant()
    def replaying_the_log_gives_the_state(self) -> None:
        assert replayed(self.crowd.log, SETTINGS).state == self.crowd.shard.state

    @invariant()
    def a_snapshot_gives_the_state(self) -> None:
        shard = GroupShard(SETTINGS)
        for producer_id, record in self.crowd.shard.snapshot():
            shard.apply(record, producer_id)
        assert shard.state == self.crowd.shard.state

    def teardown(self) -> None:
        """Whoever crashed is noticed; the others come to rest."""
        crowd = self.crowd
        for _ in range(QUIET_ROUNDS):
            for client in self.clients:
                client.step()
            self.nobody_reads_what_another_reads()
            crowd.advance(ROUND_MS)
        here = [client for client in self.clients if self.counts(client) or client.waits_to_join]
        if not here:
            return
        self.check_settled(here)

    def check_settled(self, here: list[Any]) -> None:
        crowd = self.crowd
        crowd.settle(here)
        consumer = consumer_of(crowd.shard.state.groups["g"])
        wanted: set[Any] = set()
        if consumer is not None:
            assert consumer.state_name == "Stable", consumer
            names = consumer.subscribed_topics()
        else:
            names = {"orders"}
        for name in names & crowd.topics.known.keys():
            facts = crowd.topics.known[name]
            wanted.update((facts.topic_id, index) for index in range(facts.partition_count))
        read = set().union(*(client.owned for client in here))
        if consumer is None:
            # Classic groups notice new partitions only when their leader looks: not the coordinator's business.
            assert read <= wanted
        else:
            assert read == wanted


TestConsumerGroupLife = ConsumerGroupLife.TestCase
TestConsumerGroupLife.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
