"""A scenario: a node under load while things go wrong, then healing, a final reading, and judgement.

Each seed decides sizes, timings, and - swarm testing - which of the scenario's fault kinds are enabled at all: a run
with few kinds goes deeper into each than a run with all of them.

A scenario states what it asserts:
- `flush`: topics acknowledge after the sync (`flush.messages=1`). Nothing acknowledged is lost, whatever happens.
- `cache`: topics acknowledge from the page cache. Nothing acknowledged is lost by kill -9.
- `lossy`: page cache and power loss. Acknowledged records may be lost; what is left is intact, ordered, a prefix.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from .client import Admin, GaveUp
from .consumer import Consumer
from .history import Partition
from .producer import Habits, PartitionProducer
from .world import DATA, PORT, Host, World

HEALING_S = 60.0
"""L1: how long after the last fault everything must work again."""
DIRECTORY = f"{DATA}/kafka"


@dataclass(slots=True)
class TopicPlan:
    name: str
    partitions: int
    configs: dict[str, str]
    promise: Partition
    habits: Habits = field(default_factory=Habits)
    producers_per_partition: int = 1

    def __post_init__(self) -> None:
        self.habits.batch_bytes_max = int(self.configs["internal.segment.bytes"])


class Scenario:
    """The common course; subclasses change the parts."""

    name = "scenario"
    doc = ""
    faults: tuple[str, ...] = ("kill timed", "kill at write", "kill at reply", "kill in recovery", "clean restart")
    """The fault kinds a seed may enable."""
    modes: tuple[str, ...] = ("cache", "flush")
    rounds = (1, 4)
    round_seconds = (0.05, 0.6)

    def __init__(self, world: World) -> None:
        self.world = world
        self.chance: random.Random = world.chance("scenario")
        self.mode = self.chance.choice(self.modes)
        count = self.chance.randint(1, len(self.faults))
        self.enabled = sorted(self.chance.sample(self.faults, count))
        self.host: Host = world.add_host("broker", self.broker_settings())
        self.address = ("broker", PORT)
        self.topics = self.plan_topics()
        self.failed_syncs_seen = 0
        self.producers: list[PartitionProducer] = []
        self.consumers: list[Consumer] = []
        self.tasks: list[tuple[Any, asyncio.Task[None]]] = []
        self.admin = Admin(world, "admin", self.address)
        world.trace.add(f"{self.name}: mode {self.mode}, faults {', '.join(self.enabled)}")

    # -- what a seed decides ---------------------------------------------------------------------------------------

    def broker_settings(self) -> dict[str, str]:
        chance = self.chance
        return {
            "log.dirs": DIRECTORY,
            "listeners": f"PLAINTEXT://broker:{PORT}",
            "node.id": "1",
            "log.retention.check.interval.ms": str(chance.choice((50, 200, 1000))),
            "log.cleaner.backoff.ms": str(chance.choice((20, 100, 500))),
            "log.cleaner.dedupe.buffer.size": "1048576",
            "log.flush.offset.checkpoint.interval.ms": str(chance.choice((50, 300, 60_000))),
            "log.flush.start.offset.checkpoint.interval.ms": str(chance.choice((50, 300, 60_000))),
            "auto.create.topics.enable": "false",
        }

    def topic_configs(self) -> dict[str, str]:
        chance = self.chance
        configs = {
            "internal.segment.bytes": str(chance.choice((400, 1500, 6000, 1 << 20))),
            "index.interval.bytes": str(chance.choice((0, 100, 1000, 4096))),
            "file.delete.delay.ms": str(chance.choice((0, 100, 60_000))),
        }
        if self.mode == "flush":
            configs["flush.messages"] = "1"
        elif chance.random() < 0.3:
            configs["flush.messages"] = str(chance.choice((2, 10)))
        return configs

    def plan_topics(self) -> list[TopicPlan]:
        return [
            TopicPlan(f"t{number}", self.chance.randint(1, 2), self.topic_configs(), Partition(""), self.habits())
            for number in range(self.chance.randint(1, 2))
        ]

    def habits(self) -> Habits:
        chance = self.chance
        return Habits(
            records_per_batch_max=chance.choice((1, 4, 10)),
            padding_bytes_max=chance.choice((0, 50, 300, 2000)),
            in_flight_max=chance.randint(1, 5),
            pause_s_max=chance.choice((0.01, 0.05, 0.1)),
            codecs=chance.choice(((0,), (0,), (0, 1, 2, 3, 4))),
            # acks=1 does not wait for the sync, so only what kill -9 must not take is promised.
            acks=chance.choice((-1, -1, 1)) if self.mode == "cache" else -1,
        )

    # -- the course ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        self.set_latencies()
        self.host.on_power_loss = self.power_was_lost
        await self.revive(0)
        for plan in self.topics:
            await self.admin.create_topic(plan.name, plan.partitions, plan.configs, plan.promise)
        await self.prepare()
        self.start_load()
        await self.chaos()
        await self.heal()
        await self.finish_load()
        await self.read_everything()
        await self.restart_changes_nothing()
        if self.host.is_up:
            await self.host.stop()

    async def prepare(self) -> None:
        """A hook for what must be there before the load."""

    def set_latencies(self) -> None:
        latency, chance = self.host.drive.latency, self.chance
        latency.before = chance.choice((0.0, 0.004, 0.02))
        latency.after = chance.choice((0.0, 0.004, 0.02))
        latency.sync = chance.choice((0.0, 0.001, 0.01))
        weather = self.world.fabric.weather
        weather.latency_max = chance.choice((0.0005, 0.005, 0.03))
        weather.split_probability = chance.choice((0.0, 0.1, 0.5))

    def power_was_lost(self) -> None:
        self.world.history.power_was_lost = True
        if self.mode == "lossy":
            history = self.world.history
            history.incarnation += 1
            for promise in history.partitions.values():
                promise.lossy = True

    def start_load(self) -> None:
        for plan in self.topics:
            for index in range(plan.partitions):
                for number in range(plan.producers_per_partition):
                    self.add_producer(f"p{number}-{plan.name}-{index}", f"{plan.name}-{index}", plan.habits)
        for plan in self.topics:
            self.add_consumer(f"c-{plan.name}", f"{plan.name}-0")

    def add_producer(self, name: str, tp: str, habits: Habits) -> PartitionProducer:
        producer = PartitionProducer(self.world, name, self.address, tp, habits)
        self.producers.append(producer)
        self.start_task(producer, producer.run(), name)
        return producer

    def add_consumer(self, name: str, tp: str) -> None:
        consumer = Consumer(self.world, name, self.address, tp)
        self.consumers.append(consumer)
        self.start_task(consumer, consumer.run(), name)

    def start_task(self, client: Admin, work: Coroutine[Any, Any, None], name: str) -> None:
        loop = self.world.loop
        self.tasks.append((client, client.process.run(lambda: loop.create_task(work, name=name))))

    async def chaos(self) -> None:
        for _ in range(self.chance.randint(*self.rounds)):
            self.during_round()
            kind = self.chance.choice(self.enabled)
            await FAULTS[kind](self)
            await self.revive(self.recovery_crashes())

    def during_round(self) -> None:
        """A hook for what should happen while a fault is on its way."""

    def struck_paths(self) -> tuple[str, ...]:
        """Parts of the paths on which I/O errors strike."""
        return ("", ".log", ".index", "checkpoint", "/t0-0")

    def recovery_crashes(self) -> int:
        kinds = [kind for kind in self.enabled if kind.endswith("in recovery")]
        return self.chance.randint(1, 3) if kinds and self.chance.random() < 0.7 else 0

    def may_lose_power(self) -> bool:
        """Whether a crash may take the power in this run's durability mode."""
        if self.mode == "cache":
            return False
        return self.mode == "lossy" or self.chance.random() < 0.8

    async def revive(self, recovery_crashes: int) -> None:
        """Start the node if it is down, crashing it that many times on the way."""
        while not self.host.is_up:
            self.reboot_after_failed_sync()
            if recovery_crashes > 0:
                self.host.crash_at_write(self.chance.randint(0, 25), power_loss=self.may_lose_power())
                recovery_crashes -= 1
            if await self.host.start():
                return
            self.host.effects["crash in recovery"] += 1
            await asyncio.sleep(self.chance.uniform(0.01, 0.2))

    def reboot_after_failed_sync(self) -> None:
        """After a failed sync the page cache shows bytes that the kernel has given up and will never write. A new
        process cannot tell, a reboot can: the manual asks for one, and in `flush` mode the promise depends on it."""
        failed = self.host.drive.effects["sync on sync"]
        if failed > self.failed_syncs_seen and self.mode == "flush":
            self.world.trace.add("reboot after a failed sync")
            self.host.drive.lose_power()
        self.failed_syncs_seen = failed

    async def heal(self) -> None:
        """No more faults; whatever is broken gets its restart."""
        self.host.drive.crash_at = None
        self.host.drive.faults.clear()
        self.host.drive.capacity_bytes.clear()
        self.world.store.fail_before_probability = self.world.store.fail_after_probability = 0.0
        self.world.fabric.heal()
        await self.revive(0)
        await asyncio.sleep(self.chance.uniform(0.05, 0.5))

    async def finish_load(self) -> None:
        """L1: every producer gets its last batches acknowledged within the bound."""
        for producer in self.producers:
            producer.stop()
        await self.wait_for("producer", [task for client, task in self.tasks if isinstance(client, PartitionProducer)])
        for consumer in self.consumers:
            consumer.stop()
        await self.wait_for("consumer", [task for client, task in self.tasks if isinstance(client, Consumer)])

    async def wait_for(self, what: str, tasks: list[asyncio.Task[None]]) -> None:
        deadline = self.world.loop.time() + HEALING_S
        for task in tasks:
            try:
                await asyncio.wait_for(task, deadline - self.world.loop.time())
            except TimeoutError:
                self.world.history.problem("stuck", f"{what} {task.get_name()} not done {HEALING_S} s after healing")
            except GaveUp as failure:
                self.world.history.problem("stuck", f"{what} {task.get_name()}: {failure}")

    async def read_everything(self) -> None:
        """L2: all partitions can be read to their end."""
        for tp, promise in self.world.history.partitions.items():
            if self.is_readable(tp):
                reader = Consumer(self.world, f"dump-{tp}", self.address, tp)
                try:
                    self.world.history.dumps[promise.tp] = await reader.dump(within_s=HEALING_S)
                except GaveUp as failure:
                    self.world.history.problem("stuck", str(failure))

    def is_readable(self, tp: str) -> bool:
        """A hook for scenarios that delete topics."""
        return True

    async def restart_changes_nothing(self) -> None:
        """After a clean stop, a kill, or a power loss of a quiet flushed node, everything reads as before."""
        kind = self.chance.choice(("none", "stop", "crash"))
        if kind == "none" or not self.host.is_up or self.world.history.problems:
            return
        if kind == "stop":
            await self.host.stop()
        else:
            self.host.crash(power_loss=self.mode == "flush")
        await self.revive(0)
        before = dict(self.world.history.dumps)
        for tp in before:
            reader = Consumer(self.world, f"again-{tp}", self.address, tp)
            again = await reader.dump(within_s=HEALING_S)
            if not self.world.history.partitions[tp].compact and not self.world.history.partitions[tp].retention:
                self._compare(tp, before[tp], again)
            self.world.history.dumps[tp] = again

    def _compare(self, tp: str, before: Any, after: Any) -> None:
        same_edges = (before.start_offset, before.high_watermark) == (after.start_offset, after.high_watermark)
        if not same_edges or before.rows != after.rows:
            edges = f"[{before.start_offset}, {before.high_watermark}) became "
            edges += f"[{after.start_offset}, {after.high_watermark}), {len(before.rows)} rows, {len(after.rows)} now"
            self.world.history.problem("restart-changes", f"{tp}: {edges}")


# -- fault kinds: each waits for its moment, strikes, and returns with the node up or down ---------------------------


async def _kill_timed(run: Scenario) -> None:
    await asyncio.sleep(run.chance.uniform(*run.round_seconds))
    run.host.crash(power_loss=run.may_lose_power())


async def _kill_at_write(run: Scenario) -> None:
    run.host.crash_at_write(int(run.chance.expovariate(1 / 60)), power_loss=run.may_lose_power())
    await _until_down(run)


async def _kill_in_swap(run: Scenario) -> None:
    """In the middle of compaction, or of taking segments away."""
    part = run.chance.choice((".cleaned", ".cleaned", ".swap", ".deleted"))
    run.host.crash_at_write(run.chance.randint(0, 12), power_loss=run.may_lose_power(), path_part=part)
    await _until_down(run)


async def _kill_at_reply(run: Scenario) -> None:
    """The moment a reply is on the wire: whatever it promises must hold already."""
    power_loss = run.may_lose_power()
    if run.host.process is not None:
        replies = 1 + int(run.chance.expovariate(1 / 20))
        run.world.fabric.after_writes(run.host.process, replies, lambda: run.host.crash(power_loss=power_loss))
    await _until_down(run)


async def _until_down(run: Scenario) -> None:
    try:
        await asyncio.wait_for(run.host.down.wait(), run.round_seconds[1] * 4)
    except TimeoutError:
        run.host.drive.crash_at = None


async def _clean_restart(run: Scenario) -> None:
    await asyncio.sleep(run.chance.uniform(*run.round_seconds))
    if run.host.is_up:
        await run.host.stop()
        run.host.effects["clean restart"] += 1


async def _resets(run: Scenario) -> None:
    for _ in range(run.chance.randint(1, 6)):
        await asyncio.sleep(run.chance.uniform(0.01, 0.2))
        run.world.fabric.reset_some(run.chance.random())


async def _stalls(run: Scenario) -> None:
    weather = run.world.fabric.weather
    weather.stall_probability, weather.stall_seconds_max = 0.05, run.chance.choice((0.5, 6.0))
    await asyncio.sleep(run.chance.uniform(0.2, 1.0))
    weather.stall_probability = 0.0


async def _partition(run: Scenario) -> None:
    client = run.chance.choice(run.producers)
    run.world.fabric.partition(client.name, "broker", both_ways=run.chance.random() < 0.5)
    await asyncio.sleep(run.chance.uniform(0.1, 8.0))
    run.world.fabric.heal()


async def _slow_disk(run: Scenario) -> None:
    latency = run.host.drive.latency
    before, latency.sync = latency.sync, run.chance.choice((0.02, 0.1, 0.4))
    run.host.drive.effects["slow sync"] += 1
    await asyncio.sleep(run.chance.uniform(0.2, 1.0))
    latency.sync = before


async def _clock_jump(run: Scenario) -> None:
    await asyncio.sleep(run.chance.uniform(0.05, 0.3))
    run.host.clock.jump(run.chance.choice((-3_600_000, -1000, 1000, 600_000)))
    run.host.effects["clock jump"] += 1


FAULTS: dict[str, Callable[[Any], Coroutine[Any, Any, None]]] = {
    "kill timed": _kill_timed,
    "kill at write": _kill_at_write,
    "kill at reply": _kill_at_reply,
    "kill in swap": _kill_in_swap,
    "kill in recovery": _kill_timed,
    "clean restart": _clean_restart,
    "connection resets": _resets,
    "stalls": _stalls,
    "partition": _partition,
    "slow disk": _slow_disk,
    "clock jump": _clock_jump,
}
