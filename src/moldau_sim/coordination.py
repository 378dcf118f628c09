"""Scenarios of the coordinators: groups of both protocols, transactions of both generations, exactly-once copies."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

from moldau.model.ids import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from moldau.wire.apis import ApiKey
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

from .client import GONE, LATEST, GaveUp
from .consumer import Consumer
from .consumer_members import ConsumerHabits, ConsumerMember
from .copier import Copier
from .events import Copied
from .history import Partition
from .members import GroupMember, MemberHabits, OffsetClient
from .producer import Habits
from .scenario import FAULTS, HEALING_S, Scenario, TopicPlan
from .transactional import TransactionalWorker, TxnHabits
from .two_phase import TwoPhaseWorker

CRASHES: Final = ("kill timed", "kill at write", "kill at reply", "kill in recovery", "clean restart")
WEATHER: Final = ("connection resets", "slow disk")
SESSION_MS: Final = 1000
GROUP, TRANSACTION = 0, 1
"""Kinds of coordinators."""
TOPIC: Final = 2
"""A kind of configured resource."""


class Coordinated(Scenario):
    """What these scenarios share: small internal topics, short timeouts, a calm end in which everything settles."""

    faults: tuple[str, ...] = (*CRASHES, *WEATHER)
    rounds = (1, 3)
    round_seconds = (0.2, 1.5)
    partitions = (2, 4)

    def broker_settings(self) -> dict[str, str]:
        chance = self.chance
        settings = super().broker_settings() | {
            "offsets.topic.num.partitions": str(chance.randint(1, 2)),
            "transaction.state.log.num.partitions": str(chance.randint(1, 2)),
            "group.initial.rebalance.delay.ms": str(chance.choice((0, 50, 300))),
            "group.min.session.timeout.ms": "100",
            "group.consumer.session.timeout.ms": str(SESSION_MS),
            "group.consumer.min.session.timeout.ms": str(SESSION_MS),
            "group.consumer.heartbeat.interval.ms": "150",
            "group.consumer.min.heartbeat.interval.ms": "150",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(chance.choice((100, 500))),
            "log.cleaner.min.cleanable.ratio": str(chance.choice((0.01, 0.5))),
        }
        if self.mode == "flush":
            settings["log.flush.interval.messages"] = "1"
        return settings

    def plan_topics(self) -> list[TopicPlan]:
        self.members: list[Any] = []
        promise = Partition("", transactional=True)
        return [TopicPlan("t0", self.chance.randint(*self.partitions), self.topic_configs(), promise, self.habits())]

    def topic_configs(self) -> dict[str, str]:
        return super().topic_configs() | {"internal.segment.bytes": str(self.chance.choice((2000, 1 << 20)))}

    async def prepare(self) -> None:
        """Clients ask where their coordinator is; the first to ask has its topic made."""
        for kind in (GROUP, TRANSACTION):
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=["group"])
            await self.admin.until_ok(
                ApiKey.FIND_COORDINATOR, request, lambda response: response.coordinators[0].error_code
            )
        if self.chance.random() < 0.5:
            # Small segments, so that the coordinators' logs are rolled and compacted while they are in use.
            small = [AlterableConfig(name="internal.segment.bytes", config_operation=0, value="2000")]
            resources = [
                AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=small)
                for name in (CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC)
            ]
            await self.admin.until_ok(
                ApiKey.INCREMENTAL_ALTER_CONFIGS,
                IncrementalAlterConfigsRequest(resources=resources),
                lambda response: max(row.error_code for row in response.responses),
            )

    def tps(self) -> list[str]:
        return [f"{plan.name}-{index}" for plan in self.topics for index in range(plan.partitions)]

    def add_member(self, member: Any) -> None:
        self.members.append(member)
        self.start_task(member, member.run(), member.name)

    async def finish_load(self) -> None:
        for member in self.members:
            if hasattr(member, "calm_down"):
                member.calm_down()
        await self.settle()
        for member in self.members:
            member.stop()
        await super().finish_load()
        for kind in (TransactionalWorker, OffsetClient):
            await self.wait_for(kind.__name__, [task for client, task in self.tasks if isinstance(client, kind)])

    async def settle(self) -> None:
        """A hook: what must come about once all is quiet."""

    async def until(self, done: Callable[[], bool], what: str, kind: str) -> None:
        deadline = self.world.loop.time() + HEALING_S
        while not done():
            if self.world.loop.time() > deadline:
                self.world.history.problem(kind, f"{what} {HEALING_S} s after healing")
                return
            await asyncio.sleep(0.05)

    async def read_everything(self) -> None:
        transactional = [tp for tp, promise in self.world.history.partitions.items() if promise.transactional]
        for tp in transactional:
            await self._all_is_stable(tp)
        await super().read_everything()
        for tp in transactional:
            reader = Consumer(self.world, f"committed-{tp}", self.address, tp, committed_only=True)
            try:
                self.world.history.committed_dumps[tp] = await reader.dump(within_s=HEALING_S)
            except GaveUp as failure:
                self.world.history.problem("stuck", str(failure))

    async def _all_is_stable(self, tp: str) -> None:
        """L3: in the end every transaction is over. Timeouts may have to do it."""
        deadline = self.world.loop.time() + HEALING_S
        while True:
            stable = await self.admin.offset(tp, LATEST, committed_only=True)
            end = await self.admin.offset(tp, LATEST)
            if stable == end:
                return
            if self.world.loop.time() > deadline:
                self.world.history.problem("hanging-txn", f"{tp}: last stable offset {stable}, high watermark {end}")
                return
            await asyncio.sleep(0.5)

    async def restart_changes_nothing(self) -> None:
        await super().restart_changes_nothing()
        await self.read_offsets()

    async def read_offsets(self) -> None:
        """What was committed is still there."""
        groups: dict[str, set[str]] = {}
        for commit in self.world.history.coordination.commits:
            groups.setdefault(commit.group, set()).add(commit.tp)
        client = OffsetClient(self.world, "offsets", self.address)
        for group, tps in groups.items():
            client.group = group
            for _ in range(100):
                try:
                    if await client.committed(sorted(tps), stable=True) is not None:
                        break
                except GONE:
                    pass
                await client.pause()
            else:
                self.world.history.problem("stuck", f"the offsets of {group} cannot be read")


class Groups(Coordinated):
    """Classic groups whose members come, go, crash and doze off while the coordinator is killed: one owner per
    generation, no generation twice, nothing committed by those whose time is over, and in the end a settled group."""

    name = "groups"
    static = False
    faults = (*CRASHES, *WEATHER, "delayed frames")

    def start_load(self) -> None:
        super().start_load()
        chance = self.chance
        habits = MemberHabits(
            session_ms=SESSION_MS,
            rebalance_ms=chance.choice((1000, 2000)),
            crash_probability=chance.choice((0.01, 0.05)),
            leave_probability=chance.choice((0.0, 0.05)),
            delay_probability=0.08 if "delayed frames" in self.enabled else 0.0,
        )
        for number in range(chance.randint(2, 4)):
            static = self.static or chance.random() < 0.1
            instance_id = f"instance-{number}" if static else None
            name = f"m{number}"
            member = GroupMember(self.world, name, self.address, "group", self.tps(), habits, instance_id)
            self.add_member(member)

    def habits(self) -> Habits:
        habits = super().habits()
        habits.pause_s_max, habits.records_per_batch_max = 0.3, 2
        return habits

    async def settle(self) -> None:
        await self.until(self._is_settled, "the group is not settled", "group-unsettled")

    def _is_settled(self) -> bool:
        owned = [tp for member in self.members for tp in member.positions]
        generations = {member.generation for member in self.members}
        stable = all(member.is_stable for member in self.members)
        return stable and len(generations) == 1 and sorted(owned) == sorted(self.tps())


class GroupStatic(Groups):
    """The same with static members, which come back as themselves."""

    name = "group-static"
    static = True


class ConsumerProtocol(Coordinated):
    """KIP-848 groups: no partition is given to anybody before its holder let go of it, or could have been expelled."""

    name = "consumer-protocol"

    def start_load(self) -> None:
        super().start_load()
        chance = self.chance
        habits = ConsumerHabits(
            session_ms=SESSION_MS,
            assignor=chance.choice((None, "uniform", "range")),
            crash_probability=chance.choice((0.01, 0.05)),
            leave_probability=chance.choice((0.0, 0.05)),
        )
        for number in range(chance.randint(2, 4)):
            instance_id = f"instance-{number}" if chance.random() < 0.3 else None
            member = ConsumerMember(self.world, f"m{number}", self.address, "group", ["t0"], habits, instance_id)
            self.add_member(member)

    def habits(self) -> Habits:
        habits = super().habits()
        habits.pause_s_max, habits.records_per_batch_max = 0.3, 2
        return habits

    async def settle(self) -> None:
        await self.until(self._is_settled, "the group is not settled", "group-unsettled")

    def _is_settled(self) -> bool:
        owned = [tp for member in self.members for tp in member.held]
        return all(member.is_stable for member in self.members) and sorted(owned) == sorted(self.tps())


class Transactions(Coordinated):
    """Transactional producers, several to a transactional id, so that zombies come back; readers of both isolation
    levels. Every transaction is seen whole, after its commit was called, or not at all; none stays open."""

    name = "transactions"
    version = 2
    patiences: tuple[float, ...] = (0.2, 0.5, 4.0)
    faults: tuple[str, ...] = (*CRASHES, *WEATHER, "delayed frames")

    def start_load(self) -> None:
        chance, tps = self.chance, self.tps()
        timeout_ms = chance.choice((1500, 4000))
        for number in range(chance.randint(2, 3)):
            habits = TxnHabits(
                version=self.version,
                timeout_ms=timeout_ms,
                delay_probability=0.12 if "delayed frames" in self.enabled else 0.0,
                abandon_probability=chance.choice((0.0, 0.3)),
                nap_probability=chance.choice((0.0, 0.08)),
                vanish_probability=chance.choice((0.0, 0.03)),
                patience_s=chance.choice(self.patiences),
            )
            shared = f"id-{number % 2 if chance.random() < 0.6 else number}"
            self.add_member(TransactionalWorker(self.world, f"w{number}", self.address, shared, tps, habits))
        for tp in tps[:2]:
            self.add_reader(tp)
        self.add_consumer("c-dirty", tps[0])

    def add_reader(self, tp: str) -> None:
        consumer = Consumer(self.world, f"c-committed-{tp}", self.address, tp, committed_only=True)
        self.consumers.append(consumer)
        self.start_task(consumer, consumer.run(), consumer.name)
        watcher = OffsetWatcher(self.world, f"watch-{tp}", self.address, self)
        self.add_member(watcher)


class OffsetWatcher(OffsetClient):
    """Asks for committed offsets while transactions that commit some are open."""

    def __init__(self, world: Any, name: str, address: tuple[str, int], scenario: Coordinated) -> None:
        super().__init__(world, name, address)
        self.scenario = scenario
        self.stopping = False

    def stop(self) -> None:
        self.stopping = True

    async def run(self) -> None:
        while not self.stopping:
            workers = [member for member in self.scenario.members if isinstance(member, TransactionalWorker)]
            worker = self.chance.choice(workers)
            self.group = f"g-{worker.name}"
            with contextlib.suppress(*GONE):
                await self.committed([worker.tps[0]], stable=False)
            await asyncio.sleep(self.chance.uniform(0.02, 0.2))


class TransactionsV1(Transactions):
    """Transactions as librdkafka and older clients write them."""

    name = "transactions-v1"
    version = 1


class TransactionsV2(Transactions):
    """Transactions that bump their epoch (KIP-890)."""

    name = "transactions-v2"


class TwoPhaseCommit(Transactions):
    """Transactions that an outside coordinator takes over, decides and ends (KIP-939)."""

    name = "two-phase-commit"

    def start_load(self) -> None:
        chance, tps = self.chance, self.tps()
        for number in range(chance.randint(2, 3)):
            habits = TxnHabits(
                version=chance.choice((1, 2)),
                timeout_ms=1500,
                delay_probability=0.1 if "delayed frames" in self.enabled else 0.0,
                nap_probability=chance.choice((0.0, 0.05)),
                # With a late request to keep, what a vanished producer leaves behind could lose its timeout.
                vanish_probability=0.0,
                patience_s=chance.choice(self.patiences),
            )
            self.add_member(TwoPhaseWorker(self.world, f"w{number}", self.address, f"id-{number}", tps, habits))
        for tp in tps[:2]:
            self.add_reader(tp)
        self.add_consumer("c-dirty", tps[0])


class CoordinatorCrash(Transactions):
    """Crash upon crash: at the decision, between markers, while the coordinators load."""

    name = "coordinator-crash"
    faults = ("kill at write", "kill at reply", "kill at coordinator", "kill at decision", "kill in recovery")
    modes = ("cache", "flush", "flush")
    rounds = (2, 5)
    partitions = (3, 5)
    patiences = (0.05, 0.05, 0.5, 4.0)
    """Little: an end that is not answered at once is left to the coordinator."""

    def broker_settings(self) -> dict[str, str]:
        self.version = self.chance.choice((1, 2))
        return super().broker_settings()

    def start_load(self) -> None:
        super().start_load()
        habits = MemberHabits(session_ms=SESSION_MS)
        for number in range(2):
            self.add_member(GroupMember(self.world, f"m{number}", self.address, "group", self.tps(), habits))

    def recovery_crashes(self) -> int:
        return self.chance.randint(0, 3)


class EosCopy(Coordinated):
    """Two or three workers of one group copy a topic, with their offsets in the transaction: each record once."""

    name = "eos-copy"
    faults: tuple[str, ...] = (*CRASHES, *WEATHER, "delayed frames")
    partitions = (1, 2)

    def plan_topics(self) -> list[TopicPlan]:
        plans = super().plan_topics()
        promise = Partition("", transactional=True)
        plans[0].promise = Partition("")
        return [*plans, TopicPlan("out", 2, self.topic_configs(), promise)]

    def habits(self) -> Habits:
        habits = super().habits()
        habits.pause_s_max, habits.padding_bytes_max, habits.records_per_batch_max = 0.2, 50, 3
        return habits

    def inputs(self) -> list[str]:
        return [f"t0-{index}" for index in range(self.topics[0].partitions)]

    def start_load(self) -> None:
        chance, inputs = self.chance, self.inputs()
        for tp in inputs:
            self.add_producer(f"p-{tp}", tp, self.topics[0].habits)
        version = chance.choice((1, 2))
        for number in range(chance.randint(2, 3)):
            habits = MemberHabits(session_ms=SESSION_MS, crash_probability=chance.choice((0.0, 0.03)))
            txn_habits = TxnHabits(
                version=version,
                timeout_ms=2500,
                delay_probability=0.1 if "delayed frames" in self.enabled else 0.0,
                nap_probability=chance.choice((0.02, 0.1)),
                patience_s=chance.choice((0.5, 4.0)),
            )
            copier = Copier(
                self.world, f"w{number}", self.address, "copy", inputs, ["out-0", "out-1"], habits, txn_habits
            )
            self.add_member(copier)
        consumer = Consumer(self.world, "c-out", self.address, "out-0", committed_only=True)
        self.consumers.append(consumer)
        self.start_task(consumer, consumer.run(), consumer.name)

    async def settle(self) -> None:
        """The input ends, and the workers get to its end."""
        for producer in self.producers:
            producer.stop()
        await self.wait_for("producer", [task for client, task in self.tasks if client in self.producers])
        ends = {tp: await self.admin.offset(tp, LATEST) for tp in self.inputs()}
        deadline = self.world.loop.time() + HEALING_S
        client = OffsetClient(self.world, "progress", self.address)
        client.group = "copy"
        while self.world.loop.time() < deadline:
            try:
                found = await client.committed(self.inputs(), stable=True)
            except GONE:
                found = None
            if found is not None and all(found[tp] >= end or end == 0 for tp, end in ends.items()):
                return
            await asyncio.sleep(0.3)
        self.world.history.problem("eos-stuck", f"the copy has not reached {ends} {HEALING_S} s after healing")

    async def read_everything(self) -> None:
        await super().read_everything()
        for tp in self.inputs():
            dump = self.world.history.dumps.get(tp)
            if dump is not None and not self.world.history.problems:
                keys = tuple(b"%s@%d" % (tp.encode(), row.offset) for row in dump.rows)
                self.world.history.coordination.copies.append(Copied(tp, ("out-0", "out-1"), keys))


# -- faults ----------------------------------------------------------------------------------------------------------


async def _kill_at_coordinator(run: Scenario) -> None:
    """At a write to a coordinator's own log."""
    part = run.chance.choice((TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC))
    await _kill_at_path(run, part, run.chance.randint(0, 20))


async def _kill_at_decision(run: Scenario) -> None:
    """At one of the next few things that become of transactions."""
    await asyncio.sleep(run.chance.uniform(0.0, run.round_seconds[0]))
    await _kill_at_path(run, TRANSACTION_STATE_TOPIC, run.chance.randint(0, 6))


async def _kill_at_path(run: Scenario, part: str, mutations: int) -> None:
    run.host.crash_at_write(mutations, power_loss=run.may_lose_power(), path_part=part)
    try:
        await asyncio.wait_for(run.host.down.wait(), run.round_seconds[1] * 4)
    except TimeoutError:
        run.host.drive.crash_at = None


async def _delayed_frames(run: Scenario) -> None:
    """The clients do it themselves, as long as the kind is enabled."""
    await asyncio.sleep(run.chance.uniform(*run.round_seconds))


FAULTS.update(
    {
        "kill at coordinator": _kill_at_coordinator,
        "kill at decision": _kill_at_decision,
        "delayed frames": _delayed_frames,
    }
)

COORDINATED: Final[tuple[type[Scenario], ...]] = (
    Groups,
    GroupStatic,
    ConsumerProtocol,
    TransactionsV1,
    TransactionsV2,
    EosCopy,
    TwoPhaseCommit,
    CoordinatorCrash,
)
