"""Many members of one group join, leave and vanish at random, then there is quiet.

    python -m tests.fault.group_churn --members 200 --partitions 400 --seconds 60 --protocol classic
    python -m tests.fault.group_churn --protocol consumer

At every moment a partition has at most one owner, and one per generation; ten seconds after the last change of
membership every partition has one and nothing moves any more.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from moldau.cli.broker_process import BrokerProcess
from tests.fault.churn_members import ClassicMember, ConsumerMember, LightMember, Ownership, RealMember
from tests.machine import seconds_queued

TOPIC, GROUP = "restless", "crowd"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "5000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "offsets.topic.num.partitions": "5",
}
STILL_S = 1.5  # nothing moved for this long: settled
QUIET_S_MAX = 120.0  # how long to watch before giving up


@dataclass
class Facts:
    protocol: str
    joined: int = 0
    left: int = 0
    vanished: int = 0
    generations: int = 0
    changes: int = 0
    settled_s: float = -1.0
    queued_s: float = 0.0
    """How long members and broker waited for a processor meanwhile."""
    problems: list[str] = field(default_factory=list)


class Churn:
    def __init__(
        self, broker: BrokerProcess, facts: Facts, members: int, partitions: int, real: int, seed: int
    ) -> None:
        self.bootstrap, self.facts, self.members_max = broker.bootstrap, facts, members
        self.pids = (broker.pid, os.getpid())
        self.rng = random.Random(seed)
        self.ownership = Ownership(partitions)
        self.light: dict[str, LightMember] = {}
        self.real: dict[str, RealMember] = {}
        self.real_max = real
        self._numbers = 0
        self._ending: set[asyncio.Task[None]] = set()

    async def run(self, seconds: float) -> None:
        while len(self.light) < self.members_max - self.real_max:
            self.join_light()
        while len(self.real) < self.real_max:
            self.join_real()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            await asyncio.sleep(self.rng.expovariate(len(self.light) / 20.0))  # each member moves every 20 s or so
            self.one_change()
        quiet_from, queued_s = time.monotonic(), seconds_queued(*self.pids)
        await asyncio.gather(*self._ending)
        await self.settle(quiet_from)
        self.facts.queued_s = max(0.0, seconds_queued(*self.pids) - queued_s)
        await self.end()

    def one_change(self) -> None:
        roll = self.rng.random()
        if len(self.light) < self.members_max // 2 or (len(self.light) < self.members_max and roll < 0.5):
            self.join_light()
        elif roll < 0.85:
            self.leave_light()
        elif roll < 0.95:
            self.vanish_light()
        else:
            self.leave_real()
            self.join_real()

    def next_name(self, kind: str) -> str:
        self._numbers += 1
        return f"{kind}-{self._numbers:04d}"

    def join_light(self) -> None:
        kind = ClassicMember if self.facts.protocol == "classic" else ConsumerMember
        name = self.next_name("light")
        self.light[name] = kind(name, self.bootstrap, GROUP, TOPIC, self.ownership)
        self.facts.joined += 1

    def join_real(self) -> None:
        name = self.next_name("real")
        self.real[name] = RealMember(name, self.bootstrap, GROUP, TOPIC, self.ownership, self.facts.protocol)
        self.facts.joined += 1

    def leave_light(self) -> None:
        member = self.light.pop(self.rng.choice(list(self.light)))
        self._finish(asyncio.create_task(member.leave()))
        self.facts.left += 1

    def vanish_light(self) -> None:
        member = self.light.pop(self.rng.choice(list(self.light)))
        self._finish(asyncio.create_task(member.vanish()))
        self.facts.vanished += 1

    def leave_real(self) -> None:
        if self.real:
            member = self.real.pop(self.rng.choice(list(self.real)))
            self._finish(asyncio.create_task(member.leave()))
            self.facts.left += 1

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def settle(self, quiet_from: float) -> None:
        """The last change before everything stands still for a while is when the group had settled."""
        members = {*self.light, *self.real}
        while time.monotonic() < quiet_from + QUIET_S_MAX:
            await asyncio.sleep(0.02)
            still_s = time.monotonic() - self.ownership.last_change_s
            if still_s > STILL_S and self.ownership.is_complete(members):
                self.facts.settled_s = max(0.0, self.ownership.last_change_s - quiet_from)
                return
        self.ownership.problems.append(f"not every partition has one owner {QUIET_S_MAX:.0f} s after quiet")

    async def end(self) -> None:
        failures = [member.task.exception() for member in self.light.values() if member.task.done()]
        self.ownership.problems += [f"a member ended by itself: {failure!r}" for failure in failures]
        await asyncio.gather(*(member.leave() for member in self.light.values()))
        await asyncio.gather(*(member.leave() for member in self.real.values()))
        self.facts.generations = len(self.ownership.generations)
        self.facts.changes = self.ownership.changes
        self.facts.problems = self.ownership.problems


def run(
    folder: Path, protocol: str, *, members: int, partitions: int, seconds: float, real: int = 3, seed: int = 1
) -> Facts:
    facts = Facts(protocol)
    broker = BrokerProcess(folder / "data", SETTINGS)
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, partitions, 1)])[TOPIC].result(60)

        async def churn() -> None:
            await Churn(broker, facts, members, partitions, real, seed).run(seconds)

        asyncio.run(churn())
        return facts
    finally:
        broker.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", choices=("classic", "consumer"), default="classic")
    parser.add_argument("--members", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=400)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--real", type=int, default=3, help="of the members, how many are librdkafka")
    parser.add_argument("--seed", type=int, default=1)
    arguments = vars(parser.parse_args())
    with tempfile.TemporaryDirectory(prefix="moldau-churn-") as folder:
        facts = run(Path(folder), arguments.pop("protocol"), **arguments)
    print(facts)
    return 1 if facts.problems else 0


if __name__ == "__main__":
    sys.exit(main())
