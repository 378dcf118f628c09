"""Streams: where they begin, how much they take at a time, and what they make of changes while they run or rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.interop.spark.differential.batch import COMMITTED, PATIENCE, UNCOMMITTED, spots
from tests.interop.spark.differential.engine import Change, Hand, Scenario, Step, rows
from tests.interop.spark.differential.world import T0

END_SECONDS_MAX = 120
EARLIEST: dict[str, Any] = {"startingOffsets": "earliest"}
WAITS = {"fetchOffset.retryIntervalMs": "50"}
ONCE: dict[str, Any] = {"availableNow": True}
AGAIN: dict[str, Any] = {"processingTime": "100 milliseconds"}
Frame = Callable[[Hand, Any], Any]


def opened(options: Mapping[str, Any]) -> Step:
    def see(hand: Hand) -> None:
        wanted = hand.options({**EARLIEST, **PATIENCE, **WAITS, **options})
        hand.frames["t"] = hand.spark.readStream.format(hand.format).options(**wanted).load()

    return Step(see, "load")


def started(hand: Hand, trigger: Mapping[str, Any], make: Frame, mode: str) -> None:
    """The batches of one side are kept in the order they came."""
    hand.batches = []

    def keep(batch: Any, _: int) -> None:
        hand.batches.append(rows(batch.collect()))

    writer = make(hand, hand.frames["t"]).writeStream.foreachBatch(keep).outputMode(mode).trigger(**trigger)
    hand.query = writer.option("checkpointLocation", str(hand.folder / "state")).start()


def every_row(_: Hand, frame: Any) -> Any:
    return frame.select("topic", "partition", "offset", "value")


def taken(hand: Hand) -> Any:
    """All rows since it was asked last, and how they came: batches without rows are nobody's business."""
    found, hand.batches = [batch for batch in hand.batches if batch], []
    return [len(batch) for batch in found], rows(row for batch in found for row in batch)


def ended(trigger: Mapping[str, Any] = ONCE, make: Frame = every_row, mode: str = "append") -> Step:
    """Run to the end of what is there."""

    def see(hand: Hand) -> Any:
        started(hand, trigger, make, mode)
        assert hand.query.awaitTermination(END_SECONDS_MAX), "the query did not end"
        hand.query = None
        return taken(hand)

    return Step(see, "run")


def running(make: Frame = every_row, mode: str = "append") -> Step:
    """Start a query that goes on, and see what it finds at once."""

    def see(hand: Hand) -> Any:
        started(hand, AGAIN, make, mode)
        hand.query.processAllAvailable()
        return taken(hand)

    return Step(see, "run")


def next_rows() -> Step:
    """What a running query makes of the last change. How it cuts it into batches is a matter of chance."""

    def see(hand: Hand) -> Any:
        hand.query.processAllAvailable()
        return taken(hand)[1]

    return Step(see, "run")


def once(options: Mapping[str, Any], **how: Any) -> tuple[Step, Step]:
    return opened(options), ended(**how)


def of_shared(name: str, options: Mapping[str, Any], says: tuple[str, ...] = (), **how: Any) -> Scenario:
    return Scenario(f"stream/{name}", once(options, **how), says)


def scenarios() -> Iterator[Scenario]:
    yield from starts()
    yield from limits()
    yield from kinds_of_topics()
    yield from restarts()
    yield from losses()
    yield from transformed()


# -- from the beginning ------------------------------------------------------------------------------------------------


def starts() -> Iterator[Scenario]:
    places: dict[str, dict[str, Any]] = {
        "earliest": EARLIEST,
        "offsets": {"startingOffsets": spots(3, 0, 10)},
        "earliest-2": {"startingOffsets": spots(-2, 5, -2)},
        "latest-1": {"startingOffsets": spots(-1, 5, 0)},
        "some-partitions": {"startingOffsets": spots(1, 1)},
        "beyond-end": {"startingOffsets": spots(11, 0, 0)},
        "beyond-end-lossy": {"startingOffsets": spots(11, 0, 0), "failOnDataLoss": "false"},
        "time": {"startingTimestamp": T0 + 3000},
        "time-after": {"startingTimestamp": T0 + 60_000},
        "time-after-latest": {"startingTimestamp": T0 + 60_000, "startingOffsetsByTimestampStrategy": "latest"},
        "times": {"startingOffsetsByTimestamp": spots(T0, T0 + 3000, T0 + 3500)},
    }
    for name, options in places.items():
        yield of_shared(f"start/{name}", {"subscribe": "plain", **options})
    for name, options in {
        "two-topics": {"subscribe": "plain,second"},
        "pattern": {"subscribePattern": "^pat-.*"},
        "assign": {"assign": json.dumps({"plain": [0, 2]})},
        "headers": {"subscribe": "headers", "includeHeaders": "true"},
    }.items():
        yield of_shared(f"start/{name}", options)
    made = (Change(lambda w: w.create("a", 2)), Change(lambda w: w.send("a", 5)))
    more = Change(lambda w: w.send("a", 5, 9, partition=1))
    for name, start in {"latest": "latest", "default": None, "latest-1": '{"<a>":{"0":-1,"1":-1}}'}.items():
        options = {"subscribe": "<a>", "startingOffsets": start}
        yield Scenario(f"stream/start/{name}-then-more", (*made, *once(options), more, *once(options)))
        yield Scenario(f"stream/start/{name}-running", (*made, opened(options), running(), more, next_rows()))


def limits() -> Iterator[Scenario]:
    numbers = {"plain": ("4", "7", "100"), "half": ("2",), "trimmed": ("9",), "compacted": ("7",)}
    for topic, number in ((topic, number) for topic, each in numbers.items() for number in each):
        yield of_shared(f"max/{topic}/{number}", {"subscribe": topic, "maxOffsetsPerTrigger": number})
    txn = {"subscribe": "txn", "maxOffsetsPerTrigger": "8"}
    yield of_shared("max/txn/committed", {**txn, **COMMITTED})
    yield of_shared("max/txn/uncommitted", {**txn, **UNCOMMITTED})
    # The delay counts only where something is left that is too little: then it must not pass by chance.
    for least, most in (("5", None), ("100", None), ("5", "10"), ("100", "200"), ("10", "5")):
        options = {"minOffsetsPerTrigger": least, "maxOffsetsPerTrigger": most, "maxTriggerDelay": "1h"}
        yield of_shared(f"min/{least}-{most}", {"subscribe": "plain", **options})
    yield of_shared("max/once", {"subscribe": "plain", "maxOffsetsPerTrigger": "4"}, trigger={"once": True})
    yield of_shared("once", {"subscribe": "plain"}, trigger={"once": True})
    for number in ("1", "7"):
        yield of_shared(f"minPartitions/{number}", {"subscribe": "plain", "minPartitions": number})
    yield of_shared("maxRecords/3", {"subscribe": "plain", "maxRecordsPerPartition": "3"})
    far = {"nearRecordsMax": "0"}
    yield of_shared("far/plain", {"subscribe": "plain", **far})
    yield of_shared("far/max", {"subscribe": "plain", "maxOffsetsPerTrigger": "7", **far})


def kinds_of_topics() -> Iterator[Scenario]:
    kinds = ("empty", "nulls", "stamped", "late", "odd", "big", "gone", "codecs", "compacted")
    for topic in kinds:
        yield of_shared(f"topic/{topic}", {"subscribe": topic})
    for topic in ("txn", "aborted", "undecided"):
        for level, options in (("default", {}), ("committed", COMMITTED), ("uncommitted", UNCOMMITTED)):
            yield of_shared(f"isolation/{topic}/{level}", {"subscribe": topic, **options})


# -- from run to run ---------------------------------------------------------------------------------------------------


def restarts() -> Iterator[Scenario]:
    a = {"subscribe": "<a>"}
    made = (Change(lambda w: w.create("a", 2)), Change(lambda w: w.send("a", 5)))
    more = Change(lambda w: w.send("a", 5, 9, partition=1))
    grown = (Change(lambda w: w.grow("a", 3)), Change(lambda w: w.send("a", 20, 22, partition=2)))
    second = (Change(lambda w: w.create("b")), Change(lambda w: w.send("b", 3)))
    both = {"subscribe": "<a>,<b>"}
    pattern = {"subscribePattern": "^<a>.*"}
    new_topic = (Change(lambda w: w.create("a2")), Change(lambda w: w.send("a2", 3)))
    few = {"maxOffsetsPerTrigger": "2"}
    changes: dict[str, tuple[Mapping[str, Any], tuple[Change, ...], Mapping[str, Any]]] = {
        "nothing-new": (a, (), a),
        "more": (a, (more,), a),
        "grown": (a, grown, a),
        "grown-and-more": (a, (*grown, more), a),
        "grown-few": ({**a, **few}, grown, {**a, **few}),
        "topic-added": (a, second, both),
        "limit-added": (a, (more,), {**a, **few}),
        "limit-removed": ({**a, **few}, (more,), a),
        "start-changed": (a, (more,), {**a, "startingOffsets": "latest"}),
        "start-changed-to-offsets": (a, (more,), {**a, "startingOffsets": '{"<a>":{"0":0,"1":0}}'}),
        "loss-changed": (a, (more,), {**a, "failOnDataLoss": "false"}),
        "to-pattern": (a, (more,), pattern),
        "pattern-new-topic": (pattern, new_topic, pattern),
        "pattern-grown": (pattern, grown, pattern),
        "assign-more": ({"assign": '{"<a>":[0]}'}, (more,), {"assign": '{"<a>":[0,1]}'}),
        "far": ({**a, "nearRecordsMax": "0"}, (more,), {**a, "nearRecordsMax": "0"}),
        "committed": ({**a, **COMMITTED}, (more,), {**a, **COMMITTED}),
        "to-committed": ({**a, **UNCOMMITTED}, (more,), {**a, **COMMITTED}),
    }
    for name, (first, between, then) in changes.items():
        yield Scenario(f"stream/restart/{name}", (*made, *once(first), *between, *once(then)))
    dropped = (*made, *second, *once(both), more, *once(a))
    yield Scenario("stream/restart/topic-left-out", dropped)
    yield Scenario("stream/restart/three-runs", (*made, *once(a), more, *once(a), *grown, *once(a), *once(a)))
    open_one = (
        Change(lambda w: w.create("a")),
        Change(lambda w: w.transaction("a", 4, end="commit")),
        Change(lambda w: w.transaction("a", 4, 8, end="open")),
    )
    finish = Change(lambda w: w.finish("a"))
    for level, options in (("committed", COMMITTED), ("uncommitted", UNCOMMITTED)):
        wanted = {**a, **options}
        yield Scenario(f"stream/restart/transaction/{level}", (*open_one, *once(wanted), finish, *once(wanted)))
        steps = (*open_one, opened(wanted), running(), finish, next_rows())
        yield Scenario(f"stream/running/transaction/{level}", steps)


def losses() -> Iterator[Scenario]:
    made = (Change(lambda w: w.create("a", 2)), Change(lambda w: w.send("a", 5)))
    trim_read = Change(lambda w: w.trim("a", 3))
    more = Change(lambda w: w.send("a", 5, 9))
    trim_unread = Change(lambda w: w.trim("a", 7))
    trim_all = Change(lambda w: w.trim("a", 9))
    delete = Change(lambda w: w.delete("a"))
    create = Change(lambda w: w.create("a", 2))
    refill = Change(lambda w: w.send("a", 50, 53))
    refill_more = Change(lambda w: w.send("a", 50, 60))
    two = (*made, Change(lambda w: w.create("b")), Change(lambda w: w.send("b", 3)))
    both = {"subscribe": "<a>,<b>"}
    pattern = {"subscribePattern": "^<a>|^<b>"}
    stories: dict[str, tuple[Change, ...]] = {
        "trimmed-behind": (more, trim_read),
        "trimmed-unread": (more, trim_unread),
        "trimmed-all": (more, trim_all),
        "trimmed-all-then-more": (more, trim_all, Change(lambda w: w.send("a", 9, 12))),
        "deleted": (delete,),
        "created-again-empty": (delete, create),
        "created-again-shorter": (delete, create, refill),
        "created-again-longer": (delete, create, refill_more),
    }
    for lossy in ("true", "false"):
        a = {"subscribe": "<a>", "failOnDataLoss": lossy}
        for name, changes in stories.items():
            yield Scenario(f"stream/loss/{name}/fail-{lossy}", (*made, *once(a), *changes, *once(a)))
        wanted = {**both, "failOnDataLoss": lossy}
        yield Scenario(f"stream/loss/one-of-two-deleted/fail-{lossy}", (*two, *once(wanted), delete, *once(wanted)))
        wanted = {**pattern, "failOnDataLoss": lossy}
        yield Scenario(f"stream/loss/pattern-deleted/fail-{lossy}", (*two, *once(wanted), delete, *once(wanted)))
        running_steps = (*made, opened(a), running(), delete, next_rows())
        yield Scenario(f"stream/loss/deleted-running/fail-{lossy}", running_steps)
        few = {**a, "maxOffsetsPerTrigger": "1"}
        yield Scenario(f"stream/loss/trimmed-unread-few/fail-{lossy}", (*made, *once(a), more, trim_unread, *once(few)))


# -- what Spark makes of it --------------------------------------------------------------------------------------------


def transformed() -> Iterator[Scenario]:
    uses: dict[str, tuple[Frame, str]] = {
        "where": (lambda _, t: t.where("partition = 1").select("value"), "append"),
        "one-column": (lambda _, t: t.select("offset"), "append"),
        "count-complete": (lambda _, t: t.groupBy("partition").count(), "complete"),
        "count-update": (lambda _, t: t.groupBy("partition").count(), "update"),
        "distinct": (lambda _, t: t.select("key").dropDuplicates(["key"]), "append"),
    }
    for name, (make, mode) in uses.items():
        yield of_shared(f"query/{name}", {"subscribe": "plain"}, make=make, mode=mode)
        if mode == "append":
            options = {"subscribe": "plain", "maxOffsetsPerTrigger": "12"}
            yield of_shared(f"query/{name}-few", options, make=make, mode=mode)
