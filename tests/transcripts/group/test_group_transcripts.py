"""Golden conversations with the group core. A change of behaviour shows as a diff of the text beside this file.

To accept a change: MOLDAU_REWRITE_TRANSCRIPTS=1 pytest tests/transcripts/group, then read the diff.

Each step is written with what it caused: `>` a command, `.` time that passes, `<` an answer (with the ticket of the
command if it had to wait), `+` a record.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.core.coordination import NOT_YET, Decision
from moldau.core.group.commands import (
    DeleteGroups,
    DescribeGroups,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    OffsetDelete,
    OffsetFetch,
    OffsetToCommit,
    Protocol,
    TopicPartitions,
    TopicsDeleted,
    TopicToCommit,
)
from moldau.core.group.settings import GroupSettings
from moldau.core.group.subscription import subscribed_topics
from moldau.model.errors import ErrorCode, Refused
from tests.unit.core.group.stage import WALL_MS, Stage, ranged, subscription

GOLDEN = Path(__file__).parent / "golden"
QUIET = {"client_id", "client_host", "session_timeout_ms", "rebalance_timeout_ms", "new_member_suffix", "reason"}


def show(value: Any) -> str:
    """Like repr, without fields that say nothing, and with times counted from the beginning."""
    if isinstance(value, Refused):
        return f"Refused({value.code.name})"
    if isinstance(value, ErrorCode):
        return value.name
    if isinstance(value, bytes):
        topics = subscribed_topics(value) if value.startswith(b"\0\1") else None
        if topics is None:
            return repr(value)[1:]
        rest = value[len(subscription(*topics)) :]
        return f"<subscribes to {' '.join(topics)}{', owns ' + rest.decode() if rest else ''}>"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        fields = zip(value._fields, value, strict=True)
        told = [f"{name}={show(field)}" for name, field in fields if name not in QUIET and _says_something(name, field)]
        return f"{type(value).__name__}({', '.join(told)})"
    if isinstance(value, tuple):
        return "[" + ", ".join(show(item) for item in value) + "]"
    if isinstance(value, int) and value >= WALL_MS:
        return f"+{value - WALL_MS}ms"
    return repr(value)


def _says_something(name: str, field: Any) -> bool:
    if name in ("ticket", "topic_id") or field is None:
        return name == "value"
    if isinstance(field, int):
        return name == "error" or (field is not False and field != -1)
    return bool(field)


class Recorder(Stage):
    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.lines: list[str] = []
        super().__init__(settings)

    def do(self, command: Any) -> Any:
        marker = f" #{self.ticket + 1}" if hasattr(command, "ticket") else ""
        self.lines.append(f"> {show(command)}{marker}")
        return super().do(command)

    def carry(self, decision: Decision, producer_id: int = -1, ticket: int | None = None) -> Decision:
        in_transaction = "" if producer_id == -1 else f" (in the transaction of producer {producer_id})"
        self.lines += [f"  + {show(record)}{in_transaction}" for record in decision.records]
        if decision.reply is NOT_YET:
            self.lines.append("  ... waits")
        elif decision.reply is not None:
            self.lines.append(f"  < {show(decision.reply)}")
        self.lines += [f"  < #{completed} {show(reply)}" for completed, reply in decision.completions]
        return super().carry(decision, producer_id, ticket)

    def advance(self, by_ms: int) -> None:
        before = len(self.lines)
        self.lines.append(f". {by_ms} ms")
        super().advance(by_ms)
        if len(self.lines) > before + 1:
            self.lines.append(f"  = {self.state()} at {self.now.loop_ms} ms")

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self.lines.append(f"> marker of producer {producer_id}: {'commit' if committed else 'abort'}")
        super().end_transaction(producer_id, committed=committed)

    def restart(self) -> None:
        self.lines.append("> another node takes over")
        super().restart()

    def say(self, what: str) -> None:
        self.lines.append(f"# {what}")


def join_and_sync(stage: Recorder) -> None:
    stage.say("Two steps for a new member; the second arrives during the initial delay and extends it.")
    stage.join(requires_known_member_id=True)
    stage.join("c-1", requires_known_member_id=True)
    stage.advance(2_000)
    stage.join(requires_known_member_id=False)
    stage.advance(1_000)
    stage.advance(3_000)
    stage.say("The follower asks first and waits for the leader.")
    stage.sync("c-3", 1, protocol_type="consumer", protocol_name="range")
    stage.sync("c-1", 1, assignments=(("c-1", b"orders-0"), ("c-3", b"orders-1")))
    stage.heartbeat("c-1", 1)
    stage.commit("c-3", 1)
    stage.say("A third member: the others hear of it by heartbeat, commit a last time, and join again.")
    stage.join(requires_known_member_id=False)
    stage.heartbeat("c-1", 1)
    stage.commit("c-3", 1)
    stage.join("c-1")
    stage.join("c-3")
    stage.say("Between join and sync nothing can be committed, and the old generation is over.")
    stage.commit("c-3", 2)
    stage.commit("c-3", 1)
    stage.heartbeat("c-3", 2)
    stage.sync("c-1", 2, assignments=(("c-1", b"orders-0"), ("c-3", b"orders-1"), ("c-4", b"orders-2")))
    stage.sync("c-3", 2)
    stage.sync("c-4", 2)
    stage.do(DescribeGroups(("g",)))


def leave(stage: Recorder) -> None:
    first, second, third = stage.stable(3)
    stage.say("One leaves, one falls silent, one is left.")
    stage.leave(first)
    stage.heartbeat(second, 1)
    stage.join(second)
    stage.advance(10_000)
    stage.sync(second, 2, assignments=((second, b"everything"),))
    stage.say("Nobody is left: the group is stored empty; what ghosts say does not count.")
    stage.do(LeaveGroup("g", (LeavingMember(second), LeavingMember(third), LeavingMember("", "admin"))))
    stage.heartbeat(second, 2)
    stage.commit(second, 2)
    stage.commit()
    stage.do(ListGroups())
    stage.do(DeleteGroups(("g", "nowhere")))


def static_members(stage: Recorder) -> None:
    tickets = [stage.join(instance_id=instance) for instance in ("left", "right")]
    stage.advance(10_000)
    left, right = stage.settle(tickets)
    stage.say("The follower restarts: same assignment, no rebalance, stored.")
    stage.join(instance_id="right")
    stage.sync("right-3", 1, instance_id="right")
    stage.heartbeat(right, 1, instance_id="right")
    stage.say("The leader restarts with an old client, then with one that can skip the assignment (KIP-814).")
    stage.join(instance_id="left")
    stage.join(instance_id="left", supports_skipping_assignment=True)
    stage.heartbeat(left, 1, instance_id="left")
    stage.say("After a fail-over the same members go on; a newcomer rebalances, and one of them is replaced meanwhile.")
    stage.restart()
    stage.heartbeat("left-5", 1, instance_id="left")
    stage.join(instance_id="third")
    stage.join("left-5", instance_id="left")
    stage.join(instance_id="left")
    stage.join("right-3", instance_id="right")
    stage.say("An administrator removes two by instance id.")
    stage.do(LeaveGroup("g", (LeavingMember("", "right"), LeavingMember("", "nobody"))))


def cooperative(stage: Recorder) -> None:
    def protocols(*owned: str) -> tuple[Protocol, ...]:
        return (Protocol("cooperative-sticky", subscription("orders") + ",".join(owned).encode()),)

    stage.say("One member owns two partitions.")
    stage.join(protocols=protocols())
    stage.advance(3_000)
    stage.sync("c-1", 1, assignments=(("c-1", b"0,1"),))
    stage.say("A second one comes. What is owned travels in the metadata; the leader first only takes away.")
    stage.join(protocols=protocols())
    stage.join("c-1", protocols=protocols("0", "1"))
    stage.sync("c-1", 2, assignments=(("c-1", b"0"), ("c-2", b"")))
    stage.sync("c-2", 2)
    stage.say("The member that gave up a partition joins again at once, and the leader hands it on.")
    stage.join("c-1", protocols=protocols("0"))
    stage.heartbeat("c-2", 2)
    stage.join("c-2", protocols=protocols())
    stage.sync("c-2", 3)
    stage.sync("c-1", 3, assignments=(("c-1", b"0"), ("c-2", b"1")))


def timeouts(stage: Recorder) -> None:
    stage.say("A pending id that is never used.")
    stage.join(requires_known_member_id=True)
    stage.advance(10_000)
    stage.say("Members that do not come back to a rebalance, and one that joins but never syncs.")
    tickets = [stage.join(rebalance_timeout_ms=20_000, session_timeout_ms=300_000) for _ in range(3)]
    stage.advance(6_000)
    first, second, _ = stage.settle(tickets)
    stage.join(first, rebalance_timeout_ms=20_000, session_timeout_ms=300_000)
    stage.join(second, rebalance_timeout_ms=20_000, session_timeout_ms=300_000)
    stage.advance(20_000)
    stage.sync(first, 2, assignments=((first, b"x"), (second, b"y")))
    stage.advance(20_000)
    stage.heartbeat(second, 2)
    stage.heartbeat(first, 2)
    stage.say("The last one is silent for ever.")
    stage.advance(300_000)


def offsets(stage: Recorder) -> None:
    stage.shard.settings = GroupSettings(offset_metadata_bytes_max=8)
    stage.say("Commits without membership, with a string and an epoch; too long a string fails alone.")
    stage.commit()
    long = OffsetToCommit(1, 7, metadata="too long!")
    stage.commit(topics=(TopicToCommit("orders", (long, OffsetToCommit(2, 8))),))
    stage.say("In a transaction.")
    stage.txn_commit(7, 50)
    stage.fetch(require_stable=True)
    stage.fetch()
    stage.end_transaction(7, committed=True)
    stage.fetch(require_stable=True)
    stage.txn_commit(8, 60)
    stage.end_transaction(8, committed=False)
    stage.do(OffsetFetch("g", None, require_stable=True))
    stage.say("Deleting, by request and with the topic.")
    stage.do(OffsetDelete("g", (TopicPartitions("orders", (2, 9)),)))
    stage.do(TopicsDeleted((("orders", bytes(16)),)))
    stage.do(OffsetFetch("g", None))


def expiry(stage: Recorder) -> None:
    stage.shard.settings = GroupSettings(offsets_retention_ms=60_000)
    (member,) = stage.stable(1, session_timeout_ms=1_000_000, protocols=ranged("orders"))
    both = tuple(TopicToCommit(topic, (OffsetToCommit(0, 1),)) for topic in ("orders", "old"))
    stage.commit(member, 1, topics=both)
    stage.commit(group="simple")
    stage.say("Ten minutes later: what nobody reads goes, with the group that is nothing else.")
    stage.advance(600_000)
    stage.leave(member)
    stage.say("And now the group is empty: at the next look everything goes.")
    stage.advance(600_000)
    stage.do(ListGroups())


SCENARIOS: dict[str, Callable[[Recorder], None]] = {
    scenario.__name__: scenario
    for scenario in (join_and_sync, leave, static_members, cooperative, timeouts, offsets, expiry)
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_conversation_goes_as_written(name: str) -> None:
    stage = Recorder()
    SCENARIOS[name](stage)
    text = "\n".join(stage.lines) + "\n"
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("MOLDAU_REWRITE_TRANSCRIPTS"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text)
    assert text == golden.read_text()
