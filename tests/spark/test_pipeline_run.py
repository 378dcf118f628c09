"""A running pipeline: it can be seen, measured and stopped from elsewhere; it restarts what fails, within limits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from moldau.cli.main import root
from moldau.pipelines import session
from moldau.pipelines.metrics import MetricsServer, render
from tests.spark.pipeline_kit import (
    Recorder,
    create,
    produce,
    read_all,
    runner_of,
    running,
    wait_for,
    wait_until,
    write_file,
)


def cli(*arguments: str) -> Any:
    return CliRunner().invoke(root, list(arguments))


def test_list_show_metrics_group_and_stop(
    spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path
) -> None:  # fmt: skip
    topic, out = unique(), unique()
    create(bootstrap, topic, out)
    name = unique().replace("-", "_")
    path = write_file(
        tmp_path,
        "seen.yaml",
        f"""
pipeline: {name}
bootstrap: {bootstrap}
trigger: 200ms
sources:
  words: {{topic: {topic}, format: string}}
sinks:
  - {{from: words, topic: {out}, value: value}}
""",
    )
    runner = runner_of(spark, path, {}, host="here")
    server = MetricsServer(0, lambda: render(name, runner.state, runner.facts()), host="127.0.0.1")
    try:
        with running(runner) as outcome:
            produce(bootstrap, topic, [f"w{n}" for n in range(50)])
            wait_for(runner, lambda: runner.facts() != [] and runner.facts()[0].input_rows == 50, "50 rows read")
            wait_for(runner, lambda: runner.facts()[0].lag_records == 0, "the lag was measured")

            def listed() -> Mapping[str, Any]:
                rows = json.loads(cli("pipeline", "list", "--json", "-b", bootstrap).output)
                return next((row for row in rows if row["pipeline"] == name), {})

            wait_for(runner, lambda: listed().get("rows_in") == 50, "the list shows the rows")
            assert listed()["state"] == "running"
            assert listed()["host"] == "here"
            shown = cli("pipeline", "show", name, "-b", bootstrap)
            assert f"{name}.words" in shown.output
            assert "started" in shown.output
            with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=60) as answer:
                metrics = answer.read().decode()
            assert f'moldau_pipeline_input_rows_total{{pipeline="{name}",query="{name}.words"}} 50' in metrics
            assert f'moldau_pipeline_lag_records{{pipeline="{name}",query="{name}.words"}} 0' in metrics

            stopped = cli("pipeline", "stop", name, "-b", bootstrap)
            assert stopped.output == f"{name} stopped\n"
            assert outcome().state == "stopped"
    finally:
        server.close()
    assert listed()["state"] == "stopped"
    again = cli("pipeline", "stop", name, "-b", bootstrap)
    assert (again.exit_code, "the pipeline does not run" in again.output) == (1, True)
    document = json.loads(cli("pipeline", "show", name, "--format", "json", "-b", bootstrap).output)
    assert [event["event"] for event in document["events"]] == ["started", "stopped"]
    unknown = cli("pipeline", "show", name + "x", "-b", bootstrap)
    assert unknown.exit_code == 1
    assert name in unknown.output
    # What is done stays visible in the group after the end.
    group = json.loads(cli("group", "describe", f"pipeline.{name}", "--format", "json", "-b", bootstrap).output)
    assert "50" in json.dumps(group)
    assert len(read_all(bootstrap, out)) == 50


FRAGILE = """
from pathlib import Path

from pyspark.sql import functions as F

FLAG = Path(__file__).parent / "mended"


def check(n):
    if n == 3 and not FLAG.exists():
        raise ValueError(f"cannot count to {n}")
    return n


def careful(numbers):
    return numbers.select(F.udf(check, "int")("n").alias("n"))
"""


def fragile_pipeline(tmp_path: Path, bootstrap: str, topic: str, out: str, restart: str) -> Path:
    write_file(tmp_path, "fragile.py", FRAGILE)
    return write_file(
        tmp_path,
        "fragile.yaml",
        f"""
pipeline: fragile
bootstrap: {bootstrap}
trigger: 100ms
restart: {restart}
sources:
  numbers: {{topic: {topic}, schema: n INT}}
steps:
  - {{name: careful, python: "fragile.py:careful"}}
sinks:
  - {{from: careful, topic: {out}}}
""",
    )


def test_a_failed_query_restarts_from_its_checkpoint_and_loses_nothing(
    spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path
) -> None:  # fmt: skip
    topic, out = unique(), unique()
    create(bootstrap, topic, out)
    produce(bootstrap, topic, [{"n": n} for n in range(5)])
    path = fragile_pipeline(tmp_path, bootstrap, topic, out, "{max: 3, backoff: 100ms}")

    def mend(event: Mapping[str, Any]) -> None:
        if event["event"] == "failed":
            (tmp_path / "mended").touch()

    recorder = Recorder(mend)
    runner = runner_of(spark, path, {}, watcher=recorder)
    with running(runner) as outcome:
        wait_for(runner, lambda: "restarted" in recorder.names(), "a restart")
        wait_for(runner, lambda: runner.facts()[0].input_rows == 5, "all rows read")
        runner.request_stop()
        assert outcome().state == "stopped"
    assert recorder.names() == ["started", "failed", "restarted", "stopped"]
    assert "fragile.py:11:1: fragile.careful: ValueError: cannot count to 3" in recorder.events[1]["error"]
    assert sorted(json.loads(m.value())["n"] for m in read_all(bootstrap, out)) == [0, 1, 2, 3, 4]
    assert runner.facts()[0].restarts == 1


def test_after_too_many_failures_the_pipeline_fails_with_the_place(
    spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path
) -> None:  # fmt: skip
    topic, out = unique(), unique()
    create(bootstrap, topic, out)
    produce(bootstrap, topic, [{"n": 3}])
    path = fragile_pipeline(tmp_path, bootstrap, topic, out, "{max: 1, backoff: 50ms}")
    outcome = runner_of(spark, path, {}).run()
    assert outcome.state == "failed"
    assert outcome.failure is not None
    assert outcome.failure.place is not None
    assert (Path(outcome.failure.place.file).name, outcome.failure.place.line) == ("fragile.py", 11)
    assert outcome.failure.what == "fragile.careful: ValueError: cannot count to 3"
    assert outcome.failure.hint == "failed 2 times; the limit is 1"
    assert read_all(bootstrap, out) == []


BROKEN = """\
pipeline: broken
bootstrap: {bootstrap}
sources:
  words: {{topic: {topic}, schema: "word STRING, at TIMESTAMP"}}
steps:
  - name: counted
    sql: |
      SELECT word,
             count(wrd) AS n
      FROM words
      GROUP BY word
  - name: gone
    python: steps.py:broken
sinks:
  - {{from: counted, topic: out, mode: update}}
  - {{from: gone, name: other, topic: out2}}
  - {{from: words, name: keyed, topic: out3, key: upper(wurd)}}
"""


def test_sql_and_python_that_do_not_resolve_are_told_with_their_lines(
    spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path
) -> None:  # fmt: skip
    from moldau.pipelines.load import load_or_raise
    from moldau.pipelines.queries import resolve_all

    write_file(tmp_path, "steps.py", "def broken(words):\n    return words.selct('x')\n")
    path = write_file(tmp_path, "broken.yaml", BROKEN.format(bootstrap=bootstrap, topic=unique()))
    found = sorted(resolve_all(spark, load_or_raise(path, {})).found)
    assert [(Path(each.place.file).name, each.place.line, each.place.column) for each in found] == [
        ("broken.yaml", 9, 20),
        ("broken.yaml", 17, 50),
        ("steps.py", 2, 1),
    ]
    assert "`wrd` cannot be resolved" in found[0].what
    assert "`wurd` cannot be resolved" in found[1].what
    assert "selct" in found[2].what


def test_an_aggregation_without_watermark_gets_a_hint(
    spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path
) -> None:  # fmt: skip
    text = BROKEN.format(bootstrap=bootstrap, topic=unique()).replace("wrd", "word").replace(", mode: update", "")
    path = write_file(
        tmp_path, "hint.yaml", text[: text.index("  - name: gone")] + "sinks:\n  - {from: counted, topic: out}\n"
    )
    outcome = runner_of(spark, path, {}).run()
    assert outcome.failure is not None
    assert outcome.failure.hint == "set mode: update, or add a watermark to the source"
    assert outcome.failure.place is not None
    assert outcome.failure.place.line == 13


def test_the_command_from_start_to_signal(bootstrap: str, unique: Callable[[], str], tmp_path: Path) -> None:
    """The whole command in its own process: JSON lines, SIGTERM, exit status 0, a quiet standard error, a log."""
    topic, out = unique(), unique()
    create(bootstrap, topic, out)
    produce(bootstrap, topic, [{"n": n} for n in range(20)])
    path = write_file(
        tmp_path,
        "whole.yaml",
        """
pipeline: whole
bootstrap: ${B}
trigger: 500ms
sources:
  numbers: {topic: "${IN}", schema: n INT}
steps:
  - {name: big, sql: SELECT n FROM numbers WHERE n >= 10}
sinks:
  - {from: big, topic: "${OUT}"}
""",
    )
    command = [
        sys.executable,
        "-m",
        "moldau",
        "pipeline",
        "run",
        str(path),
        "--progress",
        "json",
        "--master",
        "local[2]",
    ]
    command += ["--set", f"B={bootstrap}", "--set", f"IN={topic}", "--set", f"OUT={out}", "--metrics-port", "0"]
    process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ))
    try:
        wait_until(lambda: process.poll() is not None or len(read_all(bootstrap, out)) == 10, "ten rows")
        process.send_signal(signal.SIGTERM)
        said, errors = process.communicate(timeout=180)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    events = [json.loads(line) for line in said.splitlines()]
    assert [event["event"] for event in events if event["event"] != "progress"] == ["started", "stopped"]
    assert [line for line in errors.splitlines() if not line.startswith("metrics at")] == []
    (log,) = (tmp_path / ".moldau" / "logs").glob("whole-*.log")
    assert log.read_text()
    assert len(read_all(bootstrap, out)) == 10


def test_the_command_refuses_before_anything_starts(
    bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[object] = []
    monkeypatch.setattr(session, "open_session", lambda *arguments: opened.append(arguments))
    path = write_file(
        tmp_path,
        "missing.yaml",
        f"""
pipeline: missing
bootstrap: {bootstrap}
sources:
  words: {{topic: no_such_topic_here, format: string}}
sinks:
  - {{from: words, topic: out, value: value}}
""",
    )
    result = cli("pipeline", "run", str(path))
    assert result.exit_code == 1
    assert "error[MD-3004]" in result.output
    assert "missing.yaml:5:18" in result.output
    assert "the cluster has no topic 'no_such_topic_here'" in result.output
    assert opened == []
    connected = cli("pipeline", "validate", "--connect", str(path))
    assert "no_such_topic_here" in connected.output
    assert cli("pipeline", "validate", str(path)).exit_code == 0
