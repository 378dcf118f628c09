"""What a spec becomes without Spark: options, queries, groups, the graph, the Python form, the declarative project."""

from __future__ import annotations

import ast
import json
import shlex
from pathlib import Path

import pytest

from moldau.pipelines import options, packages
from moldau.pipelines.checkpoint_owner import claim_checkpoint
from moldau.pipelines.declarative import DEFINITIONS, SPEC_FILE, command, definitions, generate, streaming_sql
from moldau.pipelines.failures import PipelineFailed
from moldau.pipelines.frames import Frames
from moldau.pipelines.graph import inputs, is_stream, needed_for
from moldau.pipelines.load import load, load_or_raise
from moldau.pipelines.places import Mistakes
from moldau.pipelines.queries import plan_queries
from moldau.pipelines.session import FILE_MANAGER, Where, settings
from moldau.pipelines.spec import Pipeline, PythonStep, SqlStep, TopicSource, TopicTarget

TOPICS = """\
pipeline: p
bootstrap: b:1
checkpoint: /state
sources:
  a: {topic: ta, schema: "x INT", start: "2026-01-01T00:00:00Z", max_per_batch: 9, kafka: {client.id: me}}
  b: {topic: tb, schema: "x INT", dead_letter: tb.bad, metadata: [], options: {failOnDataLoss: false}}
  c: {pattern: "tc.*", read: table, latest_by: _key, schema: "x INT", on_bad_record: drop, metadata: [timestamp]}
  d: {topic: td, format: string, start: -5m, metadata: [headers]}
steps:
  - {name: all, sql: "SELECT * FROM half JOIN d"}
  - {name: half, sql: "SELECT * FROM A JOIN b JOIN c"}
sinks:
  - {from: all, topic: out}
  - {from: a, name: raw, console: true, trigger: 5s}
"""


def read(folder: Path, text: str, name: str = "p.yaml") -> Pipeline:
    path = folder / name
    path.write_text(text)
    return load_or_raise(path, {})


def source(pipeline: Pipeline, name: str) -> TopicSource:
    found = pipeline.sources[name]
    assert isinstance(found, TopicSource)
    return found


def test_options_of_topic_sources(tmp_path: Path) -> None:
    found = read(tmp_path, TOPICS)
    a = options.reading(source(found, "a"), "g", stream=True)
    assert a == {
        "kafka.bootstrap.servers": "b:1", "subscribe": "ta", "kafka.group.id": "g", "kafka.client.id": "me",
        "startingTimestamp": "1767225600000", "startingOffsetsByTimestampStrategy": "latest",
        "value.format": "json", "value.mode": "FAILFAST", "value.schema": "x INT",
        "key.format": "string", "key.mode": "PERMISSIVE",
        "columns": "key,value,topic,partition,offset,timestamp", "maxOffsetsPerTrigger": "9",
    }  # fmt: skip
    b = options.reading(source(found, "b"), "g", stream=True)
    assert (b["value.mode"], b["columns"], b["failOnDataLoss"]) == ("DROPMALFORMED", "value", "false")
    bad = options.reading_bad(source(found, "b"), "g")
    assert bad["value.mode"] == "ONLYMALFORMED"
    assert "valueRaw" in bad["columns"]
    assert "key.format" not in bad  # as it came
    c = options.reading(source(found, "c"), "g", stream=False)
    assert (c["subscribePattern"], c["columns"]) == ("tc.*", "key,value,partition,offset,timestamp")
    assert "kafka.group.id" not in c
    # A table needs a column that Spark can be given a condition on; people do not see it.
    assert options.reading(source(found, "b"), "g", stream=False)["columns"] == "value,offset"
    assert options.columns(source(found, "b")) == ("value",)
    d = options.reading(source(found, "d"), "g", stream=True)
    assert (d["startingOffsets"], d["includeHeaders"], d["columns"]) == ("-300000ms", "true", "value,headers")
    out = found.sinks[0].target
    assert isinstance(out, TopicTarget)
    assert options.writing(out)["deliveryGuarantee"] == "exactly-once"


def test_the_source_and_the_sink_agree_with_these_options(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from moldau.pipelines.sql_check import check_options

    mistakes = Mistakes()
    check_options(read(tmp_path, TOPICS), mistakes)
    assert mistakes.found == []
    wrong = TOPICS.replace("failOnDataLoss", "failOnDataLos").replace("topic: out", "topic: out, kafka: {acks: 1}")
    check_options(read(tmp_path, wrong), mistakes)
    assert [(each.place.line, each.place.column) for each in mistakes.found] == [(6, 79), (13, 5)]
    assert "did you mean failOnDataLoss?" in mistakes.found[0].what


@pytest.mark.parametrize(
    ("keys", "column", "told"),
    [
        ("topic: t, schema: a INT, start: yesterday", 39, "'yesterday' is not a start"),
        ("topic: t, schema: a INT, start: '{x'", 39, "source 's': option startingOffsets"),
        ("pattern: 'a(', schema: a INT", 16, "the pattern is not a regular expression"),
        ("topic: t, schema: a WORD", 25, "source 's': "),
        ("topic: t", 6, "source 's' needs 'schema'"),
        ("topic: t, schema: a INT, key_format: json, key_schema: a WORD", 62, "source 's': "),
        ("topic: t, schema: a INT, options: {nosuch: 1}", 41, "source 's': unknown option 'nosuch'"),
    ],
)
def test_options_are_told_once_and_where_they_stand(tmp_path: Path, keys: str, column: int, told: str) -> None:
    pytest.importorskip("pyspark")
    from moldau.pipelines.sql_check import check_options

    mistakes = Mistakes()
    file = tmp_path / "p.yaml"
    file.write_text(f"pipeline: p\nsources:\n  s: {{{keys}}}\nsinks:\n  - {{from: s, topic: out}}\n")
    pipeline = load(file, {}, mistakes)
    assert pipeline is not None
    check_options(pipeline, mistakes)
    (found,) = mistakes.found
    assert (found.place.line, found.place.column) == (3, column)
    assert found.what.startswith(told)


def test_missing_packages_are_told_with_the_command_that_adds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda name: None if name == "deltalake" else name)
    text = TOPICS.replace("console: true", "delta: ./lake")
    mistakes = Mistakes()
    packages.check_packages(read(tmp_path, text), mistakes)
    (found,) = mistakes.found
    assert (found.place.line, found.what) == (14, "sink 'raw' needs the package 'deltalake'")
    assert found.hint == 'pip install "moldau[delta]"'


def test_a_checkpoint_belongs_to_one_pipeline(tmp_path: Path) -> None:
    def claim(name: str, checkpoint: str) -> list[str]:
        mistakes = Mistakes()
        head = f"pipeline: {name}\ncheckpoint: {checkpoint}\n"
        rest = "sources: {s: {rate: 1}}\nsinks: [{from: s, console: true}]\n"
        claim_checkpoint(read(tmp_path, head + rest), mistakes)
        return [f"{each.place.line}:{each.place.column} {each.what}" for each in mistakes.found]

    assert claim("one", "./state") == []
    assert claim("one", f"file://{tmp_path}/state") == []
    assert claim("two", "./state") == [f"2:13 {tmp_path}/state is the checkpoint of pipeline 'one'"]
    assert claim("two", "s3a://bucket/state") == []
    (tmp_path / "file").touch()
    (told,) = claim("two", "./file/state")
    assert told.startswith("2:13 the checkpoint cannot be written: ")


def test_each_sink_is_a_query_with_its_own_group_and_checkpoint(tmp_path: Path) -> None:
    found = read(tmp_path, TOPICS)
    plans = plan_queries(found)
    assert [(plan.name, plan.group, plan.checkpoint, plan.trigger_ms) for plan in plans] == [
        ("p.all", "pipeline.p.all", "/state/all", 1_000),
        ("p.raw", "pipeline.p.raw", "/state/raw", 5_000),
        ("p.dead_letter.b", "pipeline.p.dead_letter.b", "/state/dead_letter.b", 1_000),
    ]
    assert {plan.trigger_ms for plan in plan_queries(found, once=True)} == {None}
    alone = read(tmp_path, TOPICS.replace("  - {from: a, name: raw, console: true, trigger: 5s}\n", ""))
    assert plan_queries(alone)[0].group == "pipeline.p"


def test_the_graph_follows_names_in_any_case_and_order(tmp_path: Path) -> None:
    found = read(tmp_path, TOPICS)
    edges = inputs(found)
    assert edges == {"all": ("half", "d"), "half": ("a", "b", "c")}
    assert needed_for("all", edges) == ["a", "b", "c", "half", "d", "all"]
    assert is_stream(found, "all")
    assert not is_stream(found, "c")


def test_settings_of_the_command_win(tmp_path: Path) -> None:
    found = read(tmp_path, TOPICS + "spark: {spark.a: file, spark.b: file, spark.sql.shuffle.partitions: 3}\n")
    local = settings(found, Where(conf={"spark.b": "command"}))
    assert (local["spark.a"], local["spark.b"], local["spark.sql.shuffle.partitions"]) == ("file", "command", "3")
    assert local["spark.sql.streaming.checkpointFileManagerClass"] == FILE_MANAGER
    cluster = settings(found, Where(master="spark://h:7077"))
    assert "spark.driver.host" not in cluster
    remote = read(tmp_path, TOPICS.replace("/state", "s3a://bucket/state"))
    assert "spark.sql.streaming.checkpointFileManagerClass" not in settings(remote, Where())
    tables = read(tmp_path, TOPICS.replace("/state", "/my state").replace("console: true", "table: t"))
    assert shlex.split(settings(tables, Where())["spark.driver.extraJavaOptions"]) == [
        "-Dderby.stream.error.file=/my state/derby.log"
    ]


PYTHON = """\
from moldau.pipelines import Pipeline

p = Pipeline("p", bootstrap="b:1", trigger="2s")
p.source("words", topic="t", schema="word STRING",
         watermark={"column": "_timestamp", "delay": "1m"})
p.sql("some", "SELECT word FROM words")


class Counter:
    def __init__(self, least): ...


@p.step
def more(spark, some):
    return some


@p.step(name="most", with_={"n": 3})
def anything(more, n):
    return more


p.stateful("counts", Counter, from_="words", by=["word"], output="word STRING, n INT", time="event", with_={"least": 1})
p.sink(from_="most", topic="out", key="word")
p.sink(from_="counts", console=True, mode="update")
"""


def test_the_python_form_becomes_the_same_spec(tmp_path: Path) -> None:
    found = read(tmp_path, PYTHON, "form.py")
    assert (found.name, found.trigger_ms, list(found.steps)) == ("p", 2_000, ["some", "more", "most", "counts"])
    assert inputs(found) == {"some": ("words",), "more": ("some",), "most": ("more",), "counts": ("words",)}
    step = found.steps["more"]
    assert isinstance(step, PythonStep)
    assert step.function.given is not None
    assert isinstance(found.steps["some"], SqlStep)
    assert [sink.place.line for sink in found.sinks] == [24, 25]


@pytest.mark.parametrize(
    ("before", "after", "line", "told"),
    [
        ('"SELECT word FROM words"', '"SELECT word FROM wrds"', 6, "no source or step is called 'wrds'"),
        ("def more(spark, some)", "def more(spark, sme)", 13, "wants 'sme', which nothing gives"),
        ('with_={"least": 1}', 'with_={"most": 1}', 23, "takes no argument 'most'"),
        ('from_="most", topic', 'from_="most", topc', 24, "does not say what it is"),
        ("class Counter:", "class Counter(Missing):", 9, "NameError: name 'Missing' is not defined"),
        ("p.sql(", "p.sql((", 6, "SyntaxError"),
        ('p = Pipeline("p"', 'q = p = Pipeline("p"', 0, ""),
        ('p.sink(from_="counts"', 'Q = Pipeline("q")\np.sink(from_="counts"', 1, "exactly one Pipeline"),
    ],
)
def test_mistakes_of_the_python_form_name_the_line(
    tmp_path: Path, before: str, after: str, line: int, told: str
) -> None:  # fmt: skip
    path = tmp_path / "form.py"
    path.write_text(PYTHON.replace(before, after))
    mistakes = Mistakes()
    load(path, {}, mistakes)
    if not line:
        assert mistakes.found == []
        return
    assert any(each.place.line == line and told in each.what for each in mistakes.found), mistakes.found


DECLARED = """\
pipeline: d
engine: declarative
trigger: available-now
checkpoint: ./state
sources:
  a: {topic: ta, schema: "x INT", dead_letter: ta.bad}
  b: {topic: tb, schema: "x INT"}
  names: {files: ./n.json, format: json}
steps:
  - {name: joined, sql: "SELECT aa.x, n.* FROM a aa LEFT JOIN names n ON aa.x = n.x"}
  - {name: marked, sql: SELECT * FROM joined, watermark: {column: at, delay: 1s}}
  - {name: total, sql: SELECT count(*) AS n FROM b}
sinks:
  - {from: marked, table: lake.joined, partition_by: [x]}
  - {from: joined, name: out, topic: out, key: x}
  - {from: total, table: totals, mode: complete}
"""


BROKEN = """
class Plain:
    def __init__(self, limit):
        self.limit = {"a": 1}[limit]


def no(views):
    return views["total"]
"""


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("stateful: {processor: 'b.py:Plain', from: views, by: [a], output: a INT, with: {limit: a}}",
         "p.yaml:5:37: step 'x': b.py:Plain is no StatefulProcessor"
         " (derive the class from pyspark.sql.streaming.StatefulProcessor)"),
        ("stateful: {processor: 'b.py:Plain', from: views, by: [a], output: a INT, with: {limit: b}}",
         "b.py:4:1: step 'x': KeyError: 'b'"),
        ("python: 'b.py:no'", "b.py:8:1: step 'x': KeyError: 'total'"),
    ],
)  # fmt: skip
def test_code_of_the_user_that_fails_is_told_with_its_place(tmp_path: Path, step: str, told: str) -> None:
    pytest.importorskip("pyspark")
    (tmp_path / "b.py").write_text(BROKEN)
    head = f"pipeline: p\nsources:\n  views: {{rate: 1}}\nsteps:\n  - {{name: x, {step}}}\n"
    pipeline = read(tmp_path, head + "sinks: [{from: x, console: true}]\n")
    with pytest.raises(PipelineFailed) as failed:
        Frames(None, pipeline).step(pipeline.steps["x"], {"views": {}})
    assert failed.value.line() == f"{tmp_path}/{told}"


def test_the_declarative_project(tmp_path: Path) -> None:
    found = read(tmp_path, DECLARED)
    text = definitions(found)
    ast.parse(text)
    assert "SELECT aa.x, n.* FROM STREAM(a) aa LEFT JOIN names n ON aa.x = n.x" in text
    assert "SELECT count(*) AS n FROM b\n" in text  # a materialized view reads tables
    assert 'parts.source("b", stream=False)' in text
    assert "parts.step(\"marked\", {'joined': True})" in text
    assert "@dp.table(name=\"lake.joined\", partition_cols=['x'])" in text
    assert '@dp.materialized_view(name="totals")' in text
    assert 'parts.topic_rows("out", spark.readStream.table("joined"))' in text
    assert 'dp.create_sink("dead_letters_of_a"' in text
    generate(found, tmp_path / "project")
    spec = json.loads((tmp_path / "project" / SPEC_FILE).read_text())
    assert spec["name"] == "d"
    assert spec["configuration"]["spark.sql.pipelines.maxFlowRetryAttempts"] == "5"
    assert not [name for name in spec["configuration"] if "warehouse" in name or "catalogImplementation" in name]
    assert (tmp_path / "project" / DEFINITIONS).read_text() == text
    pytest.importorskip("pyspark")
    line = command(found, tmp_path, Where(conf={"spark.x": "1"}))
    assert line[1:3] == ["--remote", "local[*]"]
    assert "spark.sql.catalogImplementation hive\n" in (tmp_path / "project/conf/spark-defaults.conf").read_text()
    assert "spark.x=1" in line


def test_streams_are_marked_in_sql_only_where_they_are_read() -> None:
    sql = "SELECT a.a, 'a' FROM `a` a JOIN b ON a.a = b.a WHERE a IN (SELECT a FROM A)"
    assert streaming_sql(sql, {"a": True, "b": False}) == (
        "SELECT a.a, 'a' FROM STREAM(`a`) a JOIN b ON a.a = b.a WHERE a IN (SELECT a FROM STREAM(A))"
    )
