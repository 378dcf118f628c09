"""A broker under attack with the good client and the watcher beside it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.cli.broker_process import MOLDAU, BrokerProcess
from moldau.node import loop_figures
from tests.attack.good_client import PARTITIONS, TOPIC
from tests.attack.history import Journal, read_back
from tests.attack.watch import Watched
from tests.fault.outside import STURDY

# What is deleted shall be gone before descriptors are counted; Kafka waits for a minute. All else is as by default.
SETTINGS = {"log.segment.delete.delay.ms": "500"}
ROOT = Path(__file__).parents[2]
ANSWER_S_MAX = 60.0
SETTLE_S_MAX = 20.0


class Stage:
    """`open` and `close`, or a context manager. Survives the death of its broker: `revive`."""

    def __init__(
        self, folder: Path, settings: Mapping[str, str] | None = None, program: Sequence[str] = MOLDAU
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.broker = BrokerProcess(folder / "data", SETTINGS | dict(settings or {}), program)
        self.journal = Journal(folder / "journal")
        self.client: subprocess.Popen[bytes] | None = None
        self.watcher: subprocess.Popen[bytes] | None = None
        self.deaths = 0

    def __enter__(self) -> Stage:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        try:
            self.broker.start()
            self.admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, **STURDY})
            topic = NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1"})
            self.admin.create_topics([topic])[TOPIC].result(ANSWER_S_MAX)
            self._make_internal_topics()
            command = [sys.executable, "-m", "tests.attack.good_client", self.broker.bootstrap, str(self.journal.path)]
            self.client = subprocess.Popen(command, stdin=subprocess.PIPE, cwd=ROOT)
            self._watch()
            self.wait_for_good_client()
        except BaseException:
            self.close()
            raise

    def _make_internal_topics(self) -> None:
        """Before descriptors are counted: whoever first uses a group or a transaction would make them."""
        config = {"bootstrap.servers": self.broker.bootstrap, **STURDY}
        consumer = Consumer(config | {"group.id": "first"})
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 0)], asynchronous=False)
        consumer.close()
        Producer(config | {"transactional.id": "first"}).init_transactions(ANSWER_S_MAX)

    def _watch(self) -> None:
        assert self.client is not None
        self._end(self.watcher)
        pids = [str(self.broker.pid), str(self.client.pid)]
        command = [sys.executable, "-m", "tests.attack.watch", *pids, str(self.folder / "watched")]
        self.watcher = subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd=ROOT)

    def close(self) -> None:
        self.finish_client()
        self._end(self.watcher)
        self.broker.stop()

    def finish_client(self) -> None:
        """Let the good client come to its end in order."""
        if self.client is not None and self.client.stdin is not None and self.client.poll() is None:
            self.client.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.client.wait(timeout=40)
        self._end(self.client)
        self.journal.refresh()

    def _end(self, process: subprocess.Popen[bytes] | None) -> None:
        if process is not None and process.poll() is None:
            process.kill()
        if process is not None:
            process.wait()

    # What can be seen

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.broker.bootstrap.rpartition(":")
        return host, int(port)

    @property
    def watched(self) -> Watched:
        return Watched.load(self.folder / "watched")

    @property
    def log_text(self) -> str:
        return self.broker.log_path.read_text(errors="replace")

    def descriptors(self) -> int:
        return psutil.Process(self.broker.pid).num_fds() if self.broker.alive else 0

    def loop_held_ms(self) -> float:
        """The longest hold of its loop that the broker itself has seen since it started."""
        return loop_figures.read(self.broker.data_dir).longest_ms

    def read_back(self) -> tuple[int, list[str]]:
        self.journal.refresh()
        lost, problems = read_back(self.broker.bootstrap, self.journal)
        problems += self.journal.problems
        self.journal.problems = []
        return lost, problems

    # What can be awaited

    def wait_for_good_client(self, within_s: float = ANSWER_S_MAX) -> bool:
        """Until all that it does is answered again, by something begun from now on."""
        now = time.monotonic()
        while time.monotonic() < now + within_s:
            self.journal.refresh()
            if all(self.journal.last_answered(kind) >= now for kind in ("ack", "read", "asked")):
                return True
            if not self.broker.alive:
                return False
            time.sleep(0.05)
        return False

    def wait_for_descriptors(self, wanted: int) -> int:
        """Until there are no more than `wanted`, or for a while; how many there are."""
        deadline = time.monotonic() + SETTLE_S_MAX
        while (count := self.descriptors()) > wanted and time.monotonic() < deadline:
            time.sleep(0.1)
        return count

    def revive(self) -> str:
        """Start a broker that has ended, or does not answer; why it cannot be started, if so."""
        self.deaths += 1
        self.broker.kill()
        try:
            self.broker.start()
        except RuntimeError as failure:
            return str(failure)
        self._watch()
        return "" if self.wait_for_good_client() else "the good client got no answer after the restart"

    def delete_strangers(self) -> None:
        """Topics that an attack has made, by whatever way."""
        names = [name for name in self.admin.list_topics(timeout=ANSWER_S_MAX).topics if name != TOPIC]
        names = [name for name in names if not name.startswith("__")]
        for first in range(0, len(names), 500):
            some = names[first : first + 500]
            for done in self.admin.delete_topics(some, request_timeout=ANSWER_S_MAX).values():
                done.exception(ANSWER_S_MAX)
