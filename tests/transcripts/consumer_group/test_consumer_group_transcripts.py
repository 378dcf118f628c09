"""Golden conversations with KIP-848 groups. A change of behaviour shows as a diff of the text beside this file.

To accept a change: MOLDAU_REWRITE_TRANSCRIPTS=1 pytest tests/transcripts/consumer_group, then read the diff.

Each step is written with what it caused: `>` a command, `.` time that passes, `<` an answer, `+` a record. Partitions
are written as `orders 0 1 2`, a current assignment with its epochs as `orders 0@1`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from moldau.core.coordination import NOT_YET, Decision
from moldau.core.group.commands import Protocol
from moldau.core.group.settings import GroupSettings
from moldau.model.errors import ErrorCode, Refused
from tests.unit.core.group.consumer.crowd import EAGER, Client, Crowd, Guest
from tests.unit.core.group.stage import WALL_MS

GOLDEN = Path(__file__).parent / "golden"
QUIET = {"client_id", "client_host", "new_member_suffix", "new_member_id", "metadata_hash", "ticket", "topic_id"}


def show(value: Any) -> str:
    """Like repr, without fields that say nothing, and with times counted from the beginning."""
    if isinstance(value, Refused):
        return f"Refused({value.code.name})"
    if isinstance(value, ErrorCode):
        return value.name
    if isinstance(value, Protocol):
        return value.name
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, frozenset | Mapping) or _is_partitions(value):
        return _partitions(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        told = [
            f"{name}={show(field)}" for name, field in zip(value._fields, value, strict=True) if _tells(name, field)
        ]
        return f"{type(value).__name__}({', '.join(told)})"
    if isinstance(value, tuple):
        return "[" + ", ".join(show(item) for item in value) + "]"
    if isinstance(value, int) and value >= WALL_MS:
        return f"+{value - WALL_MS}ms"
    return str(value) if isinstance(value, int) else repr(value)


def _is_partitions(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], tuple) and isinstance(value[0][0], bytes)


def _partitions(value: Any) -> str:
    by_topic: dict[str, list[str]] = {}
    for topic, index in sorted(value):
        since = f"@{value[topic, index]}" if isinstance(value, Mapping) else ""
        by_topic.setdefault(topic.rstrip(b"\0").decode(), []).append(f"{index}{since}")
    return "{" + ", ".join(f"{topic} {' '.join(indexes)}" for topic, indexes in by_topic.items()) + "}"


def _tells(name: str, field: Any) -> bool:
    nothing = field is None and name != "value"
    if name in QUIET or nothing or (name, field) == ("regex", "") or name.endswith("timeout_ms"):
        return False
    return not isinstance(field, bool) or field


class Recorder(Crowd):
    def __init__(self, settings: GroupSettings | None = EAGER, **topics: int) -> None:
        self.lines: list[str] = []
        super().__init__(settings, **topics)

    def say(self, text: str) -> None:
        self.lines.append(f"# {text}")

    def do(self, command: Any) -> Any:
        self.lines.append(f"> {show(command)}")
        reply = super().do(command)
        self.lines.append("  ... waits" if reply is NOT_YET else f"  < {show(reply)}")
        return reply

    def carry(self, decision: Decision, producer_id: int = -1, ticket: int | None = None) -> Decision:
        self.lines += [f"  + {show(record)}" for record in decision.records]
        self.lines += [f"  < #{number} {show(reply)}" for number, reply in decision.completions]
        return super().carry(decision, producer_id, ticket)

    def advance(self, by_ms: int) -> None:
        self.lines.append(f". {by_ms} ms")
        super().advance(by_ms)


def two_members_share() -> Recorder:
    crowd = Recorder(orders=4)
    one, two = Client(crowd, "a"), Client(crowd, "b")
    crowd.say("The first member gets everything.")
    one.step()
    crowd.say("A second one comes. It must wait for what the first one holds.")
    two.step()
    crowd.say("The first one is told, reads on until it has given up, and confirms.")
    one.heartbeat(partial=True)
    one.step()
    crowd.say("What was given up is handed on.")
    two.step()
    crowd.say("Nothing new.")
    one.heartbeat(partial=True)
    crowd.say("One leaves. The other gets everything at its next heartbeat.")
    two.leave()
    one.heartbeat(partial=True)
    return crowd


def a_member_that_does_not_let_go() -> Recorder:
    crowd = Recorder(orders=2)
    one, two = Client(crowd, "a"), Client(crowd, "b")
    one.step()
    two.step()
    one.heartbeat()
    crowd.say("It is alive, but holds on to what it should give up.")
    for _ in range(2):
        crowd.advance(29_000)
        one.heartbeat(partial=True)
        two.heartbeat(partial=True)
    crowd.say("Its rebalance timeout ends.")
    crowd.advance(2_000)
    one.heartbeat(partial=True)
    two.heartbeat(partial=True)
    return crowd


def an_instance_restarts() -> Recorder:
    crowd = Recorder(orders=2)
    one = Client(crowd, "a", instance_id="i")
    one.step()
    crowd.say("Back in a moment.")
    one.leave(-2)
    crowd.say("It returns under another member id, to the same partitions and epoch.")
    Client(crowd, "a2", instance_id="i").step()
    crowd.say("The process before it, if it still exists, is fenced.")
    crowd.heartbeats("a", 1, instance_id="i")
    return crowd


def a_pattern_finds_a_new_topic() -> Recorder:
    crowd = Recorder(orders=1, users=1)
    client = Client(crowd, "a", regex="^orders.*")
    client.topics = ()
    client.step()
    crowd.say("A topic is created that matches.")
    crowd.topics.put("orders-eu", 2)
    client.step()
    crowd.say("It subscribes by name instead.")
    client.topics, client.fields = ("users",), {"regex": ""}
    client.step()
    client.step()
    return crowd


def a_group_migrates_and_comes_back() -> Recorder:
    crowd = Recorder(orders=2)
    guest = Guest(crowd, "old")
    guest.join()
    crowd.advance(0)
    guest.step()
    guest.step()
    crowd.say("A member of the consumer protocol joins: the group is converted.")
    client = Client(crowd, "a")
    client.step()
    crowd.say("The classic member hears of a rebalance, joins, and syncs. Eagerly: it has given up everything.")
    guest.step()
    guest.step()
    client.step()
    crowd.say("The new member leaves: the group is a classic one again.")
    client.leave()
    for _ in range(3):
        guest.step()
    return crowd


SCENARIOS: dict[str, Callable[[], Recorder]] = {
    scenario.__name__: scenario
    for scenario in (
        two_members_share,
        a_member_that_does_not_let_go,
        an_instance_restarts,
        a_pattern_finds_a_new_topic,
        a_group_migrates_and_comes_back,
    )
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_conversation_is_as_written_down(name: str) -> None:
    told = "\n".join(SCENARIOS[name]().lines) + "\n"
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("MOLDAU_REWRITE_TRANSCRIPTS"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(told)
    assert told == golden.read_text()
