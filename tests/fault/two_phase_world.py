"""A sink under attack, without Spark: batches are written by task processes and committed by driver processes, which
are killed (SIGKILL) or stopped and woken up much later (zombies) at every named step, while attempts are doubled and
the broker is killed and started again. Batches are replayed as Spark replays them: same records, other task boundaries.

At the end every record of every batch must be visible exactly once under read_committed, and nothing may be open.

    python -m tests.fault.two_phase_world --batches 100 --seed 5
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from moldau.cli.broker_process import BrokerProcess
from moldau.client.admin import create_topic
from moldau.client.transactional import TaskTransaction
from tests.fault import two_phase_actors as actors
from tests.fault.two_phase_actors import STEPS, Fault, LivingDriver, Place

SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.num.partitions": "5",
    "offsets.topic.num.partitions": "5",
}
PARTITIONS = 3
RECORDS = 40
BROKER_KILLS = 0.15
"""How likely the broker dies in each phase of a batch."""
LIVING_DRIVERS = 0.7
"""How likely a batch is committed by a process that goes on living, and not by a fresh one."""
STOPPED = Fault("wrote", 2, signal.SIGSTOP)
EXPECTED_FAILURES = frozenset({"SinkTakenOver", "NotPrepared", "BrokerRefused", "StillPrepared"})
"""What may be told to a process that was replaced meanwhile. Never that something decided was lost."""
PROCESS_WITHIN_S = 120.0
READ_WITHIN_S = 60.0


@dataclass
class Facts:
    problems: list[str] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


def every_step() -> list[Fault]:
    """Each step is hit twice: once the driver dies there, once it is stopped and wakes up after its successor."""
    return [Fault(step, 1, how) for step in STEPS for how in (signal.SIGKILL, signal.SIGSTOP)]


def value_of(batch: int, index: int) -> bytes:
    return b"%d:%d" % (batch, index)


def judge(seen: Iterable[bytes], batches: int) -> list[str]:
    """Complaints about what a reader of committed records sees."""
    counts = Counter(seen)
    expected = {value_of(batch, index) for batch in range(batches) for index in range(RECORDS)}
    problems = [f"{value!r} is there {count} times" for value, count in counts.items() if count > 1]
    problems += [f"{value!r} is lost" for value in sorted(expected - counts.keys())]
    problems += [f"{value!r} was never to be there" for value in sorted(counts.keys() - expected)]
    return problems


class World:
    """Is the query engine: decides what runs, and sees who dies. Single-threaded, so that it can fork."""

    def __init__(
        self,
        folder: Path,
        *,
        batches: int,
        seed: int,
        script: Sequence[Fault] = (),
        chaos: bool = True,
        two_phase: bool = True,
        bootstrap: str | None = None,
        timeout_ms: int = 60_000,
        commit: Callable[..., str] = actors.commit,
    ) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.batches = batches
        self.script = list(script)
        """Faults of the first commits, in this order; behind them chance decides, if `chaos`."""
        self.chaos = chaos
        self.commit = commit
        self.facts = Facts()
        self.zombies: list[tuple[int, Path]] = []
        """Stopped processes and where they will report."""
        self.woken: list[tuple[int, Path]] = []
        self.driver: LivingDriver | None = None
        self.done = 0
        self.runs = 0
        self.reports = 0
        self.broker: BrokerProcess | None = None
        if bootstrap is None:
            two = {"transaction.two.phase.commit.enable": str(two_phase).lower()}
            self.broker = BrokerProcess(folder / "data", SETTINGS | two)
        unique = f"{seed}-{os.getpid()}"
        self.place = Place(bootstrap or "", f"sink: №{unique}", f"out-{unique}", PARTITIONS, timeout_ms, 60.0)

    def run(self) -> Facts:
        began = time.monotonic()
        if self.broker is not None:
            self.broker.start()
            self.place = self.place._replace(bootstrap=self.broker.bootstrap)
        try:
            self._must(partial(actors.with_cluster, self.place, self._create_topic))
            while self.done < self.batches and not self.facts.problems:
                self._run_query()
            self._dismiss_driver()
            self._wake_zombies(everyone=True)
            self._must(partial(actors.recover, self.place, "the last"))
            self.facts.problems += self._must(partial(actors.left_open, self.place)) or []
            self.facts.problems += judge(self._read(), self.done)
        finally:
            if self.driver is not None:
                self.woken.append((self.driver.pid, self.folder))
            for pid, _ in [*self.zombies, *self.woken]:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            if self.broker is not None:
                self.broker.stop()
        self.facts.seconds = time.monotonic() - began
        return self.facts

    async def _create_topic(self, cluster: Any) -> None:
        await create_topic(cluster, self.place.topic, partitions=PARTITIONS)

    # -- a query -----------------------------------------------------------------------------------------------

    def _run_query(self) -> None:
        """One incarnation, until something kills it."""
        self.runs += 1
        run = f"run{self.runs}"
        last = self._must(partial(actors.recover, self.place, run))
        if last is not None and last > self.done:
            self.facts.problems.append(f"batch {last} was decided before {self.done} was asked for")
        while self.done < self.batches:
            transactions = self._write_batch(self.done, run)
            self._wake_zombies()
            if not self._commit(self.done, run, transactions):
                return
            self.done += 1

    def _write_batch(self, batch: int, run: str) -> list[TaskTransaction]:
        """The tasks of a batch, each with as many attempts as it needs, and some that nobody needs."""
        indexes = list(range(RECORDS))
        cuts = sorted(self.random.sample(range(1, RECORDS), self.random.randrange(3)))
        parts = [indexes[a:b] for a, b in zip([0, *cuts], [*cuts, RECORDS], strict=True)]
        started = []
        for task, part in enumerate(parts):
            values = [value_of(batch, index) for index in part]
            attempts: list[Fault | None] = [None]
            if self.chaos:
                attempts = self.random.choice(
                    ([None], [None], [Fault("wrote"), None], [Fault("flushed"), None], [None, None], [STOPPED, None])
                )
            for number, fault in enumerate(attempts):
                write = partial(actors.write_task, self.place, run, f"{task}.0.{number}", values, fault)
                started.append((task, *self._start(write)))
        self._maybe_kill_broker()
        chosen: dict[int, TaskTransaction] = {}
        for task, pid, report in started:
            said = self._end(pid, report, "task")
            if said is not None and "result" in said:
                chosen.setdefault(task, TaskTransaction(*said["result"]))
        assert len(chosen) == len(parts), "a task without a fault failed"
        return [chosen[task] for task in range(len(parts))]

    def _commit(self, batch: int, run: str, transactions: list[TaskTransaction]) -> bool:
        scripted = bool(self.script)
        fault = self._next_fault()
        what = "driver" if fault is None else f"driver {fault.step}"
        if self.chaos and self.random.random() < LIVING_DRIVERS:
            said = self._order(batch, run, transactions, fault, f"living {what}")
        else:
            pid, report = self._start(partial(self.commit, self.place, batch, run, transactions, fault))
            self._maybe_kill_broker()
            said = self._end(pid, report, what)
        if said is None:
            return False
        if "failure" in said:
            self._must(partial(actors.abort, self.place, run, transactions))
            return False
        self.facts.events[said["result"]] += 1
        if scripted and fault is not None:
            self.script.insert(0, fault)  # the driver never came to that step: the batch was decided before
        return True

    def _order(
        self, batch: int, run: str, transactions: list[TaskTransaction], fault: Fault | None, what: str
    ) -> dict[str, Any] | None:
        """Let the living driver commit. It may be one that has been replaced by fresh ones since its last commit."""
        if self.driver is None:
            self.driver = LivingDriver(self.place)
        report = self._report()
        self.driver.order(report, batch, run, transactions, fault)
        self._maybe_kill_broker()
        said = self._end(self.driver.pid, report, what, lives=True)
        if said is None:  # killed, or a zombie from now on
            self.driver.end()
            self.driver = None
        elif "result" in said:
            self.facts.events["committed by a living driver"] += 1
        return said

    def _dismiss_driver(self) -> None:
        if self.driver is not None:
            self.driver.end()
            os.waitpid(self.driver.pid, 0)
            self.driver = None

    def _next_fault(self) -> Fault | None:
        if self.script:
            return self.script.pop(0)
        if not self.chaos or self.random.random() < 0.5:
            return None
        how = self.random.choice((signal.SIGKILL, signal.SIGSTOP))
        return Fault(self.random.choice(STEPS), 1 + self.random.randrange(2), how)

    # -- processes ---------------------------------------------------------------------------------------------

    def _start(self, act: Callable[[], Any]) -> tuple[int, Path]:
        report = self._report()
        return actors.fork(act, report), report

    def _report(self) -> Path:
        self.reports += 1
        return self.folder / f"report-{self.reports}.json"

    def _end(self, pid: int, report: Path, what: str, *, lives: bool = False) -> dict[str, Any] | None:
        """What the process had to say; None if it was killed, or stopped: then it is a zombie from now on. One that
        lives has ended nothing but its order."""
        deadline = time.monotonic() + PROCESS_WITHIN_S
        while True:
            ended, status = os.waitpid(pid, os.WUNTRACED | os.WNOHANG)
            if ended or (lives and report.exists()):
                break
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise AssertionError(f"{what} did not end within {PROCESS_WITHIN_S} s")
            time.sleep(0.002)
        if ended and os.WIFSTOPPED(status):
            self.zombies.append((pid, report))
            self.facts.events[f"{what} stopped"] += 1
            return None
        if ended and os.WIFSIGNALED(status):
            self.facts.events[f"{what} killed"] += 1
            return None
        said: dict[str, Any] = json.loads(report.read_text())
        if "failure" in said:
            self.facts.events[f"{what}: {said['failure']}"] += 1
            if said["failure"] not in EXPECTED_FAILURES:
                self.facts.problems.append(f"{what}: {said['trace']}")
        return said

    def _must(self, act: Callable[[], Any]) -> Any:
        said = self._end(*self._start(act), "helper")
        assert said is not None
        assert "result" in said, said
        return said["result"]

    def _wake_zombies(self, *, everyone: bool = False) -> None:
        """Some of those that were stopped go on, beside whoever has taken over from them meanwhile."""
        for zombie in tuple(self.zombies):
            if everyone or self.random.random() < 0.4:
                self.zombies.remove(zombie)
                self.woken.append(zombie)
                os.kill(zombie[0], signal.SIGCONT)
        for pid, report in tuple(self.woken):
            if everyone or self.random.random() < 0.5:
                self.woken.remove((pid, report))
                self._end(pid, report, "zombie")

    def _maybe_kill_broker(self) -> None:
        if self.broker is not None and self.chaos and self.random.random() < BROKER_KILLS:
            time.sleep(self.random.random() * 0.1)  # somewhere in the middle of what goes on
            self.broker.kill()
            self.broker.start()
            self.facts.events["broker killed"] += 1

    # -- looking -----------------------------------------------------------------------------------------------

    def _read(self) -> list[bytes]:
        """All that an ordinary reader of committed records sees."""
        consumer = Consumer(
            {"bootstrap.servers": self.place.bootstrap, "group.id": "unused", "enable.auto.commit": False}
            | {"isolation.level": "read_committed", "enable.partition.eof": True}
        )
        consumer.assign([TopicPartition(self.place.topic, index, 0) for index in range(PARTITIONS)])
        found: list[bytes] = []
        ended, deadline = set[int | None](), time.monotonic() + READ_WITHIN_S
        while len(ended) < PARTITIONS and time.monotonic() < deadline:
            for message in consumer.consume(1000, timeout=0.5):
                value = message.value()
                if message.error() is not None:
                    ended.add(message.partition())
                elif value is not None:
                    found.append(value)
        consumer.close()
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--one-phase", action="store_true", help="a broker without KIP-939")
    parser.add_argument("--bootstrap", help="attack the sink on this cluster, which is left alone itself")
    parser.add_argument("--script", action="store_true", help="every step once, in order, and no other chance")
    parser.add_argument("--planted", action="store_true", help="commit without a decision; must be found out")
    asked = parser.parse_args()
    script = [Fault("finishing")] if asked.planted else every_step() if asked.script else []
    with tempfile.TemporaryDirectory(prefix="moldau-two-phase-") as folder:
        world = World(
            Path(folder),
            batches=asked.batches,
            seed=asked.seed,
            script=script,
            chaos=not (asked.script or asked.planted),
            two_phase=not asked.one_phase,
            bootstrap=asked.bootstrap,
            commit=actors.commit_without_deciding if asked.planted else actors.commit,
        )
        facts = world.run()
    events = ", ".join(f"{name} {count}" for name, count in sorted(facts.events.items()))
    print(json.dumps({"problems": facts.problems, "events": facts.events, "seconds": facts.seconds}))
    print(f"{asked.batches} batches in {facts.seconds:.0f} s: {events}", file=sys.stderr)
    print("\n".join(facts.problems[:20]) or "every batch exactly once", file=sys.stderr)
    return 1 if facts.problems else 0


if __name__ == "__main__":
    sys.exit(main())
