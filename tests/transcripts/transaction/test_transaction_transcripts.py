"""Golden conversations with the transaction core. A change of behaviour shows as a diff of the text beside this file.

To accept a change: MOLDAU_REWRITE_TRANSCRIPTS=1 pytest tests/transcripts/transaction, then read the diff.

Each step is written with what it caused: `>` a command, `.` time that passes, `<` its answer, `+` a record, `!` markers
that the shell has to write.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.core.coordination import Decision
from moldau.core.transaction.commands import DescribeTransactions, ListTransactions
from moldau.core.transaction.settings import TransactionSettings
from moldau.core.transaction.states import NAMES, TxnState
from moldau.model.errors import ErrorCode, Refused
from moldau.model.ids import TopicPartition
from tests.unit.core.transaction.stage import WALL_MS, A, B, Stage

GOLDEN = Path(__file__).parent / "golden"


def show(value: Any) -> str:
    """Like repr, without fields at their defaults, and with times counted from the beginning."""
    if isinstance(value, Refused):
        return f"Refused({value.code.name})"
    if isinstance(value, TopicPartition):
        return str(value)
    if isinstance(value, TxnState):
        return NAMES[value]
    if isinstance(value, ErrorCode):
        return value.name
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        defaults: dict[str, Any] = getattr(value, "_field_defaults", {})
        told = [
            f"{name}={show(field)}"
            for name, field in zip(value._fields, value, strict=True)
            if name not in defaults or field != defaults[name] or name == "state"
        ]
        return f"{type(value).__name__}({', '.join(told)})"
    if isinstance(value, frozenset):
        return "{" + " ".join(sorted(show(item) for item in value)) + "}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{show(key)}: {show(item)}" for key, item in value.items()) + "}"
    if isinstance(value, tuple):
        return "[" + ", ".join(show(item) for item in value) + "]"
    if isinstance(value, int) and value >= WALL_MS:
        return f"+{value - WALL_MS}ms"
    return repr(value)


class Recorder(Stage):
    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.lines: list[str] = []
        super().__init__(settings)

    def do(self, command: Any) -> Any:
        self.lines.append(f"> {show(command)}")
        return super().do(command)

    def carry_out(self, decision: Decision) -> None:
        for record in decision.records:
            self.lines.append(f"  + {show(record)}")
        for effect in decision.effects:
            self.lines.append(f"  ! {show(effect)}")
        if decision.reply is not None:
            self.lines.append(f"  < {show(decision.reply)}")
        super().carry_out(decision)

    def sleep(self, ms: int) -> None:
        self.lines.append(f". {ms} ms")
        super().sleep(ms)

    def fail_over(self) -> None:
        self.lines.append(". the coordinator fails over")
        super().fail_over()


def v1_commit_and_abort(stage: Recorder) -> None:
    who = stage.init()
    stage.add(who, A)
    stage.sleep(5)
    stage.add(who, A, B)
    stage.verify(who, A, TopicPartition("c", 0))
    stage.end(who, commit=True)
    stage.end(who, commit=True)
    stage.write_markers()
    stage.end(who, commit=True)
    stage.add(who, A)
    stage.end(who, commit=False)
    stage.write_markers()
    stage.end(who, commit=True)


def v2_commit_and_abort(stage: Recorder) -> None:
    who = stage.init()
    stage.write(who, A, B)
    who2 = stage.end(who, commit=True, v2=True)
    stage.end(who, commit=True, v2=True)
    stage.write(who2, A)
    stage.write_markers()
    stage.end(who, commit=True, v2=True)
    stage.end(who, commit=False, v2=True)
    stage.write(who, A)
    who3 = stage.end(who2, commit=False, v2=True)
    stage.write_markers()
    stage.write(who3, B)


def a_zombie_is_fenced(stage: Recorder) -> None:
    zombie = stage.init()
    stage.add(zombie, A)
    stage.init()
    stage.init()
    stage.write_markers()
    stage.init()
    stage.add(zombie, A)
    stage.end(zombie, commit=True)
    stage.do(DescribeTransactions(("t", "u", "")))


def a_transaction_times_out(stage: Recorder) -> None:
    who = stage.init(timeout_ms=15_000)
    stage.add(who, A)
    stage.do(ListTransactions(duration_ms=5_000))
    stage.sleep(20_000)
    stage.do(ListTransactions(duration_ms=5_000))
    stage.end(who, commit=True)
    stage.fail_over()
    stage.write_markers()
    stage.init(expected=(who.producer_id, who.producer_epoch))


def epochs_run_out(stage: Recorder) -> None:
    who = stage.at_epoch(32766)
    stage.write(who, A)
    following = stage.end(who, commit=True, v2=True)
    stage.fail_over()
    stage.write_markers()
    stage.end(who, commit=True, v2=True)
    stage.write(following, A)


SCENES: tuple[Callable[[Recorder], None], ...] = (
    v1_commit_and_abort,
    v2_commit_and_abort,
    a_zombie_is_fenced,
    a_transaction_times_out,
    epochs_run_out,
)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_transcript(scene: Callable[[Recorder], None]) -> None:
    stage = Recorder()
    scene(stage)
    told = "\n".join(stage.lines) + "\n"
    path = GOLDEN / f"{scene.__name__}.txt"
    if os.environ.get("MOLDAU_REWRITE_TRANSCRIPTS"):
        path.write_text(told)
    assert told == path.read_text()
