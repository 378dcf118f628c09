"""Every kind of sink gets every row once, also when a batch is replayed after a crash."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.spark.pipeline_kit import create, produce, run_once, write_file

ROWS = 6


def rows_of(spark: Any, kind: str, path: Path) -> list[tuple[int, str]]:
    reader = spark.read.schema("n INT, word STRING") if kind in ("json", "csv") else spark.read
    return sorted((row.n, row.word) for row in reader.format(kind).load(str(path)).select("n", "word").collect())


def forget_last_commit(checkpoint: Path) -> None:
    """As after a crash between writing a batch and recording that it is done: the batch will be replayed."""
    commits = checkpoint / "commits"
    last = max((p for p in commits.iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)


def test_files_of_every_format(spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path) -> None:
    topic = unique()
    create(bootstrap, topic)
    produce(bootstrap, topic, [{"n": n, "word": f"w{n % 2}"} for n in range(ROWS)])
    sinks = "\n".join(f"  - {{from: words, name: {kind}, {kind}: ./{kind}}}" for kind in ("orc", "json", "csv"))
    path = write_file(
        tmp_path,
        "files.yaml",
        f"""
pipeline: files
bootstrap: {bootstrap}
trigger: available-now
sources:
  words: {{topic: {topic}, schema: "n INT, word STRING", metadata: []}}
sinks:
  - {{from: words, name: parquet, parquet: ./parquet, partition_by: [word]}}
{sinks}
""",
    )
    run_once(spark, path, {})
    expected = [(n, f"w{n % 2}") for n in range(ROWS)]
    for kind in ("parquet", "orc", "json", "csv"):
        assert rows_of(spark, kind, tmp_path / kind) == expected, kind
    assert {p.name for p in (tmp_path / "parquet").glob("word=*")} == {"word=w0", "word=w1"}


def test_files_as_a_stream_to_a_table_that_is_replaced(spark: Any, bootstrap: str, tmp_path: Path) -> None:
    for number in range(2):
        write_file(tmp_path / "in", f"{number}.json", json.dumps({"n": number}) + "\n")
    path = write_file(
        tmp_path,
        "counted.yaml",
        f"""
pipeline: counted
bootstrap: {bootstrap}
trigger: available-now
sources:
  drops: {{files: ./in, format: json, read: stream, schema: n INT, max_per_batch: 1}}
steps:
  - {{name: counted, sql: "SELECT count(*) AS c, sum(n) AS s FROM drops"}}
sinks:
  - {{from: counted, table: counted_drops, mode: complete}}
""",
    )
    outcome = run_once(spark, path, {})
    assert outcome.queries[0].batch_id == 1
    assert [tuple(row) for row in spark.read.table("counted_drops").collect()] == [(2, 1)]
    write_file(tmp_path / "in", "2.json", json.dumps({"n": 10}) + "\n")
    run_once(spark, path, {})
    spark.catalog.refreshTable("counted_drops")  # another session wrote it
    assert [tuple(row) for row in spark.read.table("counted_drops").collect()] == [(3, 11)]


def lake_pipeline(tmp_path: Path, bootstrap: str, topic: str) -> Path:
    return write_file(
        tmp_path,
        "lake.yaml",
        f"""
pipeline: lake
bootstrap: {bootstrap}
trigger: available-now
checkpoint: ./state
sources:
  changes: {{topic: {topic}, schema: "id INT, word STRING, gone BOOLEAN", metadata: [offset]}}
steps:
  - {{name: words, sql: "SELECT id, word, gone, _offset AS at FROM changes"}}
sinks:
  - {{from: words, name: delta_all, delta: ./delta_all}}
  - {{from: words, name: delta_now, delta: ./delta_now, merge_on: id, order_by: at, delete_when: gone}}
  - from: words
    name: ice_all
    iceberg: db.everything
    catalog: &catalog {{type: sql, uri: "sqlite:///lake/catalog.db", warehouse: lake}}
  - {{from: words, name: ice_now, iceberg: db.now, catalog: *catalog, merge_on: id, order_by: at, delete_when: gone}}
""",
    )


def lake_rows(tmp_path: Path) -> dict[str, list[tuple[int, str]]]:
    from deltalake import DeltaTable
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog(
        "default", type="sql", uri=f"sqlite:///{tmp_path}/lake/catalog.db", warehouse=f"{tmp_path}/lake"
    )
    tables = {
        "delta_all": DeltaTable(str(tmp_path / "delta_all")).to_pyarrow_table(),
        "delta_now": DeltaTable(str(tmp_path / "delta_now")).to_pyarrow_table(),
        "ice_all": catalog.load_table("db.everything").scan().to_arrow(),
        "ice_now": catalog.load_table("db.now").scan().to_arrow(),
    }
    return {
        name: sorted(zip(table["id"].to_pylist(), table["word"].to_pylist(), strict=True))
        for name, table in tables.items()
    }


@pytest.mark.filterwarnings("error:Delete operation")
def test_delta_and_iceberg_skip_a_replayed_batch_and_merge(
    spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path
) -> None:  # fmt: skip
    topic = unique()
    create(bootstrap, topic)
    (tmp_path / "lake").mkdir()
    path = lake_pipeline(tmp_path, bootstrap, topic)
    first = [{"id": 1, "word": "one"}, {"id": 2, "word": "two"}, {"id": 1, "word": "uno"}]
    produce(bootstrap, topic, first)
    run_once(spark, path, {})
    everything = [(1, "one"), (1, "uno"), (2, "two")]
    now = [(1, "uno"), (2, "two")]
    expected = {"delta_all": everything, "delta_now": now, "ice_all": everything, "ice_now": now}
    assert lake_rows(tmp_path) == expected
    for sink in expected:
        forget_last_commit(tmp_path / "state" / sink)
    run_once(spark, path, {})
    assert lake_rows(tmp_path) == expected, "a replayed batch was written again"
    produce(bootstrap, topic, [{"id": 2, "word": "two", "gone": True}, {"id": 3, "word": "three"}])
    run_once(spark, path, {})
    everything = sorted([*everything, (2, "two"), (3, "three")])
    now = [(1, "uno"), (3, "three")]
    assert lake_rows(tmp_path) == {"delta_all": everything, "delta_now": now, "ice_all": everything, "ice_now": now}
