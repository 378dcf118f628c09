"""Every kind of file of a data directory, damaged in five ways, after a clean stop and after a crash.

`PYTHONPATH=src python -m tests.fault.damage_table` writes the table of docs/internals/damage.md anew.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from moldau.config.settings import Settings
from moldau.core.log.settings import LogSettings
from moldau.core.metadata.commands import CreateTopics, NewTopic
from moldau.model.failures import CorruptBatch, WorldError
from moldau.node.compose import Node
from moldau.records.batch import batch_crc_ok, iterate_headers
from moldau.runtime.ports import real_ports
from moldau.storage.partition_log import PartitionLog
from tests.unit.storage.support import append_internal, batch, marker, sequenced

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "damage.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->\n"
NOW_MS = 1_000_000
DAMAGES = ("missing", "empty", "truncated", "zeroed", "one bit flipped")
ENTRY_BYTES = {".index": 8, ".timeindex": 12, ".txnindex": 34}


@dataclass(frozen=True)
class Kind:
    """A kind of file: what the table calls it, a pattern of its path, and which of the files with something in them."""

    name: str
    pattern: str
    which: int = 0


KINDS = (
    Kind("`.log`, active", "orders-0/*.log", -1),
    Kind("`.log`, sealed", "orders-0/*.log", 1),
    Kind("`.log`, sealed, compacted", "keyed-0/*.log", 0),
    Kind("`.index`, active", "orders-0/*.index", -1),
    Kind("`.index`, sealed", "orders-0/*.index", 1),
    Kind("`.timeindex`, active", "orders-0/*.timeindex", -1),
    Kind("`.timeindex`, sealed", "orders-0/*.timeindex", 1),
    Kind("`.txnindex`, active", "payments-0/*.txnindex", -1),
    Kind("`.txnindex`, sealed", "payments-0/*.txnindex", 0),
    Kind("`.snapshot`, newest", "payments-0/*.snapshot", -1),
    Kind("`leader-epoch-checkpoint`", "payments-0/leader-epoch-checkpoint"),
    Kind("`partition.metadata`", "orders-0/partition.metadata"),
    Kind("`moldau.segments`", "orders-0/moldau.segments"),
    Kind("`meta.properties`", "meta.properties"),
    Kind("`recovery-point-offset-checkpoint`", "recovery-point-offset-checkpoint"),
    Kind("`log-start-offset-checkpoint`", "log-start-offset-checkpoint"),
    Kind("`replication-offset-checkpoint`", "replication-offset-checkpoint"),
    Kind("`cleaner-offset-checkpoint`", "cleaner-offset-checkpoint"),
    Kind("`moldau.offsets`", "moldau.offsets"),
    Kind("`.kafka_cleanshutdown`", ".kafka_cleanshutdown"),
    Kind("`.lock`", ".lock"),
    Kind("`metadata.db`", "metadata.db"),
    Kind("`metadata.db-wal`", "metadata.db-wal"),
    Kind("`metadata.db-shm`", "metadata.db-shm"),
    Kind("`metadata.copy`", "metadata.copy"),
    Kind("`moldau.clock.json`", "moldau.clock.json"),
)


# --- a directory with everything in it -------------------------------------------------------------------------------


def new_node(directory: Path) -> Node:
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(directory), "log.cleaner.enable": "false"}
    return Node(Settings.from_sources(overrides=settings), real_ports())


@contextmanager
def quick_disk() -> Iterator[None]:
    """Nothing here is about losing power: syncs are left out."""
    with patch("os.fsync", lambda _: None), patch("os.fdatasync", lambda _: None):
        yield


async def build(directory: Path, crashed: Path) -> None:
    """A directory after a clean stop, and a copy of it taken while it was served: that is what a crash leaves."""
    node = new_node(directory)
    await node.start()
    assert node.controller is not None
    assert node.log_dirs is not None
    compacted = (("cleanup.policy", "compact"),)
    wanted = (NewTopic("orders"), NewTopic("keyed", configs=compacted), NewTopic("payments"), NewTopic("others"))
    await node.controller.submit(CreateTopics(wanted))
    orders, keyed, payments, others = (log_of(node, topic.name) for topic in wanted)
    for log in (orders, keyed, payments):
        small = LogSettings(segment_bytes=2000, index_interval_bytes=200, compact=log is keyed, delete=log is not keyed)
        log.update_settings(small)
    for number in range(120):
        put(orders, batch([(b"k", b"%d" % number)], timestamp=NOW_MS + number), epoch=number // 50)
        put(keyed, batch([(b"k%d" % (number % 7), b"%d" % number)], timestamp=NOW_MS + number))
    for number in range(60):
        put(payments, sequenced(number, transactional=True, timestamp=NOW_MS + number), epoch=number // 30)
        append_internal(payments, marker(aborted=number % 2 == 0), epoch=number // 30)
    put(others, batch(5))
    orders.advance_start_offset(30)
    for log in node.log_dirs.logs.values():
        log.high_watermark = log.end_offset
    assert node.cleaner is not None
    while await node.cleaner.clean_next() is not None:
        pass
    node.flush_set.flush_all()
    for log in node.log_dirs.logs.values():
        await log.sync()
    await node.log_dirs.remove_due(2**62)
    await node.log_dirs.checkpoint()
    put(others, batch(1))
    node.flush_set.flush_all()
    shutil.copytree(directory, crashed)
    await node.stop()


def put(log: PartitionLog, records: bytes, *, epoch: int = 0) -> None:
    outcome = log.append_as_leader(records, epoch, NOW_MS)
    assert outcome.error == 0, outcome.detail


def log_of(node: Node, topic: str) -> PartitionLog:
    partition = node.partitions.get(topic, 0)
    assert partition is not None, topic
    return partition.log


# --- what clients can learn ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """What a log answers. `refused` are offsets that could not be read, with what a reader is told there."""

    start: int
    end: int
    batches: dict[int, bytes]
    refused: str
    aborted: list[Any]
    failure: str


def look_at(log: PartitionLog) -> Seen:
    if log.failure:
        return Seen(0, 0, {}, "", [], log.failure)
    found: dict[int, bytes] = {}
    refused = ""
    offset, end = int(log.start_offset), int(log.end_offset)
    while offset < end:
        piece = log.read(offset, end, 1, True)
        if piece.error or not piece.parts:
            refused = "CORRUPT_MESSAGE" if piece.error == 2 else f"error {piece.error}"
            offset += 1
            continue
        data = b"".join(bytes(part) for part in piece.parts)
        for position, header in iterate_headers(data):
            if not batch_crc_ok(data, header, position):
                refused = refused or "checksum"
            elif header.last_offset >= log.start_offset:
                found[int(header.base_offset)] = data[position + 21 : position + header.size_bytes]
            offset = max(offset + 1, int(header.next_offset))
    try:
        aborted = log.aborted_transactions(0, end)
    except CorruptBatch:
        aborted, refused = [], refused or "CORRUPT_MESSAGE"
    return Seen(int(log.start_offset), end, found, refused, aborted, "")


TOPICS = ("orders", "keyed", "payments", "others")


class Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name in ("moldau.storage", "moldau.host", "moldau.node"):  # not that this machine is slow
            self.lines.append(record.getMessage())


@dataclass(frozen=True)
class Started:
    refusal: str
    seen: dict[str, Seen | None]
    warnings: list[str]


async def start_and_look(directory: Path) -> Started:
    handler = Warnings()
    root = logging.getLogger("moldau")
    root.addHandler(handler)
    node = new_node(directory)
    try:
        await node.start()
        try:
            seen = {}
            for topic in TOPICS:
                partition = node.partitions.get(topic, 0)
                seen[topic] = None if partition is None else look_at(partition.log)
            return Started("", seen, list(handler.lines))
        finally:
            await node.stop()
    except WorldError as refusal:
        return Started(f"{type(refusal).__name__}: {refusal}", {}, list(handler.lines))
    finally:
        root.removeHandler(handler)


# --- damage and verdict ----------------------------------------------------------------------------------------


def damage(path: Path, how: str) -> None:
    data = path.read_bytes()
    if how == "missing":
        path.unlink()
        return
    half = len(data) // 2
    entry = ENTRY_BYTES.get(path.suffix, 1)
    flipped = bytearray(data)
    if data:
        flipped[_checked_byte(data, half) if path.suffix == ".log" else half] ^= 0x04
    damaged = {
        "empty": b"",
        "truncated": data[: half // entry * entry],
        "zeroed": bytes(len(data)),
        "one bit flipped": bytes(flipped),
    }
    path.write_bytes(damaged[how])


def _checked_byte(data: bytes, near: int) -> int:
    """A byte that its batch's checksum covers: the offset of a batch lies outside of it, in Kafka's format."""
    place = 0
    for position, _ in iterate_headers(data):
        if position > near:
            break
        place = position
    return place + 65


def verdict(expected: Started, got: Started) -> str:
    """One of few words; those that begin with SILENT are defects."""
    if got.refusal:
        return "the broker refuses to start and says why"
    words = {word for topic in TOPICS for word in _verdict(topic, expected.seen[topic], got.seen[topic], got.warnings)}
    words.discard("whole")
    if words:
        return ", ".join(sorted(words))
    return "whole, told" if got.warnings else "whole"


def _verdict(topic: str, expected: Seen | None, got: Seen | None, warnings: list[str]) -> Iterator[str]:
    told = any(f"{topic}-0" in line for line in warnings)
    assert expected is not None
    if got is None:
        yield f"SILENT: {topic} is not served"
    elif got.failure:
        yield "partition offline, the others serve" if told else f"SILENT: {topic} is offline"
    elif got.aborted != expected.aborted and not got.refused and got.end == expected.end:
        yield "SILENT: aborted records shown"
    elif any(got.batches[offset] != expected.batches.get(offset) for offset in got.batches):
        yield "deleted records back, told" if told else "SILENT: other records"
    elif got.refused:
        yield "readers are told (checksum)" if got.refused == "checksum" else f"readers are told ({got.refused})"
    elif got.batches != expected.batches or got.end != expected.end:
        yield "cut or hole, told" if told else f"SILENT: {topic} lost records"
    elif got.start != expected.start:
        yield "another start offset, told" if told else "SILENT: another start offset"
    else:
        yield "whole"


Row = dict[str, str]


async def run(folder: Path, kinds: tuple[Kind, ...] = KINDS) -> dict[tuple[str, str], Row]:
    """(kind, "clean stop" or "crash") -> damage -> outcome."""
    clean, crashed = folder / "clean", folder / "crashed"
    await build(clean, crashed)
    table: dict[tuple[str, str], Row] = {}
    for stop, source in (("clean stop", clean), ("crash", crashed)):
        expected = await start_and_look(copied(source, folder / "control"))
        assert not expected.refusal, expected.refusal
        assert not expected.warnings, expected.warnings
        for kind in kinds:
            files = [
                path for path in sorted(source.glob(kind.pattern)) if path.stat().st_size > 0 or "*" not in kind.pattern
            ]
            if not files:
                continue
            victim = files[kind.which].relative_to(source)
            row = table[kind.name, stop] = {}
            for how in DAMAGES:
                work = copied(source, folder / "work")
                damage(work / victim, how)
                row[how] = verdict(expected, await start_and_look(work))
    return table


def copied(source: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    return target


def render(table: dict[tuple[str, str], Row]) -> str:
    lines = [f"| File | After | {' | '.join(DAMAGES)} |", f"|---|---|{'---|' * len(DAMAGES)}"]
    for (kind, stop), row in sorted(table.items(), key=lambda item: [one.name for one in KINDS].index(item[0][0])):
        lines.append(f"| {kind} | {stop} | {' | '.join(row[how] for how in DAMAGES)} |")
    return "\n".join(lines) + "\n"


def make(folder: Path, kinds: tuple[Kind, ...] = KINDS) -> dict[tuple[str, str], Row]:
    with quick_disk():
        return asyncio.run(run(folder, kinds))


def replace_table(text: str) -> None:
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(before + BEGIN + text + END + rest.partition(END)[2])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = render(make(Path(folder)))
    sys.stdout.write(text)
    if PAGE.exists():
        replace_table(text)


if __name__ == "__main__":
    main()
