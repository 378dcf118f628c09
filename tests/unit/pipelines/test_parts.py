"""The small pure parts: SQL references, Spark's errors, progress, restarts, metrics, durations."""

# ruff: noqa: E501  (Spark writes long lines)
from __future__ import annotations

from pathlib import Path

import pytest

from moldau.model.ids import TopicPartition
from moldau.pipelines.durations import parse_ms, spoken
from moldau.pipelines.failures import explain, failed_at, hint_for, place_in_files
from moldau.pipelines.metrics import MetricsServer, render
from moldau.pipelines.places import Place, Text
from moldau.pipelines.progress import Follower, Meter, QueryFacts
from moldau.pipelines.restarts import RestartBudget
from moldau.pipelines.spec import Restart
from moldau.pipelines.sql_names import relations


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT 1", []),
        ("SELECT * FROM a", ["a"]),
        ("select * from A join b on A.x = b.x left outer join c using (x)", ["A", "b", "c"]),
        ("SELECT * FROM a, b AS bb, c cc WHERE x IN (SELECT y FROM d)", ["a", "b", "c", "d"]),
        ("SELECT a, b FROM x GROUP BY a, b", ["x"]),
        ("SELECT extract(HOUR FROM at), trim(BOTH 'x' FROM y) FROM t", ["t"]),
        ("SELECT * FROM t WHERE a IS DISTINCT FROM b AND c IS NOT DISTINCT FROM d", ["t"]),
        ("SELECT 'FROM nowhere' FROM t -- FROM comment\n/* FROM\nblock */", ["t"]),
        ("WITH w AS (SELECT * FROM a), v(x) AS (SELECT * FROM w) SELECT * FROM w JOIN v JOIN b", ["a", "b"]),
        ("SELECT * FROM db.t JOIN `od``d name` JOIN range(10)", ["od`d name"]),
        ("SELECT * FROM (SELECT * FROM a) x JOIN (b JOIN c)", ["a", "b", "c"]),
        ("SELECT * FROM a LATERAL VIEW explode(xs) AS x", ["a"]),
        ("SELECT * FROM a UNION ALL SELECT y, z FROM b", ["a", "b"]),
        ("FROM a SELECT x, y", ["a"]),
        ("SELECT * FROM STREAM(a) JOIN STREAM b", ["a", "b"]),
        ("SELECT count(*) FILTER (WHERE x) OVER (PARTITION BY y ORDER BY z), w FROM a", ["a"]),
        ("SELECT * FROM VALUES (1), (2) AS t(x)", []),
    ],
)
def test_relations_of_a_text(sql: str, names: list[str]) -> None:
    found = relations(sql)
    assert [each.name for each in found] == names
    for each in found:
        assert sql[each.index :].lstrip("`").startswith(each.name.split("`")[0])


@pytest.mark.parametrize(
    ("said", "sentence", "where"),
    [
        (
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `usr` cannot be resolved. Did you mean `user`?"
            " SQLSTATE: 42703; line 2 pos 7;\n'Project ['usr]\n+- View",
            "A column with name `usr` cannot be resolved. Did you mean `user`?",
            (2, 7),
        ),
        (
            "\n[PARSE_SYNTAX_ERROR] Syntax error at or near '='. SQLSTATE: 42601 (line 1, pos 20)\n\n== SQL ==\n...",
            "Syntax error at or near '='.",
            (1, 20),
        ),
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: Task 0"
            " in stage 1.0 failed 1 times, most recent failure: Lost task 0.0 in stage 1.0 (TID 3) (host executor driver):"
            ' org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  File "/x/steps.py", line'
            " 4, in f\n    raise ValueError('no')\nValueError: no such thing: 7\n\n\tat org.apache... SQLSTATE: XXKST",
            "ValueError: no such thing: 7",
            (None, None),
        ),
        (
            "An error occurred while calling o91.start.\n: org.apache.spark.SparkException: Python worker failed to connect"
            " back.\n\tat org.apache",
            "Python worker failed to connect back.",
            (None, None),
        ),
        (
            "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR]"
            " Failed when Python streaming data source perform initialOffset: moldau.spark.session.BrokersUnreachable: no"
            ' broker answers at a:1: refused\nTraceback (most recent call last):\n  File "/x/y.py", line 4, in f\n',
            "BrokersUnreachable: no broker answers at a:1: refused",
            (None, None),
        ),
        ("java.lang.IllegalStateException: the disk is gone\n\tat x.y", "the disk is gone", (None, None)),
        ("", "", (None, None)),
    ],
)
def test_errors_in_one_sentence(said: str, sentence: str, where: tuple[int | None, int | None]) -> None:
    found = explain(said)
    assert (found.sentence, (found.line, found.position)) == (sentence, where)


def test_errors_are_placed_in_the_users_files() -> None:
    folder = Path("/home/me/shop")
    trace = 'File "/usr/lib/x.py", line 1\nFile "/home/me/shop/steps.py", line 12, in f\nFile "/usr/lib/y.py", line 3'
    assert place_in_files(trace, folder) == Place("/home/me/shop/steps.py", 12)
    assert place_in_files('File "/home/me/shop/.venv/site-packages/z.py", line 3', folder) is None
    sql = Text("SELECT a\nFROM b", Place("p.yaml", 7, 10), first_line=8, indent=6)
    failure = failed_at(ValueError("no such column; line 2 pos 5"), sql, Place("p.yaml", 1), folder, "step 'x'")
    assert failure.place == Place("p.yaml", 9, 12)
    assert failure.line().startswith("p.yaml:9:12: step 'x': ValueError: no such column")
    nameless = failed_at(KeyError("total"), None, Place("p.yaml", 1), folder, "step 'x'")
    assert nameless.what == "step 'x': KeyError: 'total'"


def test_output_mode_errors_get_a_hint() -> None:
    assert "watermark" in hint_for(
        "[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: append."
    )
    assert hint_for("something else") == ""


@pytest.mark.parametrize(
    ("text", "ms"),
    [("500ms", 500), ("10s", 10_000), ("10 seconds", 10_000), ("1.5m", 90_000), ("2 Hours", 7_200_000), ("1d", 86_400_000),
     ("10", None), ("s", None), ("10 parsecs", None), ("-1s", None)],
)  # fmt: skip
def test_durations(text: str, ms: int | None) -> None:
    assert parse_ms(text) == ms


def test_durations_for_spark() -> None:
    assert (spoken(1_500), spoken(60_000)) == ("1500 milliseconds", "60 seconds")


def test_restarts_double_their_pause_and_end_at_the_limit() -> None:
    budget = RestartBudget(
        Restart("on-failure", failures_max=4, within_ms=100_000, backoff_ms=1_000, backoff_max_ms=3_000)
    )
    assert [budget.failed(now) for now in (0, 1, 2, 3, 4)] == [1_000, 2_000, 3_000, 3_000, None]


def test_old_failures_are_forgiven() -> None:
    budget = RestartBudget(Restart(failures_max=1, within_ms=1_000, backoff_ms=10))
    assert [budget.failed(now) for now in (0, 1_000, 1_500)] == [10, 10, None]


def test_never_means_never() -> None:
    assert RestartBudget(Restart(policy="never")).failed(0) is None


def report(batch: int, rows: int, at: str, **more: object) -> dict[str, object]:
    return {
        "batchId": batch, "timestamp": at, "numInputRows": rows, "durationMs": {"addBatch": 5, "triggerExecution": 40},
        "sink": {"numOutputRows": rows // 2}, **more,
    }  # fmt: skip


def test_progress_adds_up_each_report_once() -> None:
    follower = Follower(QueryFacts("q"))
    source = {"description": "moldau[x]", "endOffset": {"x": {"0": 5, "1": 7}, "#id x abc": {}}}
    first = report(0, 10, "t0", sources=[source], stateOperators=[{"numRowsTotal": 3, "memoryUsedBytes": 100}])
    follower.take([first, first], now_ms=0)
    assert not follower.is_new(first)
    assert follower.missed(report(2, 1, "t2"))
    follower.take([first, report(1, 20, "t1"), report(2, 30, "t2", eventTime={"watermark": "w"})], now_ms=1_000)
    follower.take([{"batchId": 3, "timestamp": "t3", "numInputRows": 0, "durationMs": {"triggerExecution": 1}}], 2_000)
    follower.refresh(2_000)
    facts = follower.facts
    assert (facts.input_rows, facts.output_rows, facts.batch_id, facts.batch_ms) == (60, 30, 2, 40)
    assert (facts.state_rows, facts.state_bytes, facts.watermark) == (3, 100, "w")
    assert facts.input_rows_per_second == 30
    assert follower.positions == {TopicPartition("x", 0): 5, TopicPartition("x", 1): 7}


def test_an_error_is_over_when_a_batch_has_passed() -> None:
    follower = Follower(QueryFacts("q", error="the bomb went off"))
    follower.take([{"batchId": 3, "timestamp": "t0", "numInputRows": 0, "durationMs": {"triggerExecution": 1}}], 0)
    assert follower.facts.error == "the bomb went off"  # an idle report proves nothing
    follower.take([report(3, 1, "t1")], 0)
    assert follower.facts.error is None


def test_rates_fall_to_zero() -> None:
    meter = Meter()
    meter.add(0, 100)
    assert meter.rate(1_000) == 100
    assert meter.rate(5_000) == 20
    assert meter.rate(10_000) == 0


def test_metrics_as_prometheus_reads_them() -> None:
    facts = QueryFacts('a"b', state="running", input_rows=12_345_678, lag_seconds=1.5, batch_ms=250)
    text = render("shop", "running", [facts])
    assert 'moldau_pipeline_up{pipeline="shop"} 1' in text
    assert 'moldau_pipeline_input_rows_total{pipeline="shop",query="a\\"b"} 12345678' in text
    assert 'moldau_pipeline_batch_duration_seconds{pipeline="shop",query="a\\"b"} 0.25' in text
    assert "moldau_pipeline_lag_records{" not in text  # not known is not zero
    assert "moldau_pipeline_batch_id{" not in text
    for line in text.splitlines():
        assert line.startswith(("# HELP ", "# TYPE ", "moldau_pipeline_"))


def test_metrics_are_served() -> None:
    import urllib.error
    import urllib.request

    server = MetricsServer(0, lambda: "x 1\n", host="127.0.0.1")
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=60) as answer:
            assert answer.read() == b"x 1\n"
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/other", timeout=60)
    finally:
        server.close()
