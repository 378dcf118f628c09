"""Pipelines on a live broker: windows, joins, state, Python steps and dead letters give the right rows, once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moldau.pipelines.session import ROCKSDB
from tests.spark.pipeline_kit import create, produce, read_all, run_once, values, write_file

pytestmark = pytest.mark.usefixtures("rocksdb")


@pytest.fixture(scope="module")
def rocksdb(spark: Any) -> None:
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)


def test_windows_close_behind_the_watermark(
    spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path
) -> None:  # fmt: skip
    views, out = unique(), unique()
    create(bootstrap, views, out)
    minutes = [0, 0, 1, 1, 1, 2, 9]  # the last one moves the watermark past the others
    produce(
        bootstrap,
        views,
        [{"page": "a" if i % 2 else "b", "at": f"2026-01-01T00:{m:02d}:30Z"} for i, m in enumerate(minutes)],
    )
    path = write_file(
        tmp_path,
        "windows.yaml",
        f"""
pipeline: windows
bootstrap: {bootstrap}
trigger: available-now
sources:
  views:
    topic: {views}
    schema: page STRING, at TIMESTAMP
    watermark: {{column: at, delay: 1 minute}}
steps:
  - name: per_minute
    sql: |
      SELECT window.start AS minute, page, count(*) AS views, max(_offset) AS newest
      FROM views
      GROUP BY window(at, '1 minute'), page
sinks:
  - from: per_minute
    topic: {out}
    key: page
    value: [minute, views, newest]
    headers: {{kind: "'window'", minute: "date_format(minute, 'HH:mm')"}}
    partition: "0"
    timestamp: minute
""",
    )
    outcome = run_once(spark, path, {})
    messages = read_all(bootstrap, out)
    assert {(m.key().decode(), m.value().decode()) for m in messages} == {
        ("b", '{"minute":"2026-01-01T00:00:00.000Z","views":1,"newest":0}'),
        ("a", '{"minute":"2026-01-01T00:00:00.000Z","views":1,"newest":1}'),
        ("b", '{"minute":"2026-01-01T00:01:00.000Z","views":2,"newest":4}'),
        ("a", '{"minute":"2026-01-01T00:01:00.000Z","views":1,"newest":3}'),
        ("a", '{"minute":"2026-01-01T00:02:00.000Z","views":1,"newest":5}'),
    }
    assert len(messages) == 5
    first = next(m for m in messages if b"00:02" in m.value())
    assert dict(first.headers()) == {"kind": b"window", "minute": b"00:02"}
    assert first.timestamp()[1] == 1767225720000
    (facts,) = outcome.queries
    assert facts.input_rows == len(minutes)
    assert facts.output_rows == 5
    assert facts.state_rows == 1
    run_once(spark, path, {})
    assert len(read_all(bootstrap, out)) == 5


def tier(customer: str, name: str) -> dict[str, str]:
    return {"id": customer, "tier": name}


def test_streams_join_streams_and_tables(
    spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path
) -> None:  # fmt: skip
    orders, payments, customers, out = unique(), unique(), unique(), unique()
    create(bootstrap, orders, payments, out)
    create(bootstrap, customers, cleanup_policy="compact")
    produce(bootstrap, orders, [{"id": i, "customer": f"c{i % 3}", "at": f"2026-01-01T0{i}:00:00Z"} for i in range(6)])
    paid = [(0, "00:30"), (1, "01:10"), (2, "04:00"), (4, "04:59")]  # order 2 is paid too late to match
    produce(bootstrap, payments, [{"order_id": i, "paid_at": f"2026-01-01T{t}:00Z"} for i, t in paid])
    produce(
        bootstrap,
        customers,
        [("c0", tier("c0", "old")), ("c1", tier("c1", "silver")), ("c0", tier("c0", "gold")), ("c1", None)],
    )
    write_file(tmp_path, "countries.csv", "id,country\nc0,CZ\nc1,AT\n")
    database = f"jdbc:derby:memory:{unique()};create=true"  # Derby comes with Spark
    named = spark.createDataFrame([("c0", "Anna", 7), ("c1", "Bert", 3)], "id STRING, name STRING, points INT")
    named.write.jdbc(database, "people")
    path = write_file(
        tmp_path,
        "joins.yaml",
        f"""
pipeline: joins
bootstrap: {bootstrap}
trigger: available-now
sources:
  orders:
    topic: {orders}
    schema: id INT, customer STRING, at TIMESTAMP
    watermark: {{column: at, delay: 10s}}
  payments:
    topic: {payments}
    schema: order_id INT, paid_at TIMESTAMP
    watermark: {{column: paid_at, delay: 10s}}
  customers: {{topic: {customers}, read: table, latest_by: _key, schema: "id STRING, tier STRING"}}
  countries: {{files: ./countries.csv, format: csv, options: {{header: true}}}}
  people: {{jdbc: "{database}", table: people}}
  best: {{jdbc: "{database}", query: 'SELECT "id", "points" FROM people WHERE "points" > 5'}}
steps:
  - name: enriched
    sql: |
      SELECT p.*, c.tier, n.country, people.name, best.points
      FROM paid p
      LEFT JOIN customers c ON p.customer = c.id
      LEFT JOIN countries n ON p.customer = n.id
      LEFT JOIN people ON p.customer = people.id
      LEFT JOIN best ON p.customer = best.id
  - name: paid
    sql: |
      SELECT o.id, o.customer, p.paid_at
      FROM orders o JOIN payments p
        ON o.id = p.order_id AND p.paid_at BETWEEN o.at AND o.at + INTERVAL 1 HOUR
sinks:
  - {{from: enriched, topic: {out}, key: CAST(id AS STRING)}}
""",
    )
    run_once(spark, path, {})
    rows = sorted(values(bootstrap, out), key=lambda row: int(row["id"]))
    names = ("id", "customer", "tier", "country", "name", "points")
    assert [tuple(row.get(name) for name in names) for row in rows] == [
        (0, "c0", "gold", "CZ", "Anna", 7),
        (1, "c1", None, "AT", "Bert", None),
        (4, "c1", None, "AT", "Bert", None),
    ]


SESSIONS = """
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor


class Sessions(StatefulProcessor):
    def __init__(self, gap_ms):
        self.gap_ms = gap_ms

    def init(self, handle):
        self.handle = handle
        self.count = handle.getValueState("count", "n INT")

    def handleInputRows(self, key, rows, timerValues):
        times = [row.at for row in rows]
        self.count.update((len(times) + (self.count.get()[0] if self.count.exists() else 0),))
        for timer in self.handle.listTimers():
            self.handle.deleteTimer(timer)
        self.handle.registerTimer(int(max(times).timestamp() * 1000) + self.gap_ms)
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        n = self.count.get()[0]
        self.count.clear()
        yield Row(user=key[0], clicks=n)

    def close(self):
        pass
"""


def test_a_stateful_step_keeps_state_and_fires_timers(
    spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path
) -> None:  # fmt: skip
    clicks, out = unique(), unique()
    create(bootstrap, clicks, out)
    produce(bootstrap, clicks, [{"user": u, "at": "2026-01-01T00:00:00Z"} for u in ("x", "y", "x")])
    write_file(tmp_path, "sessions.py", SESSIONS)
    path = write_file(
        tmp_path,
        "sessions.yaml",
        f"""
pipeline: sessions
bootstrap: {bootstrap}
trigger: available-now
sources:
  clicks:
    topic: {clicks}
    schema: user STRING, at TIMESTAMP
    watermark: {{column: at, delay: 1s}}
steps:
  - name: sessions
    stateful:
      processor: sessions.py:Sessions
      from: clicks
      by: user
      output: user STRING, clicks INT
      time: event
      with: {{gap_ms: 60000}}
sinks:
  - {{from: sessions, topic: {out}, key: user}}
""",
    )
    first = run_once(spark, path, {})
    assert first.queries[0].state_rows
    assert read_all(bootstrap, out) == []
    # Far later clicks move the watermark; the state of the first run is still there.
    produce(bootstrap, clicks, [{"user": "z", "at": "2026-01-01T02:00:00Z"}])
    run_once(spark, path, {})
    assert sorted((row["user"], row["clicks"]) for row in values(bootstrap, out)) == [("x", 2), ("y", 1)]


STEPS = """
from pyspark.sql import functions as F
from pyspark.sql.types import StringType


def shout(text):
    return text.upper() + mark()


def mark():
    return "!"


def loud(spark, words, least):
    assert spark is not None
    shouted = F.udf(shout, StringType())
    return words.where(F.length("word") >= least).select(shouted("word").alias("word"), "_key", "_partition")
"""


def test_bad_records_go_to_the_dead_letter_topic_once_and_python_steps_see_the_rest(
    spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path
) -> None:  # fmt: skip
    words, bad, out = unique(), unique(), unique()
    create(bootstrap, words, bad, out)
    odd_value = b'{"word":"fine", "and":"more"}'
    records = [('{"k":1}', {"word": "hello"}), ('{"k":2,"l":0}', "not json"), ('{"k":3}', {"word": "a"}),
               (b"\xff\xfe", b"\x00\x01"), ('{"k":5}', '{"word": {"nested": 1}'), ('{"k":6}', {"word": "moldau"}),
               ("no key", odd_value)]  # fmt: skip
    produce(bootstrap, words, records, headers={"trace": b"\x07"})
    write_file(tmp_path, "words.py", STEPS)
    path = write_file(
        tmp_path,
        "words.yaml",
        f"""
pipeline: words
bootstrap: {bootstrap}
trigger: available-now
sources:
  words: {{topic: {words}, schema: word STRING, key_format: json, key_schema: k INT, dead_letter: {bad}}}
steps:
  - {{name: loud, python: "words.py:loud", with: {{least: 2}}}}
sinks:
  - {{from: loud, topic: {out}, key: _key.k, value: word, timestamp: 1700000000000L}}
""",
    )
    for records_read in ((3, 4), (0, 0)):  # the second run finds nothing new
        outcome = run_once(spark, path, {})
        # Two queries read the topic, and each record counts in one of them.
        assert {facts.name: facts.input_rows for facts in outcome.queries} == dict(
            zip(("words.loud", "words.dead_letter.words"), records_read, strict=True)
        )
        good = [(m.key().decode(), m.value().decode()) for m in read_all(bootstrap, out)]
        assert sorted(good) == [("1", "HELLO!"), ("6", "MOLDAU!")]
        assert {m.timestamp()[1] for m in read_all(bootstrap, out)} == {1700000000000}  # a whole number is milliseconds
        letters = read_all(bootstrap, bad)
        assert sorted((m.key(), m.value()) for m in letters) == sorted(
            [(b'{"k":2,"l":0}', b"not json"), (b"\xff\xfe", b"\x00\x01"), (b'{"k":5}', b'{"word": {"nested": 1}'),
             (b"no key", odd_value)]
        )  # fmt: skip
    headers = dict(next(m for m in letters if m.value() == b"not json").headers())
    assert headers["trace"] == b"\x07"
    assert (headers["source.topic"], headers["source.partition"], headers["source.offset"]) == (
        words.encode(), b"0", b"1",
    )  # fmt: skip
    assert headers["error"]
    assert headers["source.timestamp"].startswith(b"20")


def test_the_same_in_python(spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path) -> None:
    numbers, out = unique(), unique()
    create(bootstrap, numbers, out)
    produce(bootstrap, numbers, [{"n": n} for n in range(10)])
    path = write_file(
        tmp_path,
        "numbers_pipeline.py",
        """
import os
from moldau.pipelines import Pipeline

p = Pipeline("numbers", bootstrap=os.environ["B"], trigger="available-now")
p.source("numbers", topic="${IN}", schema="n INT", max_per_batch=4)
p.sql("even", "SELECT n FROM numbers WHERE n % 2 = 0")


@p.step
def squared(even):
    return even.selectExpr("n", "n * n AS square")


p.sink(from_="squared", topic="${OUT}", value=["square"])
""",
    )
    outcome = run_once(spark, path, {"B": bootstrap, "IN": numbers, "OUT": out})
    assert sorted(row["square"] for row in values(bootstrap, out)) == [0, 4, 16, 36, 64]
    assert outcome.queries[0].batch_id == 2  # 4 + 4 + 2 records
