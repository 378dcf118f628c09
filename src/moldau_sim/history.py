"""What the clients of a simulated world did and saw, for the checkers.

An operation begins (`t_begin`) and ends in one of three ways: `ok`, `fail` (it certainly did not happen) or, when in
doubt, `info` - also when it is still open at the end. Values are globally unique and carry a checksum.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .events import Coordination


@dataclass(slots=True)
class Send:
    """One record sent to one partition."""

    number: int
    producer: str
    """The producer session: one producer id. Order is promised within it."""
    tp: str
    value: bytes | None
    """None for a tombstone; everything else is unique."""
    key: bytes | None
    t_begin: float
    idempotent: bool = True
    timestamp_ms: int = -1
    outcome: str = "info"
    offset: int = -1
    t_end: float = -1.0
    error: str = ""
    incarnation: int = 0
    """How many lossy power losses (page-cache mode) had happened when the try that was acknowledged was sent. Not when
    the acknowledgement came: it may have been on its way while the power failed."""
    txn: int = -1
    """The number of the transaction it belongs to."""


@dataclass(slots=True)
class Row:
    """One record as a reader saw it."""

    offset: int
    key: bytes | None
    value: bytes | None


@dataclass(slots=True)
class Poll:
    """One answer to one consumer that was assigned its partition."""

    consumer: str
    session: int
    tp: str
    position: int
    rows: list[Row]
    t_end: float
    incarnation: int = 0
    next_position: int = -1
    committed_only: bool = False


@dataclass(slots=True)
class Marks:
    """Offsets that a broker told somebody about a partition."""

    tp: str
    t_begin: float
    t_end: float
    start_offset: int = -1
    high_watermark: int = -1
    last_stable_offset: int = -1
    leader_epoch: int = -1
    incarnation: int = 0


@dataclass(slots=True)
class DeleteRecords:
    tp: str
    offset: int
    t_begin: float
    outcome: str = "info"
    low_watermark: int = -1
    t_end: float = -1.0
    incarnation: int = 0


@dataclass(slots=True)
class TopicChange:
    """A topic created or deleted."""

    name: str
    change: str
    t_begin: float
    outcome: str = "info"
    t_end: float = -1.0
    error: str = ""


@dataclass(slots=True)
class Dump:
    """Everything a partition serves at the end."""

    tp: str
    start_offset: int
    high_watermark: int
    rows: list[Row]


@dataclass(slots=True)
class Partition:
    """What is promised about a partition, as its topic is configured."""

    tp: str
    compact: bool = False
    retention: bool = False
    """True when retention may delete acknowledged records."""
    tombstones_go: bool = False
    lossy: bool = False
    """True in page-cache mode once power was lost: acknowledged records may be gone, the rest still holds."""
    rotten: bool = False
    """True once a bit of its data flipped on the platter: only the other partitions' promises hold."""
    transactional: bool = False
    """True when end markers take offsets, which readers do not see."""


@dataclass(slots=True)
class History:
    now: Callable[[], float]
    partitions: dict[str, Partition] = field(default_factory=dict)
    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)
    marks: list[Marks] = field(default_factory=list)
    deletes: list[DeleteRecords] = field(default_factory=list)
    topics: list[TopicChange] = field(default_factory=list)
    dumps: dict[str, Dump] = field(default_factory=dict)
    committed_dumps: dict[str, Dump] = field(default_factory=dict)
    """The same under read_committed, where somebody asked."""
    coordination: Coordination = field(default_factory=Coordination)
    faults: list[tuple[float, str]] = field(default_factory=list)
    incarnation: int = 0
    power_was_lost: bool = False
    problems: list[tuple[str, str]] = field(default_factory=list)
    """What a client found wrong on the spot: (kind, detail)."""

    def send(
        self,
        producer: str,
        tp: str,
        value: bytes | None,
        key: bytes | None,
        *,
        idempotent: bool = True,
        timestamp_ms: int = -1,
    ) -> Send:
        send = Send(len(self.sends), producer, tp, value, key, self.now(), idempotent, timestamp_ms)
        self.sends.append(send)
        return send

    def sent(self, send: Send, offset: int, incarnation: int | None = None) -> None:
        send.outcome, send.offset, send.t_end = "ok", offset, self.now()
        send.incarnation = self.incarnation if incarnation is None else incarnation

    def failed(self, send: Send, error: str) -> None:
        send.outcome, send.error, send.t_end = "fail", error, self.now()

    def fault(self, what: str) -> None:
        self.faults.append((self.now(), what))

    def problem(self, kind: str, detail: str) -> None:
        self.problems.append((kind, f"at {self.now():.6f} s: {detail}"))

    def set_rotten_aside(self) -> None:
        """Leave out of the judgement what happened to partitions whose data rotted."""
        rotten = {tp for tp, promise in self.partitions.items() if promise.rotten}
        self.sends = [send for send in self.sends if send.tp not in rotten]
        self.polls = [poll for poll in self.polls if poll.tp not in rotten]
        self.marks = [marks for marks in self.marks if marks.tp not in rotten]
        self.dumps = {tp: dump for tp, dump in self.dumps.items() if tp not in rotten}

    def acked(self) -> int:
        return sum(send.outcome == "ok" for send in self.sends)

    def to_json_lines(self) -> str:
        """The history in the form of the reliability notes, one event a line, in order of time."""
        events: list[tuple[float, dict[str, Any]]] = []
        for send in self.sends:
            begin = {"k": "inv", "id": send.number, "f": "send", "tp": send.tp, "p": send.producer, "txn": send.txn}
            events.append((send.t_begin, begin | {"v": label(send.value), "idem": send.idempotent}))
            if send.outcome != "info":
                end = {"k": send.outcome, "id": send.number, "off": send.offset, "err": send.error}
                events.append((send.t_end, end))
        for poll in self.polls:
            rows = [[row.offset, label(row.value)] for row in poll.rows]
            event: dict[str, Any] = {"k": "ok", "c": poll.consumer, "sess": poll.session, "r": {poll.tp: rows}}
            events.append((poll.t_end, event | {"iso": "rc" if poll.committed_only else "ru"}))
        for marks in self.marks:
            event = {"k": "ev", "f": "wm", "tp": marks.tp, "hw": marks.high_watermark, "start": marks.start_offset}
            events.append((marks.t_end, event | {"lso": marks.last_stable_offset}))
        for delete in self.deletes:
            event = {"k": delete.outcome, "f": "delete-records", "tp": delete.tp, "off": delete.offset}
            events.append((max(delete.t_begin, delete.t_end), event | {"low": delete.low_watermark}))
        events += [(at, {"k": "ev", "f": "fault", "n": what}) for at, what in self.faults]
        events += self.coordination.to_events()
        for dump in self.dumps.values():
            rows = [[row.offset, label(row.value)] for row in dump.rows]
            events.append((self.now(), {"k": "ev", "f": "dump", "tp": dump.tp, "start": dump.start_offset, "r": rows}))
        events.sort(key=lambda event: event[0])
        return "\n".join(json.dumps({"t": round(at * 1e6), **event}) for at, event in events)


def make_value(producer: str, number: int, padding_bytes: int) -> bytes:
    """A unique value that knows whether it is intact: name, number, padding, checksum."""
    body = f"{producer}:{number}:".encode() + b"." * padding_bytes
    return body + b":%08x" % zlib.crc32(body)


def is_intact(value: bytes) -> bool:
    body, _separator, checksum = value.rpartition(b":")
    return checksum == b"%08x" % zlib.crc32(body)


def label(value: bytes | None) -> str | None:
    """A value without its padding, for people."""
    if value is None:
        return None
    return value.decode("ascii", "replace").replace("....", "")
