"""`moldau pipeline`: what people meet before and instead of a run."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from moldau.cli import pipeline_run
from moldau.cli.main import root
from moldau.cli.pipeline_declarative import first_error
from moldau.cli.pipeline_screen import COLUMNS, JsonLines, PlainLines, Silent, cells, describe, line, screen
from moldau.pipelines import sql_check
from moldau.pipelines.events import Run
from moldau.pipelines.log_files import KEPT, log_to, new_log
from moldau.pipelines.places import Mistakes
from moldau.pipelines.progress import QueryFacts
from moldau.pipelines.run import Outcome

FILE = """\
pipeline: p
bootstrap: 127.0.0.1:1
sources:
  s: {topic: t, format: string}
sinks:
  - {from: s, topic: out, value: value}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "p.yaml"
    path.write_text(FILE)
    return path


def pipeline(*arguments: str) -> Any:
    return CliRunner().invoke(root, ["pipeline", *arguments])


def test_without_spark_one_message_tells_how_to_install_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_check, "spark_is_installed", lambda: False)
    result = pipeline("run", str(file))
    assert result.exit_code == 1
    assert "error[MD-3001]: Spark support is not installed" in result.output
    assert 'pip install "moldau[spark]"' in result.output
    checked = pipeline("validate", str(file))
    assert checked.exit_code == 0
    assert "SQL was not parsed: Spark is not installed" in checked.output


def test_without_java_one_message_tells_how_to_install_it(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_check, "spark_is_installed", lambda: True)
    monkeypatch.setenv("JAVA_HOME", str(file.parent / "no-java"))
    result = pipeline("run", str(file))
    assert result.exit_code == 1
    assert "error[MD-3003]: Spark needs Java 17 or newer" in result.output
    assert "JAVA_HOME is" in result.output
    assert "sudo apt-get install openjdk-17-jre-headless" in result.output


def test_mistakes_are_listed_with_their_places(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_check, "spark_is_installed", lambda: False)
    file.write_text(FILE.replace("from: s", "from: t").replace("topic: t", "topik: t"))
    result = pipeline("validate", str(file))
    assert result.exit_code == 1
    assert "error[MD-3004]: the pipeline file has" in result.output
    assert f"{file}:4:6" in result.output
    several = pipeline("validate", str(file), str(file.parent / "none.yaml"))
    assert several.exit_code == 1
    assert several.output.count("MD-3004") == 2


@pytest.mark.usefixtures("logging_as_before")
def test_deep_validation_resolves_in_a_session_and_leaves_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setattr("moldau.spark.java.find_java", lambda: None)
    monkeypatch.setattr(sql_check, "check_sql", lambda *_: None)
    stopped: list[str] = []

    def open_session(pipeline: Any, where: Any, log: Path) -> Any:
        return SimpleNamespace(stop=lambda: stopped.append(f"{where} {pipeline.checkpoint}"))

    def resolve_all(spark: Any, pipeline: Any) -> Mistakes:
        mistakes = Mistakes()
        mistakes.add(pipeline.sinks[0].place, "no such column")
        return mistakes

    monkeypatch.setattr("moldau.pipelines.session.open_session", open_session)
    monkeypatch.setattr("moldau.pipelines.queries.resolve_all", resolve_all)
    assert pipeline("validate", str(file)).exit_code == 0
    result = pipeline("validate", "--deep", str(file))
    assert result.exit_code == 1
    assert f"{file}:6:5" in result.output
    assert "no such column" in result.output
    (where,) = stopped
    assert where.startswith("local[1] ")
    assert not Path(where.split()[1]).exists()
    assert list(file.parent.iterdir()) == [file]


def test_a_broker_that_is_not_there_is_told_before_spark_starts(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setattr("moldau.spark.java.find_java", lambda: None)
    result = pipeline("run", str(file))
    assert result.exit_code == 1
    assert "error[MD-1001]: no broker answers" in result.output
    assert "-b HOST:PORT" not in result.output  # an option that this verb does not have


@pytest.mark.parametrize(
    ("then", "status", "told"),
    [
        ({"state": "stopped"}, 0, "p stopped\n"),
        ({"state": "running", "at_ms": 0}, 1, "nothing is heard of the pipeline"),
    ],
)
def test_stop_tells_a_run_that_stopped_from_one_that_is_lost(
    then: dict[str, Any], status: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ms = int(time.time() * 1000)
    runs = iter([{"state": "running", "at_ms": now_ms}, then])

    async def read_runs(_cluster: Any) -> dict[tuple[str, str], Run]:
        return {("p", "1"): Run("p", "1", {"started_ms": 1, **next(runs)})}

    async def write(_cluster: Any, records: list[tuple[bytes, bytes]]) -> None:
        assert [key for key, _ in records] == [b"stop/p/1"]

    monkeypatch.setattr("moldau.pipelines.journal.read_runs", read_runs)
    monkeypatch.setattr("moldau.pipelines.journal.write", write)
    monkeypatch.setattr("moldau.cli.pipeline.with_cluster", lambda _b, work, **_: asyncio.run(work(None)))
    result = pipeline("stop", "p")
    assert result.exit_code == status
    assert told in result.output


def test_a_file_is_checked_without_asking_for_all_of_spark(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    result = pipeline("validate", str(file))
    assert result.exit_code == 1
    assert "pip install pyyaml" in result.output
    assert "500 MB" not in result.output


@pytest.mark.parametrize("state", ["stopped", "failed", "running"])
def test_stop_of_what_does_not_run_is_an_error(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def read_runs(_cluster: Any) -> dict[tuple[str, str], Run]:
        return {("p", "1"): Run("p", "1", {"started_ms": 1, "at_ms": 1, "state": state})}

    monkeypatch.setattr("moldau.pipelines.journal.read_runs", read_runs)
    monkeypatch.setattr("moldau.cli.pipeline.with_cluster", lambda _b, work, **_: asyncio.run(work(None)))
    result = pipeline("stop", "p")
    assert result.exit_code == 1
    assert "error[MD-3009]: the pipeline does not run" in result.output
    assert f"1, {'lost' if state == 'running' else state}" in result.output


def test_master_and_remote_exclude_each_other(file: Path) -> None:
    result = pipeline("run", str(file), "--master", "yarn", "--remote", "sc://x")
    assert result.exit_code == 2
    assert "either --master or --remote" in result.output


FACTS = QueryFacts(
    "p.s", "running", 7, 12_345, 100, 99.6, 50.0, 17, 2.25, 140, 1_000, 2_048, None, 0, None,
)  # fmt: skip


def test_facts_are_shown_with_their_units() -> None:
    assert dict(zip(COLUMNS, cells(FACTS), strict=True)) == {
        "query": "p.s", "now": "running", "state": "1,000 rows, 2.0 KiB", "batch": "7",
        "rows in": "12,345", "rows/s in": "100",
        "rows/s out": "50", "lag": "17", "lag (s)": "2.2", "batch (ms)": "140",
    }  # fmt: skip
    assert line(FACTS) == (
        "p.s  running  batch 7  in 12,345 rows, 100/s  out 50/s  lag 17 records, 2.2 s  batch took 140 ms"
        "  state 1,000 rows, 2.0 KiB"
    )
    assert line(QueryFacts("x")) == "x  starting  no batch done yet  lag - records"
    assert line(QueryFacts("x", "finished")) == "x  finished  no batch  lag - records"
    assert cells(QueryFacts("x"))[2] == "-"


def test_plain_lines_come_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    lines = PlainLines(lambda: now[0])
    for second in range(12):
        now[0] = second
        lines.update("running", [FACTS])
    assert capsys.readouterr().out.count("p.s  running") == 2
    lines.say({"event": "failed", "error": "x", "restart_in_ms": 1_500})
    assert capsys.readouterr().out == "failed: x; restart in 1.5 s\n"


def test_json_lines_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    import json

    now = [0.0]
    lines = JsonLines(lambda: now[0])
    now[0] = 9.0
    lines.update("running", [FACTS])
    lines.say({"event": "started"})
    progress, event = map(json.loads, capsys.readouterr().out.splitlines())
    assert progress["queries"][0]["lag_seconds"] == 2.25
    assert event == {"event": "started"}


def test_the_last_word_on_every_query_comes_in_the_form_that_was_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    import json

    named: Any = SimpleNamespace(name="p")
    outcome = Outcome("finished", [FACTS], 2.5)
    pipeline_run.conclude(named, outcome, pipeline_run.RunOptions(progress="json"))
    assert json.loads(capsys.readouterr().out)["state"] == "finished"
    pipeline_run.conclude(named, outcome, pipeline_run.RunOptions(progress="plain"))
    assert capsys.readouterr().out == f"{line(FACTS)}\np finished after 2.5 s, 12,345 rows read\n"


def test_the_screen_fits_where_it_is_shown() -> None:
    assert type(screen("auto", is_terminal=False, prints_itself=False)) is PlainLines
    assert type(screen("auto", is_terminal=True, prints_itself=True)) is PlainLines
    assert type(screen("none", is_terminal=True, prints_itself=False)) is Silent
    assert describe({"event": "stopped"}) is None


def test_old_logs_go(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    for number in range(KEPT + 3):
        new_log("p", f"{20260101000000 + number}-abcd", file, None)
    new_log("p-other", "20260101000000-abcd", file, None)
    folder = tmp_path / ".moldau" / "logs"
    assert len(list(folder.glob("p-2*.log"))) == KEPT
    assert len(list(folder.glob("p-other-*.log"))) == 1


def test_a_log_folder_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = new_log("p", "20260101000000-abcd", tmp_path / "p.yaml", Path("logs"))
    assert log.parent == tmp_path / "logs"  # Spark is told of it as a URI, which a relative path cannot be


@pytest.fixture
def logging_as_before() -> Iterator[None]:
    names = ("moldau", "py4j", "pyspark", "SQLQueryContextLogger", "DataFrameQueryContextLogger")
    loggers = [logging.getLogger(name) for name in names if name in logging.Logger.manager.loggerDict]
    before = [(logger, list(logger.handlers), logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, handlers, level, propagate in before:
        for handler in set(logger.handlers) - set(handlers):
            handler.close()
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate


@pytest.mark.usefixtures("logging_as_before")
def test_traces_of_spark_go_to_the_log_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    logger = pytest.importorskip("pyspark.logger").PySparkLogger.getLogger("SQLQueryContextLogger")
    log = tmp_path / "x.log"
    log_to(log)
    logger.error("no such column", errorClass="UNRESOLVED_COLUMN")
    assert capfd.readouterr().err == ""
    assert "no such column" in log.read_text()


def test_the_first_error_of_the_declarative_engine() -> None:
    said = [
        "2026-11-15 10:00:00.000: Loading pipeline spec",
        "2026-11-15T10:00:01.000Z: Flow 'x' has FAILED.",
        "pyspark.errors.exceptions.connect.AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] The table `y` cannot be found."
        " SQLSTATE: 42P01",
    ]
    assert first_error(said) == "The table `y` cannot be found."
    warning = "conf.py:61: UserWarning: Failed to set x to y due to [CANNOT_MODIFY_STATIC_CONFIG] Cannot modify x."
    assert first_error([warning, *said]) == "The table `y` cannot be found."
    assert first_error([]) == "the engine ended without a word"
