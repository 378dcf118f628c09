"""What Spark does with a batch frame: queries, programs, and the same frame again after the topic changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.interop.spark.differential.batch import COMMITTED, UNCOMMITTED, act, load, read, sql
from tests.interop.spark.differential.engine import Change, Scenario, Step


def scenarios() -> Iterator[Scenario]:
    yield from queries()
    yield from programs()
    yield from repeated()


def queries() -> Iterator[Scenario]:
    asked = {
        "where-partition": "SELECT * FROM {t} WHERE partition = 1",
        "where-not": "SELECT * FROM {t} WHERE NOT partition = 1",
        "where-offset": "SELECT * FROM {t} WHERE offset >= 3 AND offset < 7",
        "where-or": "SELECT * FROM {t} WHERE partition = 0 OR offset = 9",
        "where-time": "SELECT * FROM {t} WHERE timestamp >= timestamp_millis(1700000003001)",
        "where-time-range": "SELECT * FROM {t} WHERE timestamp BETWEEN timestamp_millis(1700000002000) AND "
        "timestamp_millis(1700000005000)",
        "where-topic": "SELECT * FROM {t} WHERE topic = 'plain'",
        "where-other-topic": "SELECT * FROM {t} WHERE topic = 'second'",
        "where-key": "SELECT * FROM {t} WHERE CAST(key AS STRING) = 'k3'",
        "where-partition-null": "SELECT * FROM {t} WHERE partition IS NULL",
        "where-nothing": "SELECT * FROM {t} WHERE 1 = 0",
        "one-column": "SELECT offset FROM {t}",
        "count": "SELECT count(*) FROM {t}",
        "count-where": "SELECT count(*) FROM {t} WHERE partition = 2",
        "distinct": "SELECT DISTINCT key FROM {t}",
        "limit": "SELECT count(*) FROM (SELECT * FROM {t} LIMIT 7)",
        "limit-none": "SELECT * FROM {t} LIMIT 0",
        "order-limit": "SELECT * FROM {t} ORDER BY partition DESC, offset LIMIT 4",
        "union": "SELECT * FROM {t} WHERE partition = 0 UNION ALL SELECT * FROM {t} WHERE partition = 1",
        "union-self": "SELECT * FROM {t} UNION ALL SELECT * FROM {t}",
        "union-groups": "SELECT partition, count(*) FROM (SELECT * FROM {t} WHERE partition = 0 UNION ALL "
        "SELECT * FROM {t} WHERE partition = 1) GROUP BY 1",
        "except": "SELECT partition, offset FROM {t} EXCEPT SELECT partition, offset FROM {t} WHERE offset > 4",
        "intersect": "SELECT offset FROM {t} WHERE partition = 0 INTERSECT SELECT offset FROM {t} WHERE partition = 1",
        "join-self": "SELECT a.value, b.value FROM {t} a JOIN {t} b ON a.offset = b.offset AND a.partition = 0 "
        "AND b.partition = 1",
        "join-outer": "SELECT a.offset, b.offset FROM (SELECT * FROM {t} WHERE partition = 0) a FULL JOIN "
        "(SELECT * FROM {t} WHERE offset > 5) b ON a.key = b.key",
        "semi": "SELECT * FROM {t} a WHERE EXISTS (SELECT 1 FROM {t} b WHERE b.offset = a.offset + 8)",
        "anti": "SELECT * FROM {t} a WHERE a.offset NOT IN (SELECT offset FROM {t} WHERE partition = 1 AND offset > 2)",
        "scalar": "SELECT * FROM {t} WHERE offset = (SELECT max(offset) FROM {t} WHERE partition = 2)",
        "with": "WITH x AS (SELECT * FROM {t} WHERE partition = 1) SELECT x.offset, y.partition FROM x JOIN {t} y "
        "ON x.offset = y.offset",
        "window": "SELECT partition, offset, row_number() OVER (PARTITION BY partition ORDER BY offset DESC) FROM {t}",
        "cast": "SELECT CAST(value AS STRING), CAST(key AS STRING), date(timestamp) FROM {t}",
    }
    for name, query in asked.items():
        yield read(f"query/{name}", {"subscribe": "plain"}, query)
    for name, query in {
        "join": "SELECT t.value, u.value FROM {t} AS t JOIN {u} AS u ON t.key = u.key",
        "join-filters": "SELECT t.value, u.value FROM {t} AS t JOIN {u} AS u ON t.offset = u.offset WHERE "
        "t.partition = 2 AND u.partition = 1",
        "union": "SELECT topic, partition, offset FROM {t} UNION ALL SELECT topic, partition, offset FROM {u}",
    }.items():
        steps = (load({"subscribe": "plain"}), load({"subscribe": "second"}, "u"), sql(query))
        yield Scenario(f"batch/two-frames/{name}", steps)


def programs() -> Iterator[Scenario]:
    uses: dict[str, Callable[[Any], Any]] = {
        "count": lambda t: t.count(),
        "schema": lambda t: t.schema.simpleString(),
        "first": lambda t: len(t.head(1)),
        "take": lambda t: len(t.take(5)),
        "to-local-iterator": lambda t: list(t.select("value").toLocalIterator()),
        "rdd": lambda t: t.select("offset").rdd.map(lambda row: row.offset * 2).collect(),
        "foreach-partition": lambda t: t.rdd.mapPartitions(lambda part: [sum(1 for _ in part)]).sum(),
        "cache": lambda t: [t.cache().count(), t.count(), t.unpersist() is t],
        "repartition": lambda t: t.repartition(4).select("value").collect(),
        "drop-duplicates": lambda t: t.dropDuplicates(["key"]).count(),
        "pivot": lambda t: t.groupBy("offset").pivot("partition", [0, 1, 2]).count().collect(),
        "cross": lambda t: t.crossJoin(t.where("partition = 0").select("offset")).count(),
        "filters-then-all": lambda t: [t.where("partition = 1").count(), t.count(), t.where("offset < 2").count()],
        "union-of-filters": lambda t: t.where("partition = 0").union(t.where("partition = 1")).collect(),
        "union-groups": lambda t: (
            t.where("partition=0").union(t.where("partition=1")).groupBy("partition").count().collect()
        ),
        "self-join": lambda t: t.alias("a").join(t.where("partition = 1").alias("b"), "offset").count(),
        "subtract": lambda t: t.select("value").subtract(t.where("offset > 3").select("value")).collect(),
        "explain": lambda t: t.explain() is None,
        "observe-twice": lambda t: [sorted(map(repr, t.collect())) == sorted(map(repr, t.collect()))],
        "temp-view-twice": lambda t: [t.select("key").where("partition = 2").count(), t.select("key").count()],
        "input-files": lambda t: t.inputFiles(),
    }
    for name, use in uses.items():
        yield Scenario(f"batch/program/{name}", (load({"subscribe": "plain"}), act(use)))


def repeated() -> Iterator[Scenario]:
    """One frame, used again after the topic changed."""
    a = {"subscribe": "<a>"}
    made = (Change(lambda w: w.create("a", 2)), Change(lambda w: w.send("a", 5)))
    more = Change(lambda w: w.send("a", 5, 8, partition=1))
    grown = (Change(lambda w: w.grow("a", 3)), Change(lambda w: w.send("a", 20, 22, partition=2)))
    trimmed = Change(lambda w: w.trim("a", 2))
    count = act(lambda t: t.count())
    value = act(lambda t: t.select("value").collect())
    all_of_it = sql("SELECT partition, value FROM {t}")
    stories: dict[str, tuple[Step | Change, ...]] = {
        "count-send-count": (count, more, count),
        "rows-send-rows": (value, more, value),
        "view-send-view": (all_of_it, more, all_of_it),
        "load-send-count": (more, count),
        "count-grow-count": (count, *grown, count),
        "rows-grow-rows": (value, *grown, value),
        "count-trim-count": (count, trimmed, count),
        "rows-trim-rows": (value, trimmed, value),
        "rows-trim-send-rows": (value, trimmed, more, value),
        "filter-send-all": (act(lambda t: t.where("partition = 0").count()), more, count),
        "union-after-send": (count, more, act(lambda t: t.union(t).count())),
        "join-after-send": (count, more, act(lambda t: t.alias("a").join(t.alias("b"), "value").count())),
        "three-times": (count, more, count, *grown, count),
        "load-delete-count": (Change(lambda w: w.delete("a")), count),
        "count-delete-count": (count, Change(lambda w: w.delete("a")), count),
    }
    for kind, fresh in (("again", False), ("current", True)):
        for name, steps in stories.items():
            yield Scenario(f"batch/{kind}/{name}", (*made, load(a, fresh=fresh), *steps))
    view = sql("SELECT count(*) FROM {t}")
    late = {"subscribePattern": "<p>.*"}
    new_topic = (Change(lambda w: w.create("p2")), Change(lambda w: w.send("p2", 3)))
    first = (Change(lambda w: w.create("p")), Change(lambda w: w.send("p", 4)))
    steps = (*first, load(late, fresh=True), view, *new_topic, view)
    yield Scenario("batch/current/pattern-new-topic", steps)
    fixed = {**a, "endingOffsets": '{"<a>":{"0":4,"1":0}}'}
    yield Scenario("batch/current/fixed-end", (*made, load(fixed, fresh=True), value, more, value))
    opened = (
        Change(lambda w: w.create("a")),
        Change(lambda w: w.transaction("a", 5, end="commit")),
        Change(lambda w: w.transaction("a", 5, 9, end="open")),
    )
    ended = Change(lambda w: w.finish("a"))
    for level, options in (("committed", COMMITTED), ("uncommitted", UNCOMMITTED)):
        frame = load({**a, **options}, fresh=True)
        yield Scenario(f"batch/current/transaction-{level}", (*opened, frame, value, ended, value))
