"""The scenarios, one class each, and the table of them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any, Final

from .client import EARLIEST, LATEST, Admin, GaveUp
from .coordination import COORDINATED
from .drive import Fault
from .history import Partition
from .producer import Habits
from .scenario import DIRECTORY, FAULTS, Scenario, TopicPlan
from .world import DATA, World

SECOND_DIRECTORY: Final = f"{DATA}/second"
CRASHES: Final = ("kill timed", "kill at write", "kill at reply", "kill in recovery", "clean restart")


class Produce(Scenario):
    """Idempotent producers while the broker is killed or loses power. `cache`: kill -9 loses nothing acknowledged;
    `flush`: a power loss neither."""

    name = "produce"


class LossyPower(Scenario):
    """Page-cache mode and power loss: acknowledged records may go, but the log stays whole, ordered and intact."""

    name = "lossy-power"
    modes = ("lossy",)


class Roll(Scenario):
    """Segments of a few batches, so that every crash is near a roll."""

    name = "roll"
    rounds = (2, 5)

    def topic_configs(self) -> dict[str, str]:
        configs = super().topic_configs()
        configs["internal.segment.bytes"] = str(self.chance.choice((200, 400, 900)))
        if self.chance.random() < 0.3:
            configs["segment.ms"] = str(self.chance.choice((20, 200)))
        return configs


class Recovery(Scenario):
    """Crash upon crash while recovery is running."""

    name = "recovery"
    faults = ("kill at write", "kill in recovery")
    rounds = (2, 4)

    def recovery_crashes(self) -> int:
        return self.chance.randint(1, 5)


class Compaction(Scenario):
    """Compacted topics with few keys and a busy cleaner; the last value of every key stays."""

    name = "compaction"
    faults = ("kill timed", "kill at write", "kill in swap", "kill in recovery", "clean restart")
    rounds = (2, 5)
    round_seconds = (0.2, 1.0)

    def plan_topics(self) -> list[TopicPlan]:
        chance = self.chance
        configs = self.topic_configs() | {
            "cleanup.policy": "compact",
            "internal.segment.bytes": str(chance.choice((300, 800, 2500))),
            "min.cleanable.dirty.ratio": str(chance.choice((0.01, 0.3))),
            "delete.retention.ms": str(chance.choice((0, 300, 86_400_000))),
        }
        if chance.random() < 0.3:
            configs["max.compaction.lag.ms"] = "200"
        tombstones_go = configs["delete.retention.ms"] != "86400000"
        promise = Partition("", compact=True, tombstones_go=tombstones_go)
        return [TopicPlan("c0", chance.randint(1, 2), configs, promise, self.keyed_habits())]

    def keyed_habits(self) -> Habits:
        habits = self.habits()
        habits.keys = self.chance.choice((1, 5, 40))
        habits.tombstone_probability = self.chance.choice((0.0, 0.1))
        habits.padding_bytes_max = min(habits.padding_bytes_max, 300)
        habits.codecs = self.chance.choice(((0,), (0, 1), (0, 4)))
        return habits


class Retention(Scenario):
    """Retention by size or time deletes old segments while the broker crashes; it never takes too much."""

    name = "retention"
    faults = (*CRASHES, "kill in swap")
    rounds = (2, 4)
    round_seconds = (0.2, 0.8)

    def topic_configs(self) -> dict[str, str]:
        chance = self.chance
        configs = super().topic_configs()
        configs["internal.segment.bytes"] = str(chance.choice((300, 800, 2000)))
        if chance.random() < 0.5:
            configs["retention.bytes"] = str(chance.choice((1000, 4000)))
        else:
            configs["retention.ms"] = str(chance.choice((200, 800)))
        return configs

    def plan_topics(self) -> list[TopicPlan]:
        promise = Partition("", retention=True)
        return [TopicPlan("r0", self.chance.randint(1, 2), self.topic_configs(), promise, self.habits())]

    async def read_everything(self) -> None:
        await super().read_everything()
        for tp, dump in self.world.history.dumps.items():
            self._not_too_much(tp, dump.start_offset)

    def _not_too_much(self, tp: str, start_offset: int) -> None:
        """By size: what is gone must not have been needed to fill the limit. By time: it must be old enough."""
        configs = self.topics[0].configs
        if "retention.ms" in configs:
            oldest_kept_ms = self.host.clock.wall_ms() - int(configs["retention.ms"])
            for send in self.world.history.sends:
                if send.tp == tp and 0 <= send.offset < start_offset and send.timestamp_ms > oldest_kept_ms:
                    self.world.history.problem("retention-overreach", f"{tp}@{send.offset} was young and is gone")
        elif self.host.node is not None:
            kept = sum(
                len(node.cache) for path, node in self.host.drive.files(f"{DIRECTORY}/{tp}") if path.endswith(".log")
            )
            if start_offset > 0 and kept < int(configs["retention.bytes"]):
                self.world.history.problem("retention-overreach", f"{tp}: only {kept} bytes kept")


class DeleteRecords(Scenario):
    """DeleteRecords while the broker crashes: an acknowledged deletion stays, nothing beyond it goes."""

    name = "delete-records"
    faults = (*CRASHES, "kill in swap")
    rounds = (2, 5)

    def start_load(self) -> None:
        super().start_load()
        for plan in self.topics:
            deleter = Deleter(self.world, f"d-{plan.name}", self.address, f"{plan.name}-0")
            self.start_task(deleter, deleter.run(), deleter.name)
            self.deleters.append(deleter)

    def __init__(self, world: World) -> None:
        self.deleters: list[Deleter] = []
        super().__init__(world)

    async def finish_load(self) -> None:
        for deleter in self.deleters:
            deleter.stopping = True
        await self.wait_for("deleter", [task for client, task in self.tasks if isinstance(client, Deleter)])
        await super().finish_load()


class Deleter(Admin):
    """Deletes records up to somewhere, now and then."""

    def __init__(self, world: World, name: str, address: tuple[str, int], tp: str) -> None:
        super().__init__(world, name, address)
        self.tp = tp
        self.stopping = False

    async def run(self) -> None:
        while not self.stopping:
            await asyncio.sleep(self.chance.uniform(0.02, 0.3))
            try:
                end = await self.offset(self.tp, LATEST)
                start = await self.offset(self.tp, EARLIEST)
                await self.delete_records(
                    self.tp, self.chance.choice((end, self.chance.randint(start, max(start, end))))
                )
            except GaveUp:
                continue


class Topics(Scenario):
    """Topics come and go while the broker crashes: an acknowledged creation stays, a deletion too."""

    name = "topics"
    faults = (*CRASHES, "store failures")

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.deleted: set[str] = set()
        self.doomed_number = 0

    def during_round(self) -> None:
        if not any(isinstance(client, Restless) for client, _task in self.tasks):
            restless = Restless(self.world, "restless", self.address, self)
            self.start_task(restless, restless.run(), "restless")

    async def finish_load(self) -> None:
        for client, _task in self.tasks:
            if isinstance(client, Restless):
                client.stopping = True
        await self.wait_for("restless", [task for client, task in self.tasks if isinstance(client, Restless)])
        await super().finish_load()

    def is_readable(self, tp: str) -> bool:
        return tp.rpartition("-")[0] not in self.deleted

    async def read_everything(self) -> None:
        await super().read_everything()
        existing = {path.split("/")[3] for path, _node in self.host.drive.files(DIRECTORY) if path.count("/") > 3}
        for name in sorted(self.deleted):
            left = sorted(directory for directory in existing if directory.rpartition("-")[0] == name)
            if left:
                self.world.history.problem("topic-revived", f"{name} was deleted, yet there is {left}")


class Restless(Admin):
    """Creates topics, writes a little, deletes some of them."""

    def __init__(self, world: World, name: str, address: tuple[str, int], run: Topics) -> None:
        super().__init__(world, name, address)
        self.scenario = run
        self.stopping = False

    async def run(self) -> None:
        number = 0
        while not self.stopping and number < 8:
            number += 1
            name = f"x{number}"
            plan = TopicPlan(name, 1, self.scenario.topic_configs(), Partition(""), self.scenario.habits())
            await self.create_topic(name, 1, plan.configs, plan.promise)
            producer = self.scenario.add_producer(f"px-{name}", f"{name}-0", plan.habits)
            await asyncio.sleep(self.chance.uniform(0.0, 0.2))
            if self.chance.random() < 0.6:
                producer.stopping = True
                while producer.unacked:  # noqa: ASYNC110 - polling is what a client does
                    await asyncio.sleep(0.05)
                producer.given_up = True
                self.scenario.deleted.add(name)
                await self.delete_topic(name)


class DiskFull(Scenario):
    """The disk fills up and later has room again; what was acknowledged stays."""

    name = "disk-full"
    faults = ("disk full", "kill at write")
    rounds = (1, 3)


class DiskFaults(Scenario):
    """I/O errors and failed syncs. A failed sync is final: after it nothing unsynced may be acknowledged."""

    name = "disk-faults"
    faults = ("write error", "sync error", "rename error", "slow disk", "kill at write")
    modes = ("flush", "flush", "cache")


class TwoDisks(Scenario):
    """Two log directories, of which one fails: the other goes on, and nothing acknowledged on either is lost."""

    name = "two-disks"
    faults = ("write error", "sync error", "rename error", "kill at write", "clean restart")
    modes = ("flush", "cache")

    def broker_settings(self) -> dict[str, str]:
        return super().broker_settings() | {"log.dirs": f"{DIRECTORY},{SECOND_DIRECTORY}"}

    def struck_paths(self) -> tuple[str, ...]:
        return (SECOND_DIRECTORY,)


class Damage(Scenario):
    """Indexes, snapshots and checkpoints are lost or damaged while the broker is down: they are rebuilt."""

    name = "damage"
    faults = ("damage", "kill timed")
    rounds = (2, 4)


class Rot(Scenario):
    """A bit of a sealed segment flips: the broker lives, and every other partition keeps all its promises."""

    name = "rot"
    faults = ("bit rot", "kill timed", "clean restart")
    rounds = (2, 4)

    def plan_topics(self) -> list[TopicPlan]:
        plans = []
        for name in ("t0", "rotting"):
            configs = self.topic_configs()
            configs["internal.segment.bytes"] = str(self.chance.choice((400, 1500)))
            plans.append(TopicPlan(name, self.chance.randint(1, 2), configs, Partition(""), self.habits()))
        return plans

    def is_readable(self, tp: str) -> bool:
        return not self.world.history.partitions[tp].rotten

    async def wait_for(self, what: str, tasks: list[asyncio.Task[None]]) -> None:
        """Nothing is expected of the clients of a rotten partition."""
        promises = self.world.history.partitions
        lost = [task for client, task in self.tasks if promises[client.tp].rotten]
        for task in lost:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await super().wait_for(what, [task for task in tasks if task not in lost])


class Store(Scenario):
    """The metadata store is slow, fails, or fails after having done it."""

    name = "store"
    faults = ("store failures", "kill timed", "kill at write", "kill at reply")

    def set_latencies(self) -> None:
        super().set_latencies()
        self.world.store.latency_seconds_max = self.chance.choice((0.001, 0.05, 0.3))


class Network(Scenario):
    """Resets, stalls, partitions, odd segmentation: retries without loss or duplicates."""

    name = "network"
    faults = ("connection resets", "stalls", "partition", "slow disk", "clock jump", "kill timed")


# -- their faults ----------------------------------------------------------------------------------------------------


async def _disk_full(run: Scenario) -> None:
    drive = run.host.drive
    drive.capacity_bytes[DATA] = drive.used_bytes(DATA) + run.chance.randint(0, 3000)
    await asyncio.sleep(run.chance.uniform(*run.round_seconds) * 2)
    drive.capacity_bytes.clear()
    await _restart(run)


def _io_error(op: str, kind: str) -> Callable[[Scenario], Coroutine[Any, Any, None]]:
    async def strike(run: Scenario) -> None:
        part = run.chance.choice(run.struck_paths())
        skip = int(run.chance.expovariate(1 / 20))
        run.host.drive.faults.append(Fault(op, part, kind=kind, skip=skip, times=run.chance.randint(1, 3)))
        await asyncio.sleep(run.chance.uniform(*run.round_seconds) * 2)
        run.host.drive.faults.clear()
        await _restart(run)

    return strike


async def _restart(run: Scenario) -> None:
    """An operator mended the disk and restarts the broker: a kill, or in flush mode the plug as well."""
    run.host.crash(power_loss=run.may_lose_power())


async def _store_failures(run: Scenario) -> None:
    store = run.world.store
    store.fail_before_probability = run.chance.choice((0.0, 0.3))
    store.fail_after_probability = run.chance.choice((0.0, 0.3))
    await asyncio.sleep(run.chance.uniform(*run.round_seconds) * 2)
    store.fail_before_probability = store.fail_after_probability = 0.0


REBUILT: Final = (".index", ".timeindex", ".snapshot", "recovery-point-offset-checkpoint", "leader-epoch-checkpoint")


async def _damage(run: Scenario) -> None:
    """Kill, then hurt some files that can be rebuilt from the log."""
    await asyncio.sleep(run.chance.uniform(*run.round_seconds))
    run.host.crash(power_loss=False)
    drive, chance = run.host.drive, run.chance
    for path, node in list(drive.files(DIRECTORY)):
        if not path.endswith(REBUILT) or chance.random() < 0.5:
            continue
        how = chance.choice(("remove", "truncate", "zero", "flip"))
        drive.effects[f"damage: {how}"] += 1
        drive.trace.add(f"fault {how} {path}")
        if how == "remove":
            directory, name = drive.parent(path)
            directory.entries.pop(name)
            directory.durable.pop(name, None)
            directory.pending = [change for change in directory.pending if name not in (change.name, change.old_name)]
        elif how == "truncate":
            node.truncate(chance.randint(0, len(node.cache)))
            node.sync()
        elif how == "zero":
            node.write(0, bytes(len(node.cache)))
            node.sync()
        elif node.cache:
            drive.flip_bit(path, chance.randrange(len(node.cache)), chance.randrange(8))


async def _bit_rot(run: Scenario) -> None:
    await asyncio.sleep(run.chance.uniform(*run.round_seconds))
    drive, chance = run.host.drive, run.chance
    logs = [
        path for path, node in drive.files(DIRECTORY) if "/rotting-" in path and path.endswith(".log") and node.cache
    ]
    sealed = [
        path for path, following in itertools.pairwise(logs) if path.rpartition("/")[0] == following.rpartition("/")[0]
    ]
    if sealed:
        path = chance.choice(sealed)
        run.world.history.partitions[path.split("/")[-2]].rotten = True
        drive.flip_bit(path, chance.randrange(len(drive.file(path).cache)), chance.randrange(8))


FAULTS.update(
    {
        "bit rot": _bit_rot,
        "disk full": _disk_full,
        "write error": _io_error("write", "eio"),
        "sync error": _io_error("sync", "sync"),
        "rename error": _io_error("rename", "eio"),
        "store failures": _store_failures,
        "damage": _damage,
    }
)

STORED: Final[tuple[type[Scenario], ...]] = (
    Produce,
    LossyPower,
    Roll,
    Recovery,
    Compaction,
    Retention,
    DeleteRecords,
    Topics,
    DiskFull,
    DiskFaults,
    TwoDisks,
    Damage,
    Rot,
    Store,
    Network,
)

SCENARIOS: Final[dict[str, type[Scenario]]] = {scenario.name: scenario for scenario in (*STORED, *COORDINATED)}
