"""What a scenario is, and how both sides run it in step.

A scenario is a list of steps. A `Step` is taken by each side and gives what a user would see: rows, a number, or a
refusal and when it came. A `Change` is done once, to the broker, between two steps.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.interop.spark.differential.world import World

ATTEMPTS = 3
TOO_BUSY = "failed to connect back"
"""Spark gives a Python process ten seconds to start, whatever else the machine has to do."""

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"

WE_REFUSE_EARLIER = "we refuse earlier"
WE_REFUSE_LATER = "we refuse later"
WE_REFUSE = "we refuse"
THEY_REFUSE = "they refuse"
OTHER_ROWS = "other rows"


@dataclass(frozen=True)
class Refused:
    """The side said no. Two refusals are the same when they come at the same time; the sentence is judged apart."""

    when: str
    sentence: str = field(default="", compare=False)


@dataclass
class Hand:
    """One of the two sides, and what it keeps from step to step."""

    format: str
    spark: Any
    world: World
    folder: Path
    frames: dict[str, Any] = field(default_factory=dict)
    query: Any = None
    batches: list[list[Any]] = field(default_factory=list)

    @property
    def ours(self) -> bool:
        return self.format == "moldau"

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """None takes an option away, also the address."""
        wanted = {"kafka.bootstrap.servers": self.world.bootstrap, **given}
        return {name: self.named(str(value)) for name, value in wanted.items() if value is not None}

    def named(self, text: str) -> str:
        """`<a>` stands for the scenario's own topic of that name, `<out>` for one of this side alone."""
        return re.sub(r"<(\w+)>", lambda found: self.world.own(self.short(found[1])), text)

    def short(self, name: str) -> str:
        return f"out-{self.format}" if name == "out" else name


@dataclass(frozen=True)
class Step:
    """`see` gives what the user sees; whatever it raises is a refusal, told `when`."""

    see: Callable[[Hand], Any]
    when: str = "action"


@dataclass(frozen=True)
class Change:
    do: Callable[[World], None]


@dataclass(frozen=True)
class Scenario:
    name: str
    steps: tuple[Step | Change, ...]
    says: tuple[str, ...] = ()
    """Words that our refusal must hold, or a user would not know what to change."""


@dataclass(frozen=True)
class Compared:
    ours: list[Any]
    theirs: list[Any]

    @property
    def equal(self) -> bool:
        return self.ours == self.theirs

    @property
    def shape(self) -> str:
        """How they differ, so that the explanation of one kind of difference cannot hide another."""
        ours, theirs = (bool(seen) and isinstance(seen[-1], Refused) for seen in (self.ours, self.theirs))
        if ours and theirs:
            return WE_REFUSE_EARLIER if len(self.ours) < len(self.theirs) else WE_REFUSE_LATER
        if ours or theirs:
            return WE_REFUSE if ours else THEY_REFUSE
        return OTHER_ROWS

    def __str__(self) -> str:
        return f"\n  moldau:    {shown(self.ours)}\n  connector: {shown(self.theirs)}"


def run(scenario: Scenario, spark: Any, world: World, folder: Path) -> Compared:
    """Both sides from the beginning; again where the machine was too busy for Spark to start a Python process."""
    for attempt in range(ATTEMPTS):
        world.begin()
        ours, theirs = (Hand(name, spark, world, folder / f"{name}-{attempt}") for name in ("moldau", "kafka"))
        compared = _in_step(scenario, (ours, theirs))
        if not any(isinstance(seen, Refused) and TOO_BUSY in seen.sentence for seen in compared.ours):
            break
    return compared


def _in_step(scenario: Scenario, hands: tuple[Hand, Hand]) -> Compared:
    """One step after the other, each by both sides at once. A side that was refused takes no further step."""
    seen: tuple[list[Any], list[Any]] = ([], [])
    try:
        with ThreadPoolExecutor(1) as beside:
            for step in scenario.steps:
                if isinstance(step, Change):
                    step.do(hands[0].world)
                    continue
                theirs = beside.submit(_take, step, hands[1], seen[1])
                # Ours in this thread: in others Spark does not look for formats in Python when it writes.
                _take(step, hands[0], seen[0])
                theirs.result()
    finally:
        for hand in hands:
            if hand.query is not None:
                hand.query.stop()
        hands[0].spark.conf.unset(PUSH_DOWN)  # `current` sets it for the session; the next scenario must not inherit it
    return Compared(*seen)


def _take(step: Step, hand: Hand, seen: list[Any]) -> None:
    if seen and isinstance(seen[-1], Refused):
        return
    try:
        seen.append(step.see(hand))
    except Exception as refusal:
        seen.append(Refused(step.when, sentence(refusal)))


def unhelpful(scenario: Scenario, compared: Compared) -> list[str]:
    """Words that our refusal should hold and does not."""
    told = " ".join(seen.sentence for seen in compared.ours if isinstance(seen, Refused))
    return [word for word in scenario.says if told and word not in told]


# -- what is compared --------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A cell as something that compares: bytes, milliseconds, tuples."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, (list, tuple)):  # rows are tuples too
        return tuple(plain(one) for one in value)
    return value


def rows(found: Iterable[Any]) -> list[Any]:
    """Rows in an order of their own: no side promises one."""
    return sorted((plain(row) for row in found), key=repr)


def sentence(refusal: BaseException) -> str:
    """The text of an exception without the traces around it."""
    text = re.split(r"\n\s*(?:at |JVM stacktrace|Driver stacktrace|=== Streaming Query)", str(refusal))[0]
    return "\n".join(line for line in text.splitlines() if not line.startswith((" ", "\t", "Traceback")))


def shown(seen: list[Any]) -> str:
    return "; ".join(
        f"refused at {one.when}: {' '.join(one.sentence.split())[-400:]}" if isinstance(one, Refused) else _short(one)
        for one in seen
    )


def _short(value: Any) -> str:
    text = repr(value)
    count = f"{len(value)} entries: " if isinstance(value, list) else ""
    return count + (text if len(text) <= 600 else text[:600] + "…")
