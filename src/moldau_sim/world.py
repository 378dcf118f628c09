"""A world: one loop, one fabric, hosts with drives and clocks, a metadata store, and the real node on top.

`Host.crash` is exact: the ports die first, then the drive reverts when power was lost, and the dead node's tasks are
never run again. `Host.start` composes a new node on the same drive and store, as a restart of the program would.
"""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from moldau.config.settings import Settings
from moldau.model.failures import WorldError
from moldau.node.compose import Node, Ports

from .clock import SimulatedClock
from .disk import SimulatedDisk
from .drive import Drive
from .entropy import SeededEntropy
from .history import History
from .loop import VirtualLoop
from .network import Fabric, SimulatedNetwork
from .process import Process, ProcessDied
from .store import SimulatedStore, StoreEngine
from .trace import Trace

T = TypeVar("T")
DATA = "/data"
PORT = 9092


class World:
    """Everything that one seed decides."""

    def __init__(self, seed: int, name: str, *, keep_trace: bool = False) -> None:
        self.seed = seed
        self.entropy = SeededEntropy(f"{name}/{seed}")
        self.loop = VirtualLoop()  # type: ignore[abstract]  # abstract only to the stubs
        self.trace = Trace(keep_lines=keep_trace, now=self.loop.time)
        self.history = History(now=self.loop.time)
        self.fabric = Fabric(self.loop, self.chance("network"), self.trace)
        self.store = StoreEngine(self.chance("store"), self.trace)
        self.hosts: dict[str, Host] = {}
        self.dead: list[Process] = []

    def chance(self, name: str) -> random.Random:
        return self.entropy.stream(name)

    def add_host(self, name: str, settings: Mapping[str, str]) -> Host:
        host = self.hosts[name] = Host(self, name, settings)
        return host

    def client_process(self, name: str) -> tuple[Process, SimulatedNetwork]:
        process = Process(name)
        return process, SimulatedNetwork(self.fabric, process, name)

    def effects(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for counter in (self.fabric.effects, self.store.effects, *(host.drive.effects for host in self.hosts.values())):
            total.update(counter)
        for host in self.hosts.values():
            total.update(host.effects)
        return +total

    def run(self, main: Callable[[World], Coroutine[Any, Any, None]]) -> None:
        """Run the scenario to its end, or raise what ended it (a deadlock, a runaway, a broken invariant)."""
        try:
            self.loop.run_until_complete(main(self))
        finally:
            for host in self.hosts.values():
                if host.process is not None:
                    host.process.die()
            self.loop.close()


class Host:
    """One machine: its drive and clock outlive the node processes that run on it."""

    def __init__(self, world: World, name: str, settings: Mapping[str, str]) -> None:
        self.world = world
        self.name = name
        self.settings = dict(settings)
        self.adopt_logs = False
        self.drive = Drive(world.chance(f"{name}/drive"), world.trace)
        self.clock = SimulatedClock(world.loop)
        self.drive.now_ms = self.clock.wall_ms
        self.drive.make_dirs(DATA, durable=True)
        self.process: Process | None = None
        self.node: Node | None = None
        self.effects: Counter[str] = Counter()
        self.starts = 0
        self.down = asyncio.Event()
        self.down.set()
        self.on_power_loss: Callable[[], None] = lambda: None

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.alive

    async def start(self) -> bool:
        """Start a new process with a node; False when it died on the way (a crash during recovery)."""
        self.starts += 1
        process = self.process = Process(f"{self.name}#{self.starts}")
        self.down.clear()
        self.world.trace.add(f"{process.name} starts")
        ports = self._ports(process)
        settings = Settings.from_sources(overrides=self.settings)
        node = process.run(lambda: Node(settings, ports, adopt_logs=self.adopt_logs))
        try:
            await self.run(node.start(), process)
        except ProcessDied:
            return False
        self.node = node
        self.world.trace.add(f"{process.name} is up")
        self.world.loop.create_task(self._watch(node, process), name=f"watch {process.name}")
        return True

    async def _watch(self, node: Node, process: Process) -> None:
        """What `moldau up` does when the node says that it cannot go on: stop it and end."""
        assert node.failure is not None
        problem = await node.failure
        self.world.trace.add(f"{process.name} cannot go on: {problem}")
        self.effects["node gave up"] += 1
        if not isinstance(problem, WorldError):
            self.world.history.problem("node-failed", "".join(traceback.format_exception(problem)))
        with suppress(ProcessDied, WorldError):
            await self.run(node.stop(), process)
        self._ended(process)

    def _ended(self, process: Process) -> None:
        process.die()
        self.world.dead.append(process)
        if self.process is process:
            self.node = None
            self.down.set()

    def _ports(self, process: Process) -> Ports:
        world = self.world
        entropy = world.entropy.child(process.name)
        return Ports(
            clock=self.clock,
            entropy=entropy,
            disk=SimulatedDisk(self.drive, process),
            network=SimulatedNetwork(world.fabric, process, self.name),
            store_factory=lambda *_arguments, **_options: SimulatedStore(world.store, process),
        )

    async def run(self, work: Coroutine[Any, Any, T], process: Process | None = None) -> T:
        """Run as the node's process; ProcessDied when it dies before the end."""
        process = process or self.process
        assert process is not None
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()

        def finish(*_ignored: object) -> None:
            if not over.done():
                over.set_result(None)

        process.at_death(finish)
        task = process.run(lambda: loop.create_task(work, name=f"{process.name} main"))
        task.add_done_callback(finish)
        await over
        if not task.done():
            raise ProcessDied(process.name)
        return task.result()

    async def stop(self) -> None:
        """Stop cleanly, as on SIGTERM - unless a crash comes first."""
        assert self.node is not None
        process = self.process
        assert process is not None
        with suppress(ProcessDied):
            await self.run(self.node.stop())
            self.world.trace.add(f"{process.name} stopped")
            self._ended(process)

    def crash(self, *, power_loss: bool) -> None:
        """kill -9, or the plug."""
        if not self.is_up:
            return
        process = self.process
        assert process is not None
        what = "power loss" if power_loss else "kill -9"
        self.world.trace.add(f"{process.name} {what}")
        self.world.history.fault(f"{what} of {process.name}")
        self.effects[what] += 1
        self.drive.crash_at = None
        process.die()
        if power_loss:
            self.drive.lose_power()
            self.world.store.lose_power()
            self.on_power_loss()
        self._ended(process)

    def crash_at_write(self, mutations: int, *, power_loss: bool, path_part: str = "") -> None:
        """Crash at the mutating disk operation (on such paths) that comes after this many more."""
        self.drive.crash_in(mutations, lambda: self.crash(power_loss=power_loss), path_part)


@contextmanager
def quiet_garbage() -> Iterator[None]:
    """No collection in the middle of a run, and none of what dropped coroutines complain about at the end."""
    was_enabled = gc.isenabled()
    gc.disable()
    hook = sys.unraisablehook
    sys.unraisablehook = lambda _unraisable: None
    try:
        yield
    finally:
        gc.collect()
        sys.unraisablehook = hook
        if was_enabled:
            gc.enable()
