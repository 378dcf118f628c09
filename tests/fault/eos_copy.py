"""An exactly-once copy while its workers and the broker are killed, stopped and resumed.

    python -m tests.fault.eos_copy --records 100000 --kills 20
    python -m tests.fault.eos_copy --records 100000 --kills 20 --workers 2 --zombies 10

Workers (`eos_worker`) read numbers, write their squares and commit their offsets in the same transaction. An observer
reads the output under read_committed all the while. Faults are spread over the progress of the copy: `kill -9` of a
worker, `kill -9` of the broker, and zombies: a worker is stopped until the group has given its partitions away (every
second time also a successor with its transactional id has begun), then resumed in the middle of what it was doing.
At the end each input must be in the output exactly once, as the observer saw it and as a fresh reader sees it.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from moldau.cli.broker_process import BrokerProcess
from tests.fault.eos_worker import INPUT, OUTPUT, transformed
from tests.fault.outside import Observer, Place, read_to_end

PARTITIONS = 4
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
}
ZOMBIE_S = 3.0  # longer than the members' session timeout of two seconds
STALLED_S = 180.0
TOPIC_CONFIG = {"segment.bytes": "1048576"}


@dataclass
class Story:
    """What was done and what was seen."""

    records: int
    worker_kills: int = 0
    broker_kills: int = 0
    zombies: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    seen: dict[Place, bytes] = field(default_factory=dict)  # by the observer
    final: dict[Place, bytes] = field(default_factory=dict)  # by a fresh reader at the end
    uncommitted_count: int = 0  # records that a read_uncommitted reader finds at the end
    problems: list[str] = field(default_factory=list)

    def judge(self) -> list[str]:
        problems = list(self.problems)
        for who, found in (("the observer", self.seen), ("a fresh reader", self.final)):
            problems += [f"{who} saw {line}" for line in judge_values(list(found.values()), self.records)]
        if self.seen != self.final:
            problems.append("what the observer saw is not what is there at the end")
        return problems


def judge_values(values: list[bytes], records: int) -> list[str]:
    """Each input once, rightly transformed, nothing of an aborted transaction."""
    problems, times = [], Counter[int]()
    for value in values:
        if b"doomed" in value:
            problems.append(f"a record of an aborted transaction: {value!r}")
            continue
        number, _, square = value.partition(b"=")
        times[int(number)] += 1
        if int(square) != transformed(int(number)):
            problems.append(f"a wrong value {value!r}")
    missing = records - len(times)
    twice = [number for number, count in times.items() if count > 1]
    if missing:
        problems.append(f"{missing} inputs never")
    if twice:
        problems.append(f"{len(twice)} inputs more than once, such as {sorted(twice)[:5]}")
    return problems


class Workers:
    """The processes; each restart is a new incarnation with another seed."""

    def __init__(self, folder: Path, bootstrap: str, names: list[str], rng: random.Random, transaction: int) -> None:
        self.folder, self.bootstrap, self.rng, self.transaction = folder, bootstrap, rng, transaction
        # A lone worker is a static member, so that its successor need not wait for its session to end.
        self.is_static = len(names) == 1
        self.processes = {name: self._start(name) for name in names}
        self.zombies: list[subprocess.Popen[bytes]] = []

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        instance = name if self.is_static else ""
        command = [sys.executable, "-m", "tests.fault.eos_worker", self.bootstrap, name, instance]
        with (self.folder / "workers.out").open("ab") as output:
            return subprocess.Popen(
                [*command, str(self.rng.getrandbits(31)), str(self.transaction)], stdout=output, stderr=output
            )

    def restart_ended(self) -> None:
        for name, process in self.processes.items():
            if process.poll() is not None:
                self.processes[name] = self._start(name)

    def kill_one(self) -> None:
        name = self.rng.choice(list(self.processes))
        end(self.processes[name])
        self.processes[name] = self._start(name)

    def make_zombie(self, with_successor: bool) -> None:
        """Stop a worker, let the group go on without it, resume it."""
        name = self.rng.choice(list(self.processes))
        zombie = self.processes[name]
        if zombie.poll() is not None:
            return
        os.kill(zombie.pid, signal.SIGSTOP)
        if with_successor:
            self.zombies.append(zombie)
            self.processes[name] = self._start(name)
        time.sleep(ZOMBIE_S)  # the fault itself: how long it is away
        os.kill(zombie.pid, signal.SIGCONT)

    def end_all(self) -> None:
        for process in [*self.processes.values(), *self.zombies]:
            end(process)

    def outcomes(self) -> Counter[str]:
        lines = (self.folder / "workers.out").read_text(errors="replace").splitlines()
        told = (line.split() for line in lines)
        return Counter(" ".join(words[:2]) if words[0] in ("abort", "fatal") else words[0] for words in told if words)


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()


def fill(bootstrap: str, records: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = [NewTopic(name, PARTITIONS, 1, config=TOPIC_CONFIG) for name in (INPUT, OUTPUT)]
    for answer in admin.create_topics(wanted).values():
        answer.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0})
    for number in range(records):
        producer.produce(INPUT, b"%d" % number, partition=number % PARTITIONS)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0


class Copy:
    """One run: the faults, spread evenly over the progress of the copy."""

    def __init__(
        self, folder: Path, story: Story, workers: int, kills: int, zombies: int, seed: int, transaction: int
    ) -> None:
        self.folder, self.story, self.rng = folder, story, random.Random(seed)
        self.names = [f"worker-{number}" for number in range(workers)]
        self.faults = [self.kill_worker, self.kill_broker] * kills + [self.make_zombie] * zombies
        self.rng.shuffle(self.faults)
        self.broker = BrokerProcess(folder / "data", SETTINGS)
        self.transaction = transaction
        self.workers: Workers | None = None

    def run(self, tell: Callable[[str], None]) -> None:
        self.broker.start()
        try:
            fill(self.broker.bootstrap, self.story.records)
            observer = Observer(self.broker.bootstrap, OUTPUT, PARTITIONS, self.story.seen, self.story.problems)
            observer.start()
            self.workers = Workers(self.folder, self.broker.bootstrap, self.names, self.rng, self.transaction)
            try:
                self._inject(tell)
                self._await(self.story.records)
            finally:
                self.workers.end_all()
                observer.finish()
            self.story.outcomes = self.workers.outcomes()
            self._read_again()
        finally:
            self.broker.stop()

    def _inject(self, tell: Callable[[str], None]) -> None:
        for number, fault in enumerate(self.faults):
            self._await(self.story.records * number // (len(self.faults) + 1) + 1)
            time.sleep(self.rng.uniform(0, 0.1))  # the fault's own timing, not a synchronisation
            fault()
            tell(f"{fault.__name__} at {len(self.story.seen):,} records, {len(self.story.problems)} problems")

    def _await(self, count: int) -> None:
        assert self.workers is not None
        before, deadline = -1, 0.0
        while len(self.story.seen) < count and not self.story.problems:
            if len(self.story.seen) != before:
                before, deadline = len(self.story.seen), time.monotonic() + STALLED_S
            elif time.monotonic() > deadline:
                self.story.problems.append(f"no progress after {before} records for {STALLED_S:.0f} s")
            self.workers.restart_ended()
            time.sleep(0.01)

    def kill_worker(self) -> None:
        assert self.workers is not None
        self.workers.kill_one()
        self.story.worker_kills += 1

    def kill_broker(self) -> None:
        self.broker.kill()
        self.broker.start()
        self.story.broker_kills += 1

    def make_zombie(self) -> None:
        assert self.workers is not None
        self.workers.make_zombie(with_successor=self.story.zombies % 2 == 1)
        self.story.zombies += 1

    def _read_again(self) -> None:
        """The workers are dead; whatever they left open is aborted by a successor of each."""
        for name in self.names:
            successor = Producer(
                {"bootstrap.servers": self.broker.bootstrap, "transactional.id": f"copy-{name}", "log_level": 0}
            )
            successor.init_transactions(60)
        self.story.final = self._read_output("read_committed")
        self.story.uncommitted_count = len(self._read_output("read_uncommitted"))

    def _read_output(self, isolation: str) -> dict[Place, bytes]:
        return read_to_end(
            self.broker.bootstrap, OUTPUT, PARTITIONS, isolation, self.story.problems, within_s=STALLED_S
        )


def run(
    folder: Path,
    *,
    records: int,
    kills: int,
    workers: int = 1,
    zombies: int = 0,
    seed: int = 1,
    transaction: int = 100,
    tell: Callable[[str], None] = lambda line: None,
) -> Story:
    story = Story(records)
    Copy(folder, story, workers, kills, zombies, seed, transaction).run(tell)
    return story


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=20, help="of a worker, and as many of the broker")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--zombies", type=int, default=0)
    parser.add_argument("--transaction", type=int, default=100, help="records in each")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="moldau-eos-") as folder:
        begin = time.monotonic()
        story = run(Path(folder), **vars(arguments), tell=lambda line: print(line, flush=True))
    problems = story.judge()
    print(
        f"{story.worker_kills} worker kills, {story.broker_kills} broker kills, {story.zombies} zombies, "
        f"{time.monotonic() - begin:.0f} s; {dict(story.outcomes)}; {story.uncommitted_count:,} records written"
    )
    print("\n".join(problems[:20]) or f"{len(story.final):,} inputs, each exactly once, no aborted record seen")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
