"""Topics as tables in pipelines: every use of such a source has all of its rows, those of now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from moldau.pipelines.session import Where, settings
from tests.spark.pipeline_kit import create, produce, run_once, runner_of, running, values, wait_for, write_file


def test_one_table_joined_twice(spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path) -> None:
    """Each side has a filter of its own, on a column that the source could have taken it for."""
    orders, people, out = unique(), unique(), unique()
    create(bootstrap, orders, out)
    create(bootstrap, people, partitions=2)
    produce(bootstrap, orders, [{"id": 1, "buyer": "anna", "seller": "bert"}])
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(people, partition=0, value='{"name": "anna", "city": "Praha"}')
    producer.produce(people, partition=1, value='{"name": "bert", "city": "Linz"}')
    assert producer.flush(30) == 0
    path = write_file(
        tmp_path,
        "twice.yaml",
        f"""
pipeline: twice
bootstrap: {bootstrap}
trigger: available-now
sources:
  orders: {{topic: {orders}, schema: "id INT, buyer STRING, seller STRING"}}
  people: {{topic: {people}, read: table, schema: "name STRING, city STRING", metadata: [partition]}}
steps:
  - name: both
    sql: |
      SELECT o.id, b.city AS from_city, s.city AS to_city
      FROM orders o
      JOIN people b ON b.name = o.buyer AND b._partition = 0
      JOIN people s ON s.name = o.seller AND s._partition = 1
sinks:
  - {{from: both, topic: {out}}}
""",
    )
    with_settings_of_a_run(spark, path, lambda: run_once(spark, path, {}))
    assert values(bootstrap, out) == [{"id": 1, "from_city": "Praha", "to_city": "Linz"}]


def test_a_table_is_read_anew_for_each_micro_batch(
    spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path
) -> None:  # fmt: skip
    """Of the table nothing but values is read: what makes Spark look again must not depend on what people ask for."""
    orders, people, out = unique(), unique(), unique()
    create(bootstrap, orders, people, out)
    path = write_file(
        tmp_path,
        "anew.yaml",
        f"""
pipeline: anew
bootstrap: {bootstrap}
trigger: 100ms
sources:
  orders: {{topic: {orders}, schema: "id INT, buyer STRING"}}
  people: {{topic: {people}, read: table, schema: "name STRING, city STRING", metadata: []}}
steps:
  - {{name: cities, sql: "SELECT o.id, p.city FROM orders o LEFT JOIN people p ON p.name = o.buyer"}}
sinks:
  - {{from: cities, topic: {out}}}
""",
    )
    sent = [("anna", "Praha"), ("bert", "Linz"), ("cyril", "Brno")]

    def run() -> None:
        runner = runner_of(spark, path, {})
        with running(runner) as outcome:
            for number, (name, city) in enumerate(sent):
                produce(bootstrap, people, [{"name": name, "city": city}])
                produce(bootstrap, orders, [{"id": number, "buyer": name}])
                wait_for(runner, lambda: len(values(bootstrap, out)) > number, "the order")  # noqa: B023
            runner.request_stop()
            assert outcome().state == "stopped"

    with_settings_of_a_run(spark, path, run)
    assert values(bootstrap, out) == [{"id": n, "city": city} for n, (_, city) in enumerate(sent)]


def with_settings_of_a_run(spark: Any, path: Path, work: Callable[[], Any]) -> None:
    """The session of the tests with what `moldau pipeline run` sets in its own, as far as it can be set later."""
    from moldau.pipelines.load import load_or_raise

    wanted = settings(load_or_raise(path, {}), Where())
    before = {name: spark.conf.get(name, None) for name in wanted if spark.conf.isModifiable(name)}
    for name in before:
        spark.conf.set(name, wanted[name])
    try:
        work()
    finally:
        for name, value in before.items():
            spark.conf.unset(name) if value is None else spark.conf.set(name, value)
