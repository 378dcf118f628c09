"""One file of a data directory is damaged while the broker is down: what was acknowledged is served, or the loss told.

The directory is filled once and kept twice, as a clean stop and as `kill -9` leave it. Every round damages a copy.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from moldau.cli.broker_process import BrokerProcess
from tests.attack.world import SETTINGS, Difference, World, differences

STOPS = STOPPED, KILLED = ("stopped", "killed")


def _zero_part(data: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return bytes(len(data))
    begin = rng.randrange(len(data))
    end = rng.randrange(begin, len(data)) + 1
    return data[:begin] + bytes(end - begin) + data[end:]


def _flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes | None]] = {
    "missing": lambda data, rng: None,
    "empty": lambda data, rng: b"",
    "truncated": lambda data, rng: data[: rng.randrange(len(data))],
    "zeroed": _zero_part,
    "one bit flipped": _flip,
}

# A broker that runs has them; who else would write them?
NOT_DATA = {".lock", "moldau.run.json", "moldau.loop.json", "metadata.db-shm"}


def kind_of(path: Path) -> str:
    """`.log first`, `__consumer_offsets .log`, `metadata.db`: what is alike for a broker."""
    name = re.sub(r"^\d{20}(-[0-9a-f]+)?", "", path.name)
    if name != ".log":
        return name
    if path.parent.name.startswith("__"):
        return f"{topic_of(path)} .log"
    segments = sorted(other.name for other in path.parent.glob("*.log"))
    place = "last" if path.name == segments[-1] else "first" if path.name == segments[0] else "middle"
    return f".log {place}"


def topic_of(path: Path) -> str:
    return path.parent.name.rpartition("-")[0]


def kinds_in(directory: Path) -> dict[str, list[Path]]:
    """Files by kind, in an order that does not depend on the file system."""
    found: dict[str, list[Path]] = {}
    for path in sorted(path for path in directory.rglob("*") if path.is_file() and path.name not in NOT_DATA):
        found.setdefault(kind_of(path), []).append(path)
    return found


@dataclass
class Outcome:
    """Of one round."""

    stop: str
    what: str
    how: str
    ended: str = "whole"
    told: int = 0
    lost: int = 0
    silent: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.what} {self.how}, broker {self.stop}: {self.ended}"


class DamageAttack:
    name, family = "one damaged file", "damage"
    kinds: ClassVar[frozenset[str]] = frozenset()
    """Only these; empty: all that there are."""

    def __init__(self, folder: Path, program: Sequence[str]) -> None:
        self.folder, self.program = folder, program

    def prepare(self, rng: random.Random) -> None:
        """Fill, stop, keep; start, kill, keep."""
        self.folder.mkdir(parents=True)
        broker = BrokerProcess(self.folder / "data", SETTINGS, self.program)
        broker.start()
        try:
            self.world = World.fill(broker.bootstrap, rng)
            broker.stop()
            shutil.copytree(self.folder / "data", self.folder / STOPPED)
            broker.start()
            self.world.touch(broker.bootstrap)
        finally:
            broker.kill()
        shutil.copytree(self.folder / "data", self.folder / KILLED)
        self.deck = self._deck(rng)

    def _deck(self, rng: random.Random) -> list[tuple[str, str, str]]:
        """Every stop, kind and damage once, shuffled; rounds go through it again and again."""
        cards = [
            (stop, kind, how)
            for stop in STOPS
            for kind in kinds_in(self.folder / stop)
            if not self.kinds or kind in self.kinds
            for how in DAMAGES
        ]  # fmt: skip
        rng.shuffle(cards)
        return cards

    def round(self, rng: random.Random, number: int) -> Outcome:
        stop, kind, how = self.deck[number % len(self.deck)]
        data = self.folder / "round" / "data"
        shutil.rmtree(data.parent, ignore_errors=True)
        shutil.copytree(self.folder / stop, data)
        path = rng.choice(kinds_in(data)[kind])
        outcome = Outcome(stop, str(path.relative_to(data)), how)
        was_hurt = hurt(path, how, rng)
        broker = BrokerProcess(data, SETTINGS, self.program)
        try:
            broker.start()
            wrong = differences(self.world, broker.bootstrap, touched=stop == KILLED)
        except RuntimeError:
            judge_refusal(outcome, broker.log_path.read_text(errors="replace"))
        else:
            judge(outcome, wrong, broker)
            if was_hurt and kind.startswith("__"):
                judge_coordinator(outcome, topic_of(path), broker.log_path.read_text(errors="replace"))
        finally:
            broker.kill()
        return outcome


def hurt(path: Path, how: str, rng: random.Random) -> bool:
    """Whether there was something to lose."""
    data = path.read_bytes()
    changed = DAMAGES[how](data, rng) if data or how == "missing" else b"\0"
    if changed is None:
        path.unlink()
    else:
        path.write_bytes(changed)
    return bool(data)


def warnings(log: str) -> str:
    """What an operator is told: lines at WARN and above, with those that continue them."""
    lines, told = [], False
    for line in log.splitlines():
        if re.match(r"\d{4}-\d\d-\d\d ", line):
            told = bool(re.match(r"\S+ \S+ (WARN|ERROR|FATAL)", line))
        if told:
            lines.append(line)
    return "\n".join(lines)


def judge(outcome: Outcome, wrong: list[Difference], broker: BrokerProcess) -> None:
    """Everything that differs must be told: a warning names the topic, or its reader gets an error."""
    log = broker.log_path.read_text(errors="replace")
    for one in wrong:
        if one.refused or is_told(log, one.topic):
            outcome.told += 1
        else:
            outcome.silent.append(f"{one.text}, and nobody was told")
    if not broker.alive:
        outcome.problems.append("the broker ended")
    if wrong:
        texts = [one.text + (f", then {one.refused}" if one.refused else "") for one in wrong]
        outcome.ended = "; ".join(texts) + (" (told)" if not outcome.silent else " (SILENT)")


def is_told(log: str, topic: str) -> bool:
    return re.search(rf"\b{re.escape(topic)}\b", warnings(log)) is not None


def judge_coordinator(outcome: Outcome, topic: str, log: str) -> None:
    """Nobody else reads its log, so only the broker can tell."""
    if not is_told(log, topic) and not outcome.silent:
        outcome.silent.append(f"the log of {topic} was hurt, and nobody was told")
        outcome.ended += " (SILENT)"


def judge_refusal(outcome: Outcome, log: str) -> None:
    """A broker that does not start says why, in a sentence for people."""
    outcome.told, outcome.ended = 1, "start refused"
    if "Traceback" in log:
        outcome.problems.append("the start was refused with a traceback: " + log.strip().splitlines()[-1].strip())
    elif not log.strip():
        outcome.problems.append("the start was refused without a word")


ATTACKS = (DamageAttack,)
