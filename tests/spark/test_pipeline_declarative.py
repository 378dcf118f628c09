"""The declarative engine: tables and topics from one run, only what is new from the next."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from moldau.cli.main import root
from tests.spark.pipeline_kit import create, produce, read_all, values, write_file

pytestmark = pytest.mark.slow  # each run of spark-pipelines starts a Connect server and a Hive catalog: 40 s idle


def test_streaming_tables_materialized_views_topics_and_dead_letters(
    bootstrap: str, unique: Callable[[], str], tmp_path: Path
) -> None:  # fmt: skip
    topic, out, bad = unique(), unique(), unique()
    create(bootstrap, topic, out, bad)
    write_file(tmp_path, "names.json", json.dumps({"user": "a", "name": "Anna"}) + "\n")
    write_file(tmp_path, "steps.py", "def double(views, factor):\n    return views.withColumn('n', views.n * factor)\n")
    path = write_file(
        tmp_path,
        "declared.yaml",
        f"""
pipeline: declared
engine: declarative
trigger: available-now
bootstrap: {bootstrap}
checkpoint: ./state
sources:
  views: {{topic: {topic}, schema: "user STRING, n INT", dead_letter: {bad}}}
  again: {{topic: {topic}, schema: "user STRING, n INT", on_bad_record: drop}}
  names: {{files: ./names.json, format: json, schema: "user STRING, name STRING"}}
steps:
  - {{name: doubled, python: "steps.py:double", with: {{factor: 2}}}}
  - {{name: named, sql: "SELECT d.user, d.n, n.name FROM doubled d LEFT JOIN names n ON d.user = n.user"}}
  - {{name: totals, sql: "SELECT user, sum(n) AS total FROM again GROUP BY user"}}
sinks:
  - {{from: named, table: named_views}}
  - {{from: named, name: out, topic: {out}, key: user}}
  - {{from: totals, table: totals_by_user, mode: complete}}
""",
    )

    def run() -> None:
        result = CliRunner().invoke(root, ["pipeline", "run", str(path)])
        assert result.exit_code == 0, result.output
        assert "declared finished" in result.output

    produce(bootstrap, topic, [{"user": "a", "n": 1}, {"user": "b", "n": 2}, "broken"])
    run()
    produce(bootstrap, topic, [{"user": "a", "n": 5}])
    run()
    rows = sorted((row["user"], row["n"], row.get("name")) for row in values(bootstrap, out))
    assert rows == [("a", 2, "Anna"), ("a", 10, "Anna"), ("b", 4, None)]
    assert [m.value() for m in read_all(bootstrap, bad)] == [b"broken"]
    assert table_rows(tmp_path / "state/warehouse/named_views") == {("a", 2), ("a", 10), ("b", 4)}
    assert table_rows(tmp_path / "state/warehouse/totals_by_user") == {("a", 6), ("b", 2)}
    listed = CliRunner().invoke(root, ["pipeline", "list", "--json", "-b", bootstrap])
    assert [r["state"] for r in json.loads(listed.output) if r["pipeline"] == "declared"] == ["finished"]


def table_rows(folder: Path) -> set[tuple[str, int]]:
    import pyarrow.parquet as pq

    rows: set[tuple[str, int]] = set()
    for file in folder.glob("*.parquet"):
        for row in pq.read_table(file).to_pylist():
            rows.add((row["user"], row.get("n", row.get("total"))))
    return rows


def test_a_failure_is_one_message(bootstrap: str, unique: Callable[[], str], tmp_path: Path) -> None:
    topic = unique()
    create(bootstrap, topic)
    path = write_file(
        tmp_path,
        "wrong.yaml",
        f"""
pipeline: wrong
engine: declarative
trigger: available-now
bootstrap: {bootstrap}
sources:
  views: {{topic: {topic}, schema: "user STRING"}}
steps:
  - {{name: named, sql: "SELECT usr FROM views"}}
sinks:
  - {{from: named, table: named_views}}
""",
    )
    result = CliRunner().invoke(root, ["pipeline", "run", str(path)])
    assert result.exit_code == 1
    assert "error[MD-3005]" in result.output
    assert "`usr` cannot be resolved" in result.output
