"""Members of groups as tests hold them: processes that can be asked, closed and killed."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

WORKER = Path(__file__).with_name("worker.py")
PATIENCE_S = 120.0
Partition = tuple[str, int]


class Member:
    """One consumer in a process of its own."""

    def __init__(self, client: str, bootstrap: str, group: str, **options: Any) -> None:
        config = {
            "client": client,
            "bootstrap": bootstrap,
            "group": group,
            "topics": [],
            "pattern": None,
            "name": f"{client}-member",
            "reset": "earliest",
            "auto_commit": False,
            "session_timeout_ms": 6000,
            "assignor": "range",
            "protocol": "classic",
            "instance": None,
            **options,
        }
        self.client = client
        self.events: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._asked = 0
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER), json.dumps(config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._errors: list[str] = []
        for stream, take in ((self._process.stdout, self._take_event), (self._process.stderr, self._errors.append)):
            threading.Thread(target=self._listen, args=(stream, take), daemon=True).start()

    def _listen(self, stream: Any, take: Callable[[str], None]) -> None:
        for line in stream:
            take(line)
        with self._changed:
            self._changed.notify_all()

    def _take_event(self, line: str) -> None:
        with self._changed:
            self.events.append(json.loads(line))
            self._changed.notify_all()

    # -- what is known -----------------------------------------------------------------------------------------------

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        with self._changed:
            return [event for event in self.events if event["event"] in kinds]

    @property
    def assignment(self) -> list[Partition]:
        told = self.of("assignment")
        return [(topic, index) for topic, index in told[-1]["partitions"]] if told else []

    @property
    def values(self) -> list[str]:
        return [event["value"] for event in self.of("record")]

    def wait(self, what: str, done: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
        deadline = time.monotonic() + patience_s
        with self._changed:
            while not done():
                left = deadline - time.monotonic()
                if left <= 0 or (self._process.poll() is not None and not done()):
                    raise AssertionError(
                        f"{self.client}: {what} did not happen; {self.events[-10:]} {self._errors[-5:]}"
                    )
                self._changed.wait(min(left, 1.0))

    def wait_for_values(self, wanted: Sequence[str]) -> None:
        self.wait(f"{len(wanted)} values", lambda: len(self.values) >= len(wanted))
        assert sorted(self.values) == sorted(wanted)

    # -- what it is told ---------------------------------------------------------------------------------------------

    def ask(self, do: str, **facts: Any) -> Any:
        self._asked += 1
        number = self._asked
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, "id": number, **facts}) + "\n")
        self._process.stdin.flush()
        self.wait(do, lambda: any(event.get("id") == number for event in self.events))
        return next(event for event in self.of("done") if event["id"] == number).get("result")

    def close(self) -> None:
        """Leave the group and end."""
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"do": "close"}) + "\n")
            self._process.stdin.flush()
            self._process.wait(timeout=PATIENCE_S)

    def kill(self) -> None:
        """End without a word."""
        self._process.kill()
        self._process.wait(timeout=PATIENCE_S)


class Members:
    """All members of a test; ends them with it."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.all: list[Member] = []

    def start(self, client: str, group: str, topics: Sequence[str] = (), **options: Any) -> Member:
        name = options.pop("name", f"{client}-{len(self.all)}")
        member = Member(client, self.bootstrap, group, topics=list(topics), name=name, **options)
        self.all.append(member)
        return member

    def end(self) -> None:
        for member in self.all:
            member.kill()


def wait_until_shared(
    members: Sequence[Member], partitions: Sequence[Partition], patience_s: float = PATIENCE_S
) -> None:
    """Until the members own exactly these partitions together, each partition once, and every member something if
    there is enough for all."""

    def done() -> bool:
        owned = [partition for member in members for partition in member.assignment]
        fair = len(partitions) < len(members) or all(member.assignment for member in members)
        return fair and sorted(owned) == sorted(partitions)

    deadline = time.monotonic() + patience_s
    while not done():
        for member in members:
            with member._changed:
                if done():
                    return
                member._changed.wait(0.05)
        if time.monotonic() > deadline:
            found = {f"{index} {member.client}": member.assignment for index, member in enumerate(members)}
            problems = [(member.of("error")[-3:], member._errors[-3:]) for member in members]
            raise AssertionError(f"not shared: {found}; {problems}")
