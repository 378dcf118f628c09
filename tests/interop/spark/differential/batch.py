"""Batch reads: every way to say where, of every kind of topic."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from moldau.spark.current import current
from tests.interop.spark.differential.engine import Hand, Scenario, Step, rows
from tests.interop.spark.differential.world import CODECS, T0

COMMITTED = {"kafka.isolation.level": "read_committed"}
UNCOMMITTED = {"kafka.isolation.level": "read_uncommitted"}
PATIENCE = {"kafkaConsumer.pollTimeoutMs": "3000"}
"""How long the connector waits for a record that is not there; two minutes unless told."""
EVERYTHING = "SELECT * FROM {t}"


def load(options: Mapping[str, Any], name: str = "t", *, fresh: bool = False) -> Step:
    """`fresh`: our frame as one that looks up its ends for every query, as the connector's does by itself."""

    def see(hand: Hand) -> None:
        frame = hand.spark.read.format(hand.format).options(**hand.options({**PATIENCE, **options})).load()
        if fresh and hand.ours:
            frame = current(frame)
        frame.createOrReplaceTempView(f"{name}_{hand.format}")
        hand.frames[name] = frame

    return Step(see, "load")


def sql(text: str) -> Step:
    """`{t}` is the view of the frame `t` of the side that asks."""

    def see(hand: Hand) -> list[Any]:
        views = {name: f"{name}_{hand.format}" for name in hand.frames}
        return rows(hand.spark.sql(text.format(**views)).collect())

    return Step(see)


def act(use: Callable[[Any], Any]) -> Step:
    """What a program does with the frame `t`."""

    def see(hand: Hand) -> Any:
        found = use(hand.frames["t"])
        return rows(found) if isinstance(found, list) else found

    return Step(see)


def read(name: str, options: Mapping[str, Any], query: str = EVERYTHING, says: tuple[str, ...] = ()) -> Scenario:
    return Scenario(f"batch/{name}", (load(options), sql(query)), says)


def spots(*numbers: Any, topic: str = "plain") -> str:
    return json.dumps({topic: {str(partition): number for partition, number in enumerate(numbers)}})


def scenarios() -> Iterator[Scenario]:
    yield from starts_and_ends()
    yield from times()
    yield from subscriptions()
    yield from kinds_of_topics()
    yield from isolation()
    yield from shares()


# -- where -------------------------------------------------------------------------------------------------------------


def starts_and_ends() -> Iterator[Scenario]:
    starts = {
        "none": None,
        "earliest": "earliest",
        "offsets": spots(3, 0, 10),
        "earliest-2": spots(-2, 5, -2),
    }
    ends = {"latest": "latest", "offsets": spots(7, 10, 10), "latest-1": spots(-1, 9, -1)}
    for (start, starting), (end, ending) in itertools.product(starts.items(), ends.items()):
        options = {"subscribe": "plain", "startingOffsets": starting, "endingOffsets": ending}
        yield read(f"from-{start}/to-{end}", options)
    odd_starts = {
        "EARLIEST": "EARLIEST",
        "latest": "latest",
        "latest-1": spots(-1, 0, 0),
        "below-2": spots(-3, 0, 0),
        "some-partitions": spots(1, 1),
        "more-partitions": spots(1, 1, 1, 1),
        "other-topic": spots(1, 1, topic="second"),
        "at-end": spots(10, 10, 10),
        "beyond-end": spots(11, 0, 0),
        "not-json": "{plain",
        "word": "middle",
        "empty": "",
        "minutes-ago": "-10m",
        "last-five": "-5",
        "after-five": "+5",
        "number": "5",
        "iso-time": "2023-11-14T22:13:25Z",
        "fraction": spots(1.5, 0, 0),
        "null": spots(None, 0, 0),
        "texts": spots("3", "0", "10"),
    }
    for name, text in odd_starts.items():
        yield read(f"start/{name}", {"subscribe": "plain", "startingOffsets": text}, says=("start",))
    odd_ends = {
        "LATEST": "LATEST",
        "earliest": "earliest",
        "earliest-2": spots(-2, 5, 5),
        "some-partitions": spots(5, 5),
        "at-start": spots(0, 0, 0),
        "beyond-end": spots(12, 10, 10),
        "not-json": "{plain",
        "word": "middle",
    }
    for name, text in odd_ends.items():
        yield read(f"end/{name}", {"subscribe": "plain", "endingOffsets": text})
    lossless = {"subscribe": "plain", "failOnDataLoss": "false"}
    yield read("end/beyond-end-lossy", {**lossless, "endingOffsets": spots(12, 10, 10)})
    yield read("start/beyond-end-lossy", {**lossless, "startingOffsets": spots(11, 0, 0)})
    crossed = {"subscribe": "plain", "startingOffsets": spots(5, 5, 5), "endingOffsets": spots(3, 5, 5)}
    yield read("start/after-end", crossed)
    for lossy in ("true", "false"):
        options = {"subscribe": "trimmed", "failOnDataLoss": lossy}
        yield read(f"trimmed/from-0/lossy-{lossy}", {**options, "startingOffsets": spots(0, 0, topic="trimmed")})
        yield read(f"trimmed/from-8/lossy-{lossy}", {**options, "startingOffsets": spots(8, 0, topic="trimmed")})
        both = {"startingOffsets": spots(2, 0, topic="trimmed"), "endingOffsets": spots(5, 5, topic="trimmed")}
        yield read(f"trimmed/gone-range/lossy-{lossy}", {**options, **both})
        yield read(f"trimmed/to-5/lossy-{lossy}", {**options, "endingOffsets": spots(5, 5, topic="trimmed")})


def times() -> Iterator[Scenario]:
    moments = {"before": T0 - 5000, "exact": T0 + 3000, "between": T0 + 3500, "after": T0 + 60_000}
    for strategy in (None, "latest"):
        for name, moment in moments.items():
            options = {"startingTimestamp": moment, "startingOffsetsByTimestampStrategy": strategy}
            yield read(f"time/start-{name}/strategy-{strategy}", {"subscribe": "plain", **options})
    for name, moment in moments.items():
        yield read(f"time/end-{name}", {"subscribe": "plain", "endingTimestamp": moment})
        each = spots(moment, moment, moment)
        yield read(f"times/end-{name}", {"subscribe": "plain", "endingOffsetsByTimestamp": each})
    for (first, start), (last, end) in itertools.product(list(moments.items())[:3], moments.items()):
        if start <= end:
            both = {"startingTimestamp": start, "endingTimestamp": end}
            yield read(f"time/{first}-to-{last}", {"subscribe": "plain", **both})
    mixed = spots(T0, T0 + 3000, T0 + 3500)
    yield read("times/mixed", {"subscribe": "plain", "startingOffsetsByTimestamp": mixed})
    some = spots(T0, T0)
    yield read("times/some-partitions", {"subscribe": "plain", "startingOffsetsByTimestamp": some})
    late = spots(T0, T0 + 60_000, T0)
    for strategy in ("error", "latest"):
        options = {"startingOffsetsByTimestamp": late, "startingOffsetsByTimestampStrategy": strategy}
        yield read(f"times/one-after/strategy-{strategy}", {"subscribe": "plain", **options})
    together = {"startingOffsets": spots(9, 9, 9), "startingOffsetsByTimestamp": mixed}
    yield read("times/beat-offsets", {"subscribe": "plain", **together})
    yield read("times/one-time-beats-all", {"subscribe": "plain", **together, "startingTimestamp": T0 + 8000})
    yield read("time/not-a-number", {"subscribe": "plain", "startingTimestamp": "yesterday"})
    yield read("time/negative", {"subscribe": "plain", "startingTimestamp": "-5"})
    yield read("time/strategy-word", {"subscribe": "plain", "startingOffsetsByTimestampStrategy": "maybe"})
    crossed = {"startingTimestamp": T0 + 8000, "endingTimestamp": T0 + 2000}
    yield read("time/crossed", {"subscribe": "plain", **crossed})
    yield read("time/of-an-empty-topic", {"subscribe": "empty", "startingTimestamp": T0})
    latest = {"startingOffsetsByTimestampStrategy": "latest"}
    yield read("time/of-an-empty-topic/latest", {"subscribe": "empty", "startingTimestamp": T0, **latest})
    for moment in (T0 + 1500, T0 + 5000, T0 + 9000):
        yield read(f"time/late-from-{moment - T0}", {"subscribe": "late", "startingTimestamp": moment})
        yield read(f"time/late-to-{moment - T0}", {"subscribe": "late", "endingTimestamp": moment})


# -- which topics ------------------------------------------------------------------------------------------------------


def subscriptions() -> Iterator[Scenario]:
    for name, text in {
        "two": "plain,second",
        "spaces": " plain , second ",
        "twice": "plain,plain",
        "comma-behind": "plain,",
        "with-empty": "plain,empty",
    }.items():
        yield read(f"subscribe/{name}", {"subscribe": text})
    for pattern in (
        "pat-.*",
        "pat-a",
        "pat",
        "^pat-a$",
        "^pat",
        "a$",
        "pat.c",
        r"pat\.c",
        "pat-(a|b)",
        "x?pat-a",
        "(?i)PAT-A",
        "PAT-A",
        "pat-[ab]",
        "pat-a|pat-b",
        "nothing-like-it",
        ".*-a",
    ):
        yield read(f"pattern/{pattern}", {"subscribePattern": pattern})
    for name, given in {
        "one": {"plain": [1]},
        "two": {"plain": [0, 2]},
        "twice": {"plain": [1, 1]},
        "topics": {"plain": [0], "second": [1]},
        "empty-topic": {"empty": [0]},
        "unread-partition": {"half": [1]},
    }.items():
        yield read(f"assign/{name}", {"assign": json.dumps(given)})
    some = {"assign": json.dumps({"plain": [1]}), "startingOffsets": json.dumps({"plain": {"1": 4}})}
    yield read("assign/offsets", some)
    until = json.dumps({"plain": {"1": 6}})
    yield read("assign/offsets-of-it", {**some, "endingOffsets": until})
    more = json.dumps({"plain": {"0": 1, "1": 4}})
    yield read("assign/offsets-of-others", {**some, "startingOffsets": more})
    yield read("assign/time", {"assign": json.dumps({"plain": [1]}), "startingTimestamp": T0 + 3000})


def kinds_of_topics() -> Iterator[Scenario]:
    kinds = ("one", "empty", "half", "nulls", "headers", "stamped", "late", "odd", "big", "trimmed", "gone")
    for topic in (*kinds, "compacted", "codecs", *CODECS):
        yield read(f"topic/{topic}", {"subscribe": topic})
    groups = "SELECT partition, count(*), min(offset), max(offset), count(key), count(value) FROM {t} GROUP BY 1"
    for topic in ("empty", "nulls", "trimmed", "gone", "compacted"):
        yield read(f"topic/{topic}/groups", {"subscribe": topic}, groups)
    for topic, word in (("headers", "true"), ("headers", "false"), ("headers", "TRUE"), ("plain", "true")):
        yield read(f"headers/{topic}/{word}", {"subscribe": topic, "includeHeaders": word})
    exploded = "SELECT offset, h.key, h.value FROM {t} LATERAL VIEW explode(headers) AS h"
    yield read("headers/exploded", {"subscribe": "headers", "includeHeaders": "true"}, exploded)
    none = "SELECT offset FROM {t} WHERE headers IS NULL"
    yield read("headers/where-null", {"subscribe": "headers", "includeHeaders": "true"}, none)


def isolation() -> Iterator[Scenario]:
    levels = {"default": {}, "committed": COMMITTED, "uncommitted": UNCOMMITTED}
    for topic, (level, options) in itertools.product(("txn", "aborted", "undecided"), levels.items()):
        yield read(f"isolation/{topic}/{level}", {"subscribe": topic, **options})
    for start, end in ((0, 11), (5, 15), (11, 22), (12, 20), (10, 11), (21, 33), (0, 33)):
        offsets = {"startingOffsets": spots(start, topic="txn"), "endingOffsets": spots(end, topic="txn")}
        for level, options in (("committed", COMMITTED), ("uncommitted", UNCOMMITTED)):
            yield read(f"isolation/txn/{level}/{start}-{end}", {"subscribe": "txn", **offsets, **options})
    split = {"subscribe": "txn", "minPartitions": "5"}
    yield read("isolation/txn/committed/split", {**split, **COMMITTED})
    yield read("isolation/txn/uncommitted/split", {**split, **UNCOMMITTED})


def shares() -> Iterator[Scenario]:
    for number in ("1", "2", "3", "7", "100"):
        yield read(f"share/minPartitions-{number}", {"subscribe": "plain", "minPartitions": number})
    yield read("share/minPartitions-7/compacted", {"subscribe": "compacted", "minPartitions": "7"})
    for number in ("1", "4", "1000"):
        yield read(f"share/maxRecords-{number}", {"subscribe": "plain", "maxRecordsPerPartition": number})
