"""The topics that scenarios read. Shared ones are written once and never changed; changing ones get fresh names."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.interop.spark import clients

BROKER = {"log.cleaner.backoff.ms": "200", "log.retention.ms": "-1"}
"""The timestamps below are years old, and must not be retention's business."""
T0 = 1_700_000_000_000
COMPACTED_SECONDS_MAX = 60.0


@dataclass
class World:
    bootstrap: str
    number: int = 0
    """Of the scenario at hand: its own topics share it, so that one pattern may find several of them."""
    open: dict[str, Any] = field(default_factory=dict)
    """Transactions that a scenario has not ended yet."""

    def begin(self) -> None:
        """A new scenario: its own topics have new names."""
        self.number += 1

    def own(self, short: str) -> str:
        """The topic that the steps of a scenario know by this short name."""
        return f"own-{self.number}-{short}"

    # -- changes ---------------------------------------------------------------------------------------------------

    def create(self, short: str, partitions: int = 1, **config: str) -> None:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        clients.create(self.bootstrap, self.own(short), partitions, settings)

    def send(self, short: str, *bounds: int, partition: int = 0) -> None:
        """Values are the numbers of a range, so that a missing or repeated one is seen."""
        records = [{"value": b"%d" % n, "partition": partition, "timestamp": T0 + n * 1000} for n in range(*bounds)]
        clients.send(self.bootstrap, self.own(short), records)

    def transaction(self, short: str, *bounds: int, end: str) -> None:
        """`end`: commit, abort, or open until `finish`."""
        topic = self.own(short)
        name = f"{topic}-{bounds[0]}"
        producer = clients.transaction(self.bootstrap, name, topic, (b"%d" % n for n in range(*bounds)))
        if end == "open":
            self.open[topic] = producer
        elif end == "commit":
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)

    def finish(self, short: str) -> None:
        self.open.pop(self.own(short)).commit_transaction(30)

    def grow(self, short: str, partitions: int) -> None:
        clients.grow(self.bootstrap, self.own(short), partitions)

    def trim(self, short: str, before: int, partition: int = 0) -> None:
        clients.trim(self.bootstrap, self.own(short), partition, before)

    def delete(self, short: str) -> None:
        clients.delete(self.bootstrap, self.own(short))


# -- the shared topics -------------------------------------------------------------------------------------------------


def build(bootstrap: str) -> World:
    for topic, partitions, config, records in SHARED:
        clients.create(bootstrap, topic, partitions, config)
        clients.send(bootstrap, topic, records)
    _compress(bootstrap)
    _trim(bootstrap)
    _transact(bootstrap)
    _compact(bootstrap)
    return World(bootstrap)


def _plain(partitions: int = 3, each: int = 10) -> list[dict[str, Any]]:
    return [
        {"key": b"k%d" % n, "value": b"%d" % (p * each + n), "partition": p, "timestamp": T0 + n * 1000 + p}
        for p in range(partitions)
        for n in range(each)
    ]


_HEADERS: list[Any] = [
    None,
    [("a", b"1")],
    [("a", b"1"), ("a", b"2")],
    [("none", None)],
    [("", b"")],
    [("k\u00e4", b"\x00\xff")],
]
_TEXTS = [None, b"", b"x", "gr\u00fc\u00df".encode(), b"\x00\xff\xfe", b'{"a": 1}']
_LATE = [T0 + shift for shift in (0, 5000, 1000, 9000, 2000, 2000, 8000)]
_ODD = [0, 1, 253_402_300_799_999, T0]

SHARED: list[tuple[str, int, Mapping[str, str], list[dict[str, Any]]]] = [
    ("plain", 3, {}, _plain()),
    ("second", 2, {}, _plain(2, 5)),
    ("one", 1, {}, _plain(1, 100)),
    ("empty", 2, {}, []),
    ("half", 2, {}, _plain(1, 5)),
    ("nulls", 1, {}, [{"key": key, "value": value, "timestamp": T0} for key in _TEXTS for value in _TEXTS]),
    ("headers", 1, {}, [{"value": b"%d" % n, "headers": h, "timestamp": T0} for n, h in enumerate(_HEADERS)]),
    ("stamped", 1, {"message.timestamp.type": "LogAppendTime"}, _plain(1, 5)),
    ("late", 1, {}, [{"value": b"%d" % n, "timestamp": moment} for n, moment in enumerate(_LATE)]),
    ("odd", 1, {}, [{"value": b"%d" % n, "timestamp": moment} for n, moment in enumerate(_ODD)]),
    ("big", 1, {}, [{"value": bytes([65 + n]) * 100_000, "timestamp": T0} for n in range(5)]),
    ("pat-a", 1, {}, _plain(1, 3)),
    ("pat-b", 1, {}, _plain(1, 4)),
    ("pat.c", 1, {}, _plain(1, 5)),
    ("xpat-a", 1, {}, _plain(1, 6)),
]
CODECS = ("gzip", "snappy", "lz4", "zstd")


def _compress(bootstrap: str) -> None:
    for codec in CODECS:
        clients.create(bootstrap, codec, 1)
        clients.send(bootstrap, codec, _plain(1, 50), **{"compression.type": codec})
    clients.create(bootstrap, "codecs", 1)
    for number, codec in enumerate(("none", *CODECS)):
        rows = [{"value": b"%d" % n, "timestamp": T0 + n} for n in range(number * 10, number * 10 + 10)]
        clients.send(bootstrap, "codecs", rows, **{"compression.type": codec})


def _trim(bootstrap: str) -> None:
    clients.create(bootstrap, "trimmed", 2)
    clients.send(bootstrap, "trimmed", _plain(2, 20))
    clients.trim(bootstrap, "trimmed", 0, 8)
    clients.create(bootstrap, "gone", 1)
    clients.send(bootstrap, "gone", _plain(1, 10))
    clients.trim(bootstrap, "gone", 0, 10)


def _transact(bootstrap: str) -> None:
    """`txn`: committed, aborted, committed. `aborted`: ends in what nobody sees. `undecided`: ends in an open one."""
    for topic, ends in {"txn": "cac", "aborted": "ca", "undecided": "co"}.items():
        clients.create(bootstrap, topic, 1)
        for turn, end in enumerate(ends):
            values = [b"%d" % n for n in range(turn * 10, turn * 10 + 10)]
            producer = clients.transaction(bootstrap, f"{topic}-{turn}", topic, values, T0)
            if end == "c":
                producer.commit_transaction(30)
            elif end == "a":
                producer.abort_transaction(30)
            else:
                _OPEN.append(producer)


_OPEN: list[Any] = []
"""A producer that is collected would close its transaction's connection."""


def _compact(bootstrap: str) -> None:
    settings = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.ms": "1000",
    }
    clients.create(bootstrap, "compacted", 1, settings)
    for turn in range(3):
        records = [
            {
                "key": b"k%d" % n,
                "value": None if (turn, n) == (1, 3) else b"%d" % (turn * 10 + n),
                "timestamp": T0 + turn * 60_000 + n,  # a turn is longer than segment.ms, so it begins a new segment
            }
            for n in range(turn, 10)
        ]
        clients.send(bootstrap, "compacted", records)
    clients.send(bootstrap, "compacted", [{"key": b"last", "value": b"last", "timestamp": T0 + 600_000}])
    deadline = time.monotonic() + COMPACTED_SECONDS_MAX
    while len(clients.read_all(bootstrap, "compacted")) > 20:
        assert time.monotonic() < deadline, "the topic `compacted` was not compacted"
        time.sleep(0.2)
