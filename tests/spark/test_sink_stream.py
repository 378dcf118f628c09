"""`df.writeStream.format("moldau")`: exactly once over replays, failing commits and killed drivers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import EXTERNAL

from .committed import make_topic, open_transactions, read_all, values
from .faulty_sink import FaultySink
from .topics import until

BATCHES = 3
LINES = 40


def write_input(folder: Path, batches: int = BATCHES) -> list[str]:
    """One file for each micro-batch; what the output must be."""
    folder.mkdir(parents=True, exist_ok=True)
    expected = []
    for batch in range(batches):
        lines = [f"{batch}-{number}" for number in range(LINES)]
        (folder / f"{batch:03}.txt").write_text("\n".join(lines) + "\n")
        expected += lines
    return sorted(expected)


def run_query(
    spark: Any, source: Path, checkpoint: Path, bootstrap: str, *, sink: str = "moldau", **options: Any
) -> Any:
    """From where the checkpoint is to the end of the input."""
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(source)).repartition(2)
    named = {key.replace("__", "."): str(value) for key, value in options.items()}
    query = (
        lines.writeStream.format(sink)
        .option("kafka.bootstrap.servers", bootstrap)
        .options(**named)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(300)
    assert not query.isActive
    return query


def forget_last_commits(checkpoint: Path, count: int = 1) -> None:
    """As if the driver had died after the sink's commit and before Spark's own log said so."""
    commits = sorted(
        (path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()), key=lambda p: int(p.name)
    )
    for path in commits[-count:]:
        path.unlink()
        checksum = path.with_name(f".{path.name}.crc")
        checksum.unlink(missing_ok=True)


def test_a_replayed_batch_is_not_doubled(spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path) -> None:
    topic = make_topic(bootstrap, unique(), 2)
    expected = write_input(tmp_path / "in")
    run_query(spark, tmp_path / "in", tmp_path / "check", bootstrap, topic=topic)
    assert values(bootstrap, topic) == expected
    forget_last_commits(tmp_path / "check")
    run_query(spark, tmp_path / "in", tmp_path / "check", bootstrap, topic=topic)
    assert values(bootstrap, topic) == expected
    assert open_transactions(bootstrap, topic) == 0
    # The replay wrote its rows, and they were aborted.
    assert len(read_all(bootstrap, topic, committed=False)) == len(expected) + LINES


@pytest.mark.parametrize("step", ["before", "fenced", "prepared", "written", "decided", "finishing", "finished"])
def test_a_commit_that_dies_is_finished_or_done_again(
    spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path, step: str
) -> None:
    """The process that commits dies, Spark lets the batch fail and calls abort, the query starts again."""
    topic = make_topic(bootstrap, unique(), 2)
    expected = write_input(tmp_path / "in", 2)
    spark.dataSource.register(FaultySink)
    fault = {"fault__step": step, "fault__mark": tmp_path / "mark", "kafka__transaction__timeout__ms": 60_000}
    with pytest.raises(Exception, match=r"(?i)python|commit|crash|exit"):
        run_query(spark, tmp_path / "in", tmp_path / "check", bootstrap, sink="moldau_faulty", topic=topic, **fault)
    assert (tmp_path / "mark").read_text() == step
    run_query(spark, tmp_path / "in", tmp_path / "check", bootstrap, topic=topic)
    if EXTERNAL:  # without two-phase commit what was not decided may have to wait for its timeout
        until(lambda: open_transactions(bootstrap, topic) == 0)
    assert open_transactions(bootstrap, topic) == 0
    assert values(bootstrap, topic) == expected


@pytest.mark.parametrize(
    "step",
    [
        "decided",
        pytest.param("prepared", marks=pytest.mark.slow),
        pytest.param("written", marks=pytest.mark.slow),
        pytest.param("finishing", marks=pytest.mark.slow),
        pytest.param("after", marks=pytest.mark.slow),
    ],
)
def test_a_killed_driver_neither_loses_nor_doubles(
    spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path, step: str
) -> None:
    topic = make_topic(bootstrap, unique(), 2)
    expected = write_input(tmp_path / "in")
    job = {
        "mode": "stream",
        "source": str(tmp_path / "in"),
        "checkpoint": str(tmp_path / "check"),
        "bootstrap": bootstrap,
        "topic": topic,
        "fault": {"fault.step": step, "fault.mark": str(tmp_path / "mark")},
    }
    ended = run_driver(job)
    assert (tmp_path / "mark").read_text() == step, ended.stderr[-3000:]
    assert ended.returncode != 0
    run_query(spark, tmp_path / "in", tmp_path / "check", bootstrap, topic=topic)
    assert values(bootstrap, topic) == expected
    assert open_transactions(bootstrap, topic) == 0


def test_tasks_that_fail_and_are_tried_again(bootstrap: str, unique: Callable[[], str]) -> None:
    topic = make_topic(bootstrap, unique(), 2)
    ended = run_driver({"mode": "retry", "bootstrap": bootstrap, "topic": topic, "rows": 1000})
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert sorted(map(int, values(bootstrap, topic))) == list(range(1000))
    # What the failed attempts wrote is there, and aborted.
    assert len(read_all(bootstrap, topic, committed=False)) > 1000
    assert open_transactions(bootstrap, topic) == 0


def run_driver(job: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.spark.sink_driver", json.dumps(job)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def test_batches_without_rows_and_complete_results(
    spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path
) -> None:
    topic = make_topic(bootstrap, unique(), 1)
    source = tmp_path / "in"
    source.mkdir()
    for number, text in enumerate(["skip\n", "a\nb\na\n", "skip\n", "a\n"]):
        (source / f"{number}.txt").write_text(text)
        os.utime(source / f"{number}.txt", (1_700_000_000 + number, 1_700_000_000 + number))
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(source)).where("value <> 'skip'")
    counts = lines.groupBy("value").count().selectExpr("value as key", "cast(count as string) as value")

    def run(frame: Any, mode: str, checkpoint: Path) -> None:
        writer = frame.coalesce(1).writeStream.format("moldau").outputMode(mode)
        writer = writer.option("kafka.bootstrap.servers", bootstrap).option("topic", topic)
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination(300)

    run(lines, "append", tmp_path / "lines")
    assert values(bootstrap, topic) == ["a", "a", "a", "b"]
    run(counts, "complete", tmp_path / "counts")
    results = [(row.key, row.value) for row in read_all(bootstrap, topic)[4:]]
    # Every batch says the whole result again, as with Spark's Kafka sink.
    assert sorted(results) == [(b"a", b"2"), (b"a", b"2"), (b"a", b"3"), (b"b", b"1"), (b"b", b"1"), (b"b", b"1")]


def test_an_empty_replay_finishes_what_was_decided(
    spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path
) -> None:
    """The batch had rows and was decided; on replay it has none (its query was changed): the decision stands."""
    topic = make_topic(bootstrap, unique(), 2)
    expected = write_input(tmp_path / "in", 1)
    spark.dataSource.register(FaultySink)
    fault = {"fault__step": "decided", "fault__mark": tmp_path / "mark", "sinkId": unique()}
    with pytest.raises(Exception, match=r"(?i)python|commit|crash|exit"):
        run_query(spark, tmp_path / "in", tmp_path / "check", bootstrap, sink="moldau_faulty", topic=topic, **fault)
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(tmp_path / "in"))
    query = (
        lines.repartition(2)
        .where("value = 'none'")
        .writeStream.format("moldau")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("sinkId", fault["sinkId"])
        .option("topic", topic)
        .option("checkpointLocation", str(tmp_path / "check"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(300)
    assert values(bootstrap, topic) == expected
    assert open_transactions(bootstrap, topic) == 0


@pytest.mark.parametrize("batches", [1, 2])
def test_a_named_sink_does_not_swallow_a_new_checkpoint(
    spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path, batches: int
) -> None:
    """It counts from 0 again: its batches are new ones, whatever was the number of the last one under the old."""
    topic, name = make_topic(bootstrap, unique(), 1), unique()
    expected = write_input(tmp_path / "in", batches)
    run_query(spark, tmp_path / "in", tmp_path / "check", bootstrap, topic=topic, sinkId=name)
    run_query(spark, tmp_path / "in", tmp_path / "other", bootstrap, topic=topic, sinkId=name)
    assert values(bootstrap, topic) == sorted(expected * 2)
    assert open_transactions(bootstrap, topic) == 0


def test_at_least_once_repeats_a_replayed_batch(
    spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path
) -> None:
    topic = make_topic(bootstrap, unique(), 2)
    expected = write_input(tmp_path / "in", 1)
    for _ in range(2):
        run_query(spark, tmp_path / "in", tmp_path / "check", bootstrap, topic=topic, deliveryGuarantee="at-least-once")
        forget_last_commits(tmp_path / "check")
    assert values(bootstrap, topic) == sorted(expected * 2)


def test_foreach_batch_is_exactly_once_with_a_version(
    spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path
) -> None:
    topic, app = make_topic(bootstrap, unique(), 2), unique()
    expected = write_input(tmp_path / "in", 2)

    def write(frame: Any, batch_id: int) -> None:
        writer = frame.write.format("moldau").option("kafka.bootstrap.servers", bootstrap).option("topic", topic)
        writer.option("txnAppId", app).option("txnVersion", batch_id).mode("append").save()

    def run() -> None:
        lines = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(tmp_path / "in"))
        query = (
            lines.writeStream.foreachBatch(write)
            .option("checkpointLocation", str(tmp_path / "check"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(300)

    run()
    forget_last_commits(tmp_path / "check")
    run()
    assert values(bootstrap, topic) == expected
