"""Two Spark pipelines into topics while driver, executors, Python workers and the broker are killed.

    python -m tests.fault.spark_exactly_once --records 500000 --kills 20 --seed 1

Faults are spread over the progress of the outputs. Every second one is aimed: it waits until the topic of decisions
grows and strikes within the next milliseconds, between the decision of a batch and its end. The kinds, their order and
their delays come from the seed; a driver that ended is started again from its checkpoints.

At the end a last driver reads what is left, ends by itself, and the outputs under read_committed, read by librdkafka,
must equal a one-shot computation over the input as multisets.
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
from collections.abc import Callable
from pathlib import Path

from moldau.cli.broker_process import BrokerProcess
from tests.fault import spark_story as story_of
from tests.fault.outside import Observer
from tests.fault.spark_story import COPY_OUTPUT, INPUT, PARTITIONS, TOTALS_OUTPUT, Story

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = "local-cluster[2,1,1024]"
STALLED_S = 600.0
DRAIN_S = 1800.0
DECISIONS = "__moldau_decisions-*"
DECISION_WAIT_S = 20.0
KINDS = ("driver", "executor", "broker", "worker")
EXECUTOR, WORKER = "CoarseGrainedExecutorBackend", "pyspark.daemon"


class Driver:
    """One driver process and everything it starts, told apart by its session id."""

    def __init__(self, folder: Path, arguments: list[str]) -> None:
        self.log = folder / "drivers.out"
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        with self.log.open("ab") as output:
            self.begin = output.tell()
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.fault.spark_driver", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )

    def members(self, like: str = "") -> list[int]:
        """Processes of this driver's session whose command line contains `like`."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and session_of(entry) == self.process.pid and like in command_of(entry):
                found.append(int(entry.name))
        return sorted(found)

    def kill(self) -> None:
        """The driver's own processes die at once; its executors are left to notice that, as on a real cluster."""
        heirs = {*self.members(EXECUTOR), *self.members(WORKER)}
        for pid in self.members():
            if pid not in heirs:
                kill(pid)
        self.process.wait()

    def clear(self) -> None:
        """Nothing of this session may live on."""
        for pid in self.members():
            kill(pid)
        self.process.wait()

    def words(self) -> str:
        return self.log.read_bytes()[self.begin :].decode(errors="replace")


def kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def session_of(entry: Path) -> int:
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[3])
    except (OSError, IndexError, ValueError):
        return -1


def command_of(entry: Path) -> str:
    try:
        return (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


class Run:
    def __init__(
        self, folder: Path, story: Story, kinds: list[str], master: str, per_trigger: int, tell: Callable[[str], None]
    ) -> None:
        self.folder, self.story, self.kinds = folder, story, kinds
        self.rng = random.Random(story.seed)
        self.rng.shuffle(self.kinds)
        self.broker = BrokerProcess(folder / "data")
        self.master, self.per_trigger, self.tell = master, per_trigger, tell
        self.driver: Driver | None = None
        self.past: list[Driver] = []

    def execute(self) -> None:
        begin = time.monotonic()
        self.broker.start()
        try:
            story_of.fill(self.broker.bootstrap, self.story.records, self.story.seed)
            self.story.expected = self._expected()
            observers = [
                Observer(self.broker.bootstrap, topic, PARTITIONS, seen, self.story.problems)
                for topic, seen in self.story.seen.items()
            ]
            for observer in observers:
                observer.start()
            try:
                self._kill_at_random()
                self._end_well()
            finally:
                self._clear()
                for observer in observers:
                    observer.finish()
            self._read_again()
        finally:
            self.broker.stop()
            self.story.seconds = time.monotonic() - begin

    def _expected(self) -> dict[str, story_of.Counter[bytes]]:
        """From what the broker holds, not from what was meant to be sent."""
        given = story_of.read_topic(self.broker.bootstrap, INPUT, "read_committed", self.story.problems)
        if len(given) != self.story.records:
            self.story.problems.append(f"the input has {len(given)} records instead of {self.story.records}")
        return story_of.one_shot([*given.values(), story_of.far_later(self.story.records)[1]])

    # -- the kills -----------------------------------------------------------------------------------------------------

    def _kill_at_random(self) -> None:
        self._start_driver()
        for number, kind in enumerate(self.kinds):
            self._await((number + 1) / (len(self.kinds) + 2))
            if self.story.problems:
                return
            aimed = number % 2 == 1 and self._await_decision()
            self.story.aimed += aimed
            time.sleep(self.rng.uniform(0, 0.03 if aimed else 0.5))  # the fault's own timing, not a synchronisation
            getattr(self, f"_kill_{kind}")()
            self.story.kills[kind] += 1
            self.tell(
                f"{number + 1}. {kind}{' (aimed)' if aimed else ''} killed at {self._progress():.0%}, {self._counts()}"
            )

    def _kill_driver(self) -> None:
        assert self.driver is not None
        self.driver.kill()
        self.past.append(self.driver)
        self._start_driver()

    def _kill_executor(self) -> None:
        """A JVM where executors are processes of their own, else a Python worker."""
        self._kill_one(EXECUTOR if self.master.startswith("local-cluster") else WORKER)

    def _kill_worker(self) -> None:
        self._kill_one(WORKER)

    def _kill_broker(self) -> None:
        self.broker.kill()
        self.broker.start()

    def _kill_one(self, like: str) -> None:
        deadline = time.monotonic() + STALLED_S
        while time.monotonic() < deadline:
            assert self.driver is not None
            found = self.driver.members(like)
            if found and kill(self.rng.choice(found)):
                return
            self._restart_ended()
            time.sleep(0.05)
        self.story.problems.append(f"no process like {like} to kill within {STALLED_S:.0f} s")

    def _await_decision(self) -> bool:
        """True as soon as a decision is being written; false when none comes (a driver may just be starting)."""
        before, deadline = self._decision_bytes(), time.monotonic() + DECISION_WAIT_S
        while time.monotonic() < deadline:
            if self._decision_bytes() != before:
                return True
            self._restart_ended()
            time.sleep(0.001)
        return False

    def _decision_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.broker.data_dir.glob(f"{DECISIONS}/*.log"))

    # -- the progress --------------------------------------------------------------------------------------------------

    def _progress(self) -> float:
        """The mean of both outputs: neither is done long before the last kill."""
        parts = [len(self.story.seen[COPY_OUTPUT]) / self.story.records]
        # The last windows close only after the end: they do not count here.
        closing = self.story.records - 1000 * story_of.watermark_s(self.per_trigger) // story_of.STEP_MS
        if closing > 0:
            total = self.story.expected[TOTALS_OUTPUT].total() * closing / self.story.records
            parts.append(min(1.0, len(self.story.seen[TOTALS_OUTPUT]) / total))
        return sum(parts) / len(parts)

    def _counts(self) -> str:
        return ", ".join(f"{topic} {len(seen):,}" for topic, seen in self.story.seen.items())

    def _await(self, share: float) -> None:
        before, deadline = -1, 0.0
        while self._progress() < share and not self.story.problems:
            count = sum(len(seen) for seen in self.story.seen.values())
            if count != before:
                before, deadline = count, time.monotonic() + STALLED_S
            elif time.monotonic() > deadline:
                self.story.problems.append(f"no progress for {STALLED_S:.0f} s after {self._counts()}")
            self._restart_ended()
            time.sleep(0.05)

    # -- drivers -------------------------------------------------------------------------------------------------------

    def _arguments(self) -> list[str]:
        return [self.broker.bootstrap, str(self.folder), self.master, str(self.per_trigger)]

    def _start_driver(self) -> None:
        self.driver = Driver(self.folder, self._arguments())
        self.story.drivers += 1

    def _restart_ended(self) -> None:
        """A driver that gave up is started again, as a supervisor would; how often is told."""
        assert self.driver is not None
        if self.driver.process.poll() is None:
            return
        self.story.own_ends.append(last_words(self.driver.words()))
        self.tell(f"a driver ended by itself: {self.story.own_ends[-1]}")
        if len(self.story.own_ends) > 3 + len(self.kinds):
            self.story.problems.append("drivers keep ending by themselves")
        self.past.append(self.driver)
        self._start_driver()

    def _end_well(self) -> None:
        """The last driver reads what is left, closes every window and ends by itself."""
        assert self.driver is not None
        self.driver.kill()
        self.past.append(self.driver)
        if self.story.problems:
            return
        self.driver = Driver(self.folder, [*self._arguments(), str(self.story.records)])
        self.story.drivers += 1
        try:
            status = self.driver.process.wait(DRAIN_S)
        except subprocess.TimeoutExpired:
            self.story.problems.append(f"the last driver did not come to the end within {DRAIN_S:.0f} s")
            return
        if status:
            self.story.problems.append(f"the last driver failed: {last_words(self.driver.words())}")

    def _clear(self) -> None:
        for driver in [*self.past, *filter(None, [self.driver])]:
            driver.clear()

    def _read_again(self) -> None:
        bootstrap, problems = self.broker.bootstrap, self.story.problems
        for topic in self.story.seen:
            self.story.final[topic] = story_of.read_topic(bootstrap, topic, "read_committed", problems)
            everything = story_of.read_topic(bootstrap, topic, "read_uncommitted", problems)
            self.story.uncommitted[topic] = len(everything)
            held = story_of.held_back(bootstrap, topic)
            if held:
                problems.append(f"{topic}: open transactions hold readers back on partitions {held}")


def last_words(text: str) -> str:
    """The line of a driver's output that says most about why it ended."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "Error" in line or "Exception" in line]
    return (telling or lines or ["nothing"])[-1][:300]


def run(
    folder: Path,
    *,
    records: int,
    kinds: list[str],
    seed: int = 1,
    master: str = CLUSTER,
    per_trigger: int = 5000,
    tell: Callable[[str], None] = lambda line: None,
) -> Story:
    story = Story(records, seed)
    Run(folder, story, list(kinds), master, per_trigger, tell).execute()
    return story


def spread(kills: int) -> list[str]:
    return [KINDS[number % len(KINDS)] for number in range(kills)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=500_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--master", default=CLUSTER)
    parser.add_argument("--per-trigger", type=int, default=5000)
    parser.add_argument("--keep", type=Path, help="work here and leave everything behind")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="moldau-spark-eos-") as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        story = run(
            folder,
            records=arguments.records,
            kinds=spread(arguments.kills),
            seed=arguments.seed,
            master=arguments.master,
            per_trigger=arguments.per_trigger,
            tell=lambda line: print(line, flush=True),
        )
    problems = story.judge()
    print(f"seed {story.seed}: kills {dict(story.kills)}, {story.aimed} aimed, {story.drivers} drivers, "
          f"{len(story.own_ends)} ended by themselves, {story.seconds:.0f} s")  # fmt: skip
    for topic, found in story.final.items():
        print(f"{topic}: {len(found):,} committed, {story.uncommitted[topic]:,} with aborted ones")
    print("\n".join(problems[:20]) or "the outputs equal the one-shot computation, exactly")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
