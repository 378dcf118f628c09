"""Runs attacks one after the other and measures what each did to the good client and to the broker."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from moldau.cli.broker_process import MOLDAU
from tests.attack.attacks.base import Attack
from tests.attack.attacks.damage import DamageAttack
from tests.attack.attacks.hunger import HungerAttack
from tests.attack.figures import Row
from tests.attack.stage import Stage

Kind = type[Attack] | type[HungerAttack] | type[DamageAttack]


@dataclass
class Plan:
    """What to run, for how long, from which seed."""

    folder: Path
    seed: int = 7
    program: Sequence[str] = MOLDAU
    seconds: float = 20.0
    """Of each attack; the round that was begun is ended."""
    ends_at: float = 0.0
    """Damage, which comes last and has the most to try, goes on until then."""
    rounds_max: int = 1_000_000
    first_round: int = 0
    tell: Callable[[str], None] = field(default=lambda text: None)

    def rng(self, attack: str, number: int) -> random.Random:
        """Every round has chance of its own, so that it can be repeated alone."""
        return random.Random(f"{self.seed}/{attack}/{number}")

    def command(self, attack: str, number: int) -> str:
        return f"python -m tests.attack --seed {self.seed} --only '{attack}' --first-round {number} --rounds 1"


def run(plan: Plan, kinds: Sequence[Kind]) -> list[Row]:
    """A row for each attack. Rude ones share one broker, which must bear them all; the others have their own."""
    rows: list[Row] = []
    rude = [kind for kind in kinds if issubclass(kind, Attack) and not issubclass(kind, HungerAttack)]
    if rude:
        with Stage(plan.folder / "rude", program=plan.program) as stage:
            rows += [on_stage(plan, stage, kind(stage)) for kind in rude]
            rows.append(after_all(stage))
    for kind in kinds:
        if issubclass(kind, HungerAttack):
            rows.append(hungry(plan, kind))
        elif issubclass(kind, DamageAttack):
            rows.append(damage(plan, kind))
    return rows


def on_stage(plan: Plan, stage: Stage, attack: Attack) -> Row:
    row = Row(attack.name, attack.family, descriptors_before=stage.descriptors())
    plan.tell(f"{attack.name}: preparing")
    spans: list[tuple[int, float, float]] = []
    begin = time.monotonic()
    try:
        attack.prepare(plan.rng(attack.name, -1))
        prepared = time.monotonic()
        for number in rounds(plan, prepared + plan.seconds):
            plan.tell(f"{attack.name}: round {number}")
            begun = time.monotonic()
            attack.round(plan.rng(attack.name, number))
            spans.append((number, begun, time.monotonic()))
            if not stage.broker.alive:
                break
    except Exception as failure:  # whatever the broker did to the attacker belongs into the table
        row.problems.append(f"{type(failure).__name__} in round {len(spans) + plan.first_round}: {failure}")
        prepared = begin
    row.rounds = len(spans)
    plan.tell(f"{attack.name}: calming down")
    end = time.monotonic()
    quieten(stage, attack, row)
    measure(stage, row, spans, prepared, end, pauses_count=attack.pauses_count)
    row.problems += attack.check()
    finish(plan, row, spans)
    return row


def rounds(plan: Plan, until: float) -> Iterator[int]:
    """One at least."""
    for number in range(plan.first_round, plan.first_round + plan.rounds_max):
        yield number
        if time.monotonic() > until:
            return


def quieten(stage: Stage, attack: Attack, row: Row) -> None:
    """Until the broker is as it was before: alive, answering, without what the attack left."""
    if not stage.broker.alive:
        row.problems.append("the broker ended: " + last_words(stage.log_text))
    try:
        if not stage.broker.alive and (why := stage.revive()):
            row.problems.append(f"and does not start again: {last_words(why)}")
            return
        attack.calm()
    except Exception as failure:
        row.problems.append(f"{type(failure).__name__} while calming down: {failure}")
    if not stage.wait_for_good_client():
        row.problems.append("the good client was not answered any more")


def last_words(log: str) -> str:
    """The last line that sounds like a reason."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    reasons = [line for line in lines if re.search(r"\b(WARN|ERROR|FATAL|error|cannot)\b", line)]
    return (reasons or lines or ["without a word"])[-1]


def measure(
    stage: Stage,
    row: Row,
    spans: list[tuple[int, float, float]],
    begin: float,
    end: float,
    *,
    pauses_count: bool,
) -> None:
    row.descriptors_after = stage.wait_for_descriptors(row.descriptors_before or 0)
    if stage.deaths:
        row.descriptors_before = row.descriptors_after = None
        stage.deaths = 0
    stage.journal.refresh()
    watched = stage.watched
    row.rss_mib = watched.peak_mib(begin, time.monotonic())
    if pauses_count:
        wait, net_s = stage.journal.longest(watched, begin, end)
        row.pause_ms, row.held_ms = net_s * 1000.0, stage.loop_held_ms()
        if wait is not None:
            row.pause_gross_ms = wait.seconds * 1000.0
            number = next((number for number, a, b in spans if wait.begin <= b and wait.end >= a), None)
            row.pause_in = f"for {WAITS[wait.kind]}, round {number}"
            row.failing_round = number
    row.lost, problems = stage.read_back()
    row.problems += problems


WAITS = {"ack": "an acknowledgement", "read": "a record", "asked": "metadata"}


def finish(plan: Plan, row: Row, spans: list[tuple[int, float, float]]) -> None:
    if row.broken():
        first = row.failing_round if row.failing_round is not None else plan.first_round
        row.command = plan.command(row.attack, first)


def after_all(stage: Stage) -> Row:
    """What was acknowledged is there after the attacks, and after `kill -9` behind them."""
    row = Row("all of them, then kill -9", "rudeness", rounds=1)
    stage.finish_client()
    row.lost, row.problems = stage.read_back()
    stage.broker.kill()
    try:
        stage.broker.start()
    except RuntimeError as failure:
        row.problems.append(f"no start after it: {last_words(str(failure))}")
        return row
    lost, problems = stage.read_back()
    row.lost, row.problems = max(row.lost, lost), row.problems + problems
    return row


def hungry(plan: Plan, kind: type[HungerAttack]) -> Row:
    row = Row(kind.name, kind.family)
    if why := kind.impossible():
        row.skipped = why
        return row
    folder = plan.folder / kind.__name__
    world = kind.surroundings(folder)
    try:
        with Stage(folder, kind.settings, [*kind.wrapper, *plan.program]) as stage:
            return on_stage(plan, stage, kind(stage))
    except RuntimeError as failure:
        row.problems.append(str(failure))
        return row
    finally:
        world.close()


def damage(plan: Plan, kind: type[DamageAttack]) -> Row:
    attack, row = kind(plan.folder / kind.__name__, plan.program), Row(kind.name, kind.family)
    plan.tell(f"{kind.name}: preparing")
    attack.prepare(plan.rng(kind.name, -1))
    for number in rounds(plan, max(plan.ends_at, time.monotonic() + plan.seconds)):
        outcome = attack.round(plan.rng(kind.name, number), number)
        plan.tell(f"{kind.name}: round {number}, {outcome}")
        row.rounds += 1
        row.outcomes.append(str(outcome))
        row.told += outcome.told
        row.lost += outcome.lost
        row.silent += bool(outcome.silent)
        if outcome.silent or outcome.problems:
            row.failing_round = number if row.failing_round is None else row.failing_round
            row.problems += [f"round {number}, {outcome}: {text}" for text in (*outcome.silent, *outcome.problems)]
    finish(plan, row, [])
    return row
