"""The smallest coordinator there could be, and a stage on virtual time to run it on."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

from moldau.broker.partition import Partition
from moldau.broker.shards.runtime import ShardRuntime
from moldau.core.coordination import NOT_YET, Decision, Now
from moldau.core.log.settings import LogSettings
from moldau.model.errors import Refused
from moldau_sim.loop import VirtualLoop
from tests.unit.server.harness import Stage


class Add(NamedTuple):
    """Count something. `times` makes as many records."""

    name: str
    times: int = 1


class Read(NamedTuple):
    name: str


class Await(NamedTuple):
    """Answered by the next `Release`."""

    ticket: int = -1


class Release(NamedTuple):
    pass


class Remind(NamedTuple):
    """Count `name` by itself when the time has come."""

    name: str
    after_ms: int


class Added(NamedTuple):
    name: str


class Tally:
    """A core: counts by name, waiters and reminders as soft state."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.pending: dict[int, list[str]] = {}
        self.waiting: list[int] = []
        self.reminders: list[tuple[int, str]] = []
        self.loaded_at: Now | None = None
        self.taken_back: list[Refused] = []

    def decide(self, command: Any, now: Now) -> Decision:
        match command:
            case Add(name, times):
                return Decision(tuple(Added(name) for _ in range(times)), self.counts.get(name, 0) + times, (), (name,))
            case Read(name):
                return Decision(reply=self.counts.get(name, 0))
            case Await(ticket):
                self.waiting.append(ticket)
                return Decision(reply=NOT_YET)
            case Remind(name, after_ms):
                self.reminders.append((now.loop_ms + after_ms, name))
                return Decision(reply=None)
        released, self.waiting = self.waiting, []
        return Decision((Added("release"),), "done", tuple((ticket, "released") for ticket in released))

    def apply(self, record: Any, producer_id: int = -1) -> None:
        if producer_id != -1:
            self.pending.setdefault(producer_id, []).append(record.name)
        else:
            self.counts[record.name] = self.counts.get(record.name, 0) + 1

    def apply_marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        for name in self.pending.pop(producer_id, []):
            if committed:
                self.counts[name] = self.counts.get(name, 0) + 1

    def loaded(self, now: Now) -> None:
        self.loaded_at = now

    def next_deadline_ms(self) -> int | None:
        return min(self.reminders)[0] if self.reminders else None

    def decide_expired(self, now: Now) -> Decision:
        due = [name for at_ms, name in self.reminders if at_ms <= now.loop_ms]
        self.reminders = [row for row in self.reminders if row[0] > now.loop_ms]
        return Decision(tuple(Added(name) for name in due))

    def decide_not_appended(self, decision: Decision, refused: Refused, now: Now) -> Decision:
        self.taken_back.append(refused)
        return Decision(completions=tuple((ticket, refused) for ticket, _ in decision.completions))


class TallyCodec:
    def encode(self, record: Added) -> tuple[bytes, bytes | None]:
        return record.name.encode(), b"added"

    def decode(self, key: bytes, value: bytes | None) -> Added | None:
        return None if key.startswith(b"unknown") else Added(key.decode())


class ShardStage:
    """One partition on a real disk, one shard at a time, the server's ticks on a loop of virtual time."""

    def __init__(self, directory: Path, loop: VirtualLoop, settings: LogSettings | None = None) -> None:
        self.stage = Stage(directory, loop=loop)
        self.partition: Partition = self.stage.topic("tally", settings=settings)[0]
        self.effects: list[Any] = []
        self.dropped: list[ShardRuntime] = []

    def shard(self, **options: Any) -> ShardRuntime:
        return ShardRuntime(
            self.partition,
            Tally,
            TallyCodec(),
            clock=self.stage.clock,
            on_effect=lambda shard, effect: self.effects.append(effect),
            on_dropped=self.dropped.append,
            **options,
        )

    async def loaded(self, **options: Any) -> ShardRuntime:
        shard = self.shard(**options)
        await shard.load()
        return shard


def on_virtual_time(directory: Path, body: Callable[[ShardStage], Coroutine[Any, Any, None]], **options: Any) -> None:
    loop = VirtualLoop()

    async def main() -> None:
        await body(ShardStage(directory, loop, **options))

    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
