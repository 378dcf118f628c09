"""Runs scenarios against one broker and writes down its answers."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from moldau.wire.apis import API_SPECS, ApiKey
from tests.differential.names import Names
from tests.differential.peer import Answer, Peer
from tests.differential.shape import frame_of
from tests.differential.steps import Scenario, Step, resolve

SETTLE_SECONDS_MAX = 30.0
PAUSE_S = 0.02
_PART = re.compile(r"(\w+)|\[(\d+)\]")


class Noted(NamedTuple):
    """One answer as comparable data."""

    key: str
    """The scenario, the step's number in it, and what was asked: the same for both brokers."""
    api: ApiKey
    answer: Any


class Session:
    """What one scenario knows so far."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._bound: dict[str, Any] = {}

    def bound(self, name: str) -> Any:
        return self._bound[name]

    def topic_id(self, name: str) -> bytes:
        return self._names.topic_id(name)

    def bind(self, step: Step, answer: Answer) -> None:
        for name, path in step.bind.items():
            try:
                self._bound[name] = part_of(answer.message, path)
            except (AttributeError, IndexError):
                self._bound[name] = _ABSENT.get(name, "")


_ABSENT = {"producer": -1, "epoch": -1, "generation": -1, "session": 0}
"""What a step after a refused one sends in place of what it was not told."""


def part_of(message: Any, path: str) -> Any:
    """The part at a path such as `topics[0].name`."""
    for name, index in _PART.findall(path):
        message = getattr(message, name) if name else message[int(index)]
    return message


class Runner:
    """All scenarios of a run against one broker."""

    def __init__(self, address: str, data_dir: str) -> None:
        self._peer = Peer(address)
        self.names = Names(self._peer.address[1], data_dir)

    def close(self) -> None:
        self._peer.close()

    def served(self) -> dict[int, tuple[int, int]]:
        """The versions of each API that the broker tells clients of."""
        self._peer.send("main", frame_of(ApiKey.API_VERSIONS, 0, {}, self._peer.next_id()))
        message = self._peer.receive("main", ApiKey.API_VERSIONS, 0).message
        return {row.api_key: (row.min_version, row.max_version) for row in message.api_keys}

    def run(self, scenarios: Iterable[Scenario]) -> Iterator[Noted]:
        """All answers to scenarios about APIs that this broker serves."""
        served = self.served()
        for scenario in scenarios:
            if scenario.api in served:
                yield from self._scenario(scenario)

    def _scenario(self, scenario: Scenario) -> Iterator[Noted]:
        self.names.scenario(scenario.name)
        session = Session(self.names)
        for number, step in enumerate(scenario.steps):
            answer = self._step(step, session)
            if answer is None:
                continue
            key = f"{scenario.name} {number}: {step.name} {step.label}".rstrip()
            yield Noted(key, scenario.api, self._written(answer))
        self._peer.close()

    def _step(self, step: Step, session: Session) -> Answer | None:
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        while True:
            answer = self._ask(step, session)
            if answer is None:
                return None
            if answer.message is not None and answer.case is not None:
                self.names.learn(answer.message, answer.case)
            if step.until is None or self._settled(step, answer) or time.monotonic() > deadline:
                session.bind(step, answer)
                return answer
            time.sleep(PAUSE_S)

    def _ask(self, step: Step, session: Session) -> Answer | None:
        if not step.collect:
            frame = frame_of(step.api, step.version, resolve(step.request, session), self._peer.next_id())
            self._peer.send(step.on, frame if step.change is None else step.change(frame))
        if step.answered == "later":
            return None
        receive = self._peer.receive_or_nothing if step.answered == "never" else self._peer.receive
        return receive(step.on, step.api, step.version)

    def _settled(self, step: Step, answer: Answer) -> bool:
        assert step.until is not None
        path, wanted = step.until
        try:
            before, every, behind = path.partition("[*]")
            found = part_of(answer.message, before)
            return all(part_of(one, behind) == wanted for one in found) if every else bool(found == wanted)
        except (AttributeError, IndexError):
            return False

    def _written(self, answer: Answer) -> Any:
        if answer.message is None or answer.case is None:
            return f"<{answer.how}>"
        plain = self.names.plain(answer.message, answer.case)
        return {**plain, "bytes behind it": answer.rest} if answer.rest else plain


def api_name(api: ApiKey) -> str:
    return API_SPECS[api].name
