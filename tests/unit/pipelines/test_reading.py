"""From a file to a spec: what each key becomes, and where every mistake is told."""

# ruff: noqa: E501  (messages are compared as people see them, in one line)
from __future__ import annotations

import re
from pathlib import Path

import pytest

from moldau.pipelines.load import load, load_or_raise
from moldau.pipelines.places import Mistakes, PipelineMistaken, Place
from moldau.pipelines.spec import (
    ConsoleTarget,
    FileSource,
    FileTarget,
    JdbcSource,
    LakeTarget,
    Pipeline,
    PythonStep,
    RateSource,
    Restart,
    SqlStep,
    StatefulStep,
    TableTarget,
    TopicSource,
    TopicTarget,
)

GOOD = """\
pipeline: shop
bootstrap: ${BROKERS:-localhost:9092}
kafka: {request.timeout.ms: 5s}
trigger: 2s
checkpoint: ./state/${WHERE:-here}
restart: {policy: on-failure, max: 3, within: 5m, backoff: 500ms, backoff_max: 10s}
spark: {spark.sql.shuffle.partitions: 4}

sources:
  views:
    topic: page_views
    start: -10m
    schema: user STRING, at TIMESTAMP
    key_format: binary
    metadata: [key, offset, headers]
    watermark: {column: at, delay: 10 seconds}
    dead_letter: page_views.bad
    max_per_batch: ${N:-100}
  users: {topics: [a, b], read: table, latest_by: _key, format: string, start: earliest}
  drops: {files: ./drops, format: csv, read: stream, schema: "x INT", options: {header: true}, max_per_batch: 5}
  rates: {jdbc: "jdbc:postgresql://db/x", table: rates, options: {user: me}}
  ticks: {rate: 7}

steps:
  - name: joined
    sql: |
      SELECT v.user, u.value
      FROM views v
        JOIN users u ON v._key = u._key
  - {name: clean, python: "steps.py:clean", with: {least: 3, names: [a, b]}}
  - name: sessions
    stateful: {processor: "steps.py:Sessions", from: views, by: [user], output: "user STRING", time: event, mode: update}

sinks:
  - {from: joined, topic: out, key: user, value: [user, value], headers: {a: "'b'"}, guarantee: at-least-once}
  - {from: clean, parquet: out/clean, partition_by: day, trigger: available-now}
  - {from: sessions, delta: out/sessions, merge_on: [user], order_by: user, mode: update}
  - from: ticks
    name: iced
    iceberg: lake.ticks
    catalog: {type: sql, uri: "sqlite:///lake/c.db", warehouse: lake}
  - {from: ticks, name: shown, console: true, mode: append}
  - {from: ticks, name: kept, table: ticks, mode: complete}
"""
STEPS = """
class Sessions:
    pass


def clean(spark, drops, rates, least, names, more=1):
    return drops
"""


def write(folder: Path, text: str, name: str = "shop.yaml") -> Path:
    (folder / "steps.py").write_text(STEPS)
    path = folder / name
    path.write_text(text)
    return path


def read(folder: Path, text: str, **variables: str) -> Pipeline:
    return load_or_raise(write(folder, text), variables)


def mistakes_of(folder: Path, text: str, **variables: str) -> list[str]:
    """Mistakes as `line:column what (hint)`."""
    mistakes = Mistakes()
    path = write(folder, text)
    load(path, variables, mistakes)
    return [
        f"{each.place.line}:{each.place.column} {each.what}" + (f" ({each.hint})" if each.hint else "")
        for each in sorted(mistakes.found)
    ]


def test_every_part_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD)
    assert (found.name, found.bootstrap, found.trigger_ms, found.engine) == (
        "shop",
        "localhost:9092",
        2_000,
        "streaming",
    )
    assert found.checkpoint == str(tmp_path / "state/here")
    assert found.restart == Restart("on-failure", 3, 300_000, 500, 10_000)
    assert found.spark == {"spark.sql.shuffle.partitions": "4"}

    views = found.sources["views"]
    assert isinstance(views, TopicSource)
    assert (views.topics, views.start.value, views.format, views.key_format) == (
        ("page_views",),
        "-10m",
        "json",
        "binary",
    )
    assert views.metadata == ("key", "offset", "headers")
    assert views.watermark is not None
    assert (views.watermark.column, views.watermark.delay_ms) == ("at", 10_000)
    assert views.dead_letter is not None
    assert views.max_per_batch == 100
    assert views.kafka == {"request.timeout.ms": "5000"}
    users = found.sources["users"]
    assert isinstance(users, TopicSource)
    assert (users.topics, users.stream, users.latest_by, users.format) == (("a", "b"), False, ("_key",), "string")
    drops = found.sources["drops"]
    assert isinstance(drops, FileSource)
    assert (drops.path, drops.stream, drops.options) == (str(tmp_path / "drops"), True, {"header": "true"})
    assert isinstance(found.sources["rates"], JdbcSource)
    assert isinstance(found.sources["ticks"], RateSource)

    joined, clean, sessions = found.steps.values()
    assert isinstance(joined, SqlStep)
    assert isinstance(clean, PythonStep)
    assert clean.arguments == {"least": 3, "names": ["a", "b"]}
    assert isinstance(sessions, StatefulStep)
    assert (sessions.by, sessions.time, sessions.mode, sessions.pandas) == (("user",), "event", "update", False)

    out, parquet, delta, iced, shown, kept = found.sinks
    assert isinstance(out.target, TopicTarget)
    assert (out.name, out.trigger_ms, out.target.exactly_once) == ("joined", 2_000, False)
    assert out.target.value == ("user", "value")
    assert {name: text.value for name, text in out.target.headers.items()} == {"a": "'b'"}
    assert parquet.target == FileTarget(format="parquet", path=str(tmp_path / "out/clean"), partition_by=("day",))
    assert parquet.trigger_ms is None
    assert isinstance(delta.target, LakeTarget)
    assert delta.target.merge_on == ("user",)
    assert isinstance(iced.target, LakeTarget)
    assert iced.target.catalog["uri"] == f"sqlite:///{tmp_path}/lake/c.db"
    assert iced.target.catalog["warehouse"] == str(tmp_path / "lake")
    assert isinstance(shown.target, ConsoleTarget)
    assert isinstance(kept.target, TableTarget)


def test_variables_win_over_defaults_and_may_be_numbers(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD, BROKERS="a:1,b:2", N="7", WHERE="$x")
    views = found.sources["views"]
    assert isinstance(views, TopicSource)
    assert (found.bootstrap, views.max_per_batch) == ("a:1,b:2", 7)
    assert found.checkpoint.endswith("state/$x")  # what a variable brings is not looked through again


def test_sql_knows_where_its_lines_are(tmp_path: Path) -> None:
    step = read(tmp_path, GOOD).steps["joined"]
    assert isinstance(step, SqlStep)
    lines = GOOD.splitlines()
    place = step.sql.at(3, 7)
    assert lines[place.line - 1][place.column - 1 :].startswith("users u ON")
    assert step.sql.at_index(step.sql.value.index("views")) == Place(
        str(tmp_path / "shop.yaml"), 1 + next(i for i, line in enumerate(lines) if "FROM views" in line), 12
    )


MINIMAL = """\
pipeline: p
sources:
  s: {rate: 1}
sinks:
  - {from: s, console: true}
"""


def test_defaults(tmp_path: Path) -> None:
    found = read(tmp_path, MINIMAL)
    assert (found.trigger_ms, found.bootstrap, found.restart) == (1_000, "localhost:9092", Restart())
    assert found.checkpoint == str(tmp_path / ".moldau/p")
    assert read(tmp_path, MINIMAL, MOLDAU_BOOTSTRAP="there:1").bootstrap == "there:1"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("pipeline: p", "pipelin: p", ["1:1 the pipeline has no key 'pipelin' (did you mean 'pipeline'?)",
                                       "1:1 the pipeline needs 'pipeline'"]),
        ("pipeline: p", "pipeline: 7up", ["1:11 '7up' is not a name (letters, digits, '_', '.', '-'; not starting with a digit)"]),
        ("pipeline: p", "pipeline: p\nbootstrap: host:x", ["2:12 'host:x' is not HOST:PORT"]),
        ("pipeline: p", "pipeline: p\ntrigger: soon", ["2:10 'soon' is not a trigger (available-now, or a duration such as 500ms, 90s, 10m, 1h30m or 7d)"]),
        ("pipeline: p", "pipeline: p\nengine: declaritive", ["2:9 engine 'declaritive' is unknown in the pipeline (did you mean 'declarative'?)"]),
        ("pipeline: p", "pipeline: p\nrestart: sometimes", ["2:10 restart 'sometimes' is unknown in the pipeline (known: on-failure, never)"]),
        ("pipeline: p", "pipeline: p\nrestart: {max: -1, wthin: 3}", ["2:16 'max' of 'restart' must be a whole number, at least 0",
                                                                        "2:20 'restart' has no key 'wthin' (did you mean 'within'?)"]),
        ("pipeline: p", "pipeline: p\ncheckpoint: ${HOME_OF_STATE}/x", ["2:13 the variable HOME_OF_STATE is not set (set it, or write ${HOME_OF_STATE:-default})"]),
        ("pipeline: p", "pipeline: p\ncheckpoint: a-${}-b", ["2:15 '${}' is not a variable (write ${NAME} or ${NAME:-default}; $${ for a plain ${)"]),
        ("pipeline: p", "pipeline: p\npipeline: q", ["2:1 'pipeline' is given twice (first at line 1)"]),
        ("{rate: 1}", "{rate: 1, topic: x}", ["3:6 source 's' has 'topic' and 'rate' (exactly one of: topic, topics, pattern, files, jdbc, rate)".replace("3:6", "3:7")]),
        ("{rate: 1}", "{}", ["3:6 source 's' does not say what it is (exactly one of: topic, topics, pattern, files, jdbc, rate)"]),
        ("{rate: 1}", "{topik: x}", ["3:6 source 's' does not say what it is ('topik': did you mean 'topic'?)", "3:6 source 's' needs 'schema'"]),
        ("{rate: 1}", "{topik: x, schema: a INT, formt: csv, start: soon}", [
            "3:6 source 's' does not say what it is ('topik': did you mean 'topic'?)",
            "3:32 source 's' has no key 'formt' (did you mean 'format'?)",
            "3:51 'soon' is not a start (earliest, latest, -10m, @2026-11-15T10:00, or Spark's JSON of offsets)",
        ]),
        ("{rate: 1}", "{rate: 1, topic: x, watrmark: 1}", [
            "3:7 source 's' has 'topic' and 'rate' (exactly one of: topic, topics, pattern, files, jdbc, rate)",
            "3:26 source 's' has no key 'watrmark' (did you mean 'watermark'?)",
        ]),
        ("{from: s, console: true}", "{from: s, mode: apend, trigger: soon, kafkas: 1}", [
            "5:5 sink 's' does not say what it is (exactly one of: topic, parquet, orc, json, csv, delta, iceberg, table, console)",
            "5:21 mode 'apend' is unknown in sink 's' (did you mean 'append'?)",
            "5:37 'soon' is not a trigger (available-now, or a duration such as 500ms, 90s, 10m, 1h30m or 7d)",
            "5:43 sink 's' has no key 'kafkas' (did you mean 'kafka'?)",
        ]),
        ("s: {rate: 1}", "1s: {rate: often}", None),
        ("{rate: 1}", "{rate: many}", ["3:13 'rate' of source 's' must be a whole number, not a text"]),
        ("{rate: 1}", "[1]", ["3:6 source 's' must be a mapping, not a list"]),
        ("{rate: 1}", "{topic: x}", ["3:6 source 's' needs 'schema'"]),
        ("{rate: 1}", "{topic: 'a b', format: string}", ["3:14 'a b' is not a topic name (up to 249 letters, digits, '.', '_', '-')"]),
        ("{rate: 1}", "{topic: x, format: jsn, schema: a INT}", ["3:25 format 'jsn' is unknown in source 's' (did you mean 'json'?)"]),
        ("{rate: 1}", "{topic: x, format: string, schema: a INT}", ["3:41 format 'string' has no schema (formats with one: json, avro)"]),
        ("{rate: 1}", "{topic: x, format: string, dead_letter: y}", ["3:33 every record parses as 'string', so 'dead_letter' has no use"]),
        ("{rate: 1}", "{topic: x, schema: a INT, dead_letter: x}", ["3:45 the dead letters would go back into the topic they come from"]),
        ("{rate: 1}", "{topic: x, schema: a INT, start: yesterday}", ["3:39 'yesterday' is not a start (earliest, latest, -10m, @2026-11-15T10:00, or Spark's JSON of offsets)"]),
        ("{rate: 1}", "{topic: x, schema: a INT, metadata: [offest]}", ["3:42 a record has no 'offest' (known: key, topic, partition, offset, timestamp, headers)"]),
        ("{rate: 1}", "{topic: x, schema: a INT, latest_by: a}", ["3:32 'latest_by' needs 'read: table'"]),
        ("{rate: 1}", "{topic: x, schema: a INT, watermark: {column: a}}", ["3:43 the watermark of source 's' needs 'delay'"]),
        ("{rate: 1}", "{topic: x, schema: a INT, watermark: {column: a, delay: 10}}", ["3:62 '10' is not a duration (a duration such as 500ms, 90s, 10m, 1h30m or 7d)"]),
        ("{rate: 1}", "{pattern: 'a(', schema: a INT}", ["3:16 the pattern is not a regular expression: missing ), unterminated subpattern at position 1"]),
        ("{rate: 1}", "{topic: x, schema_file: no.ddl}", None),
        ("{rate: 1}", "{topic: x, format: string, bootstrap: 'h:p'}", ["3:44 'h:p' is not HOST:PORT"]),
        ("console: true", "topic: x, bootstrap: 'h:p'", ["5:36 'h:p' is not HOST:PORT"]),
        ("{rate: 1}", "{files: x, format: csv, read: stream}", ["3:6 source 's' needs 'schema'"]),
        ("{rate: 1}", "{jdbc: postgres, table: x}", ["3:13 'postgres' is not a JDBC address (such as jdbc:postgresql://host/database)"]),
        ("{rate: 1}", "{jdbc: 'jdbc:x'}", ["3:6 source 's' needs either 'table' or 'query'"]),
        ("s: {rate: 1}", "9s: {rate: 1}", None),
        ("  - {from: s, console: true}", "  from: s", ["5:3 'sinks' must be a list, not a mapping (each entry begins with '- ')"]),
        ("from: s", "from: t", ["5:12 no source or step is called 't' (sources and steps: s)"]),
        ("console: true", "parquet: x, mode: complete", ["5:33 a parquet sink cannot be written in mode 'complete' (allowed: append)"]),
        ("console: true", "delta: x, mode: update", ["5:31 a delta sink cannot be written in mode 'update' (allowed: append, complete; 'update' needs 'merge_on')"]),
        ("console: true", "delta: x, order_by: y", ["5:25 'order_by' has a meaning only with 'merge_on'"]),
        ("console: true", "iceberg: x, catalog: {type: sql}", ["5:24 'x' is not a table with its database (such as lake.x)"]),
        ("console: true", "iceberg: a.x", ["5:5 sink 's' needs 'catalog' (such as {type: sql, uri: \"sqlite:///lake/catalog.db\", warehouse: lake})"]),
        ("console: true", "topic: x, keys: y", ["5:25 sink 's' has no key 'keys' (did you mean 'key'?)"]),
        ("console: true", "topic: x, guarantee: once", None),
        ("console: true}", "console: true}\n  - {from: s, console: true}", ["6:5 there are two sinks called 's' (the first is at line 5; give each a 'name')"]),
        (MINIMAL, "a: [", None),
        (MINIMAL, "", ["1:1 the file is empty"]),
        (MINIMAL, "- 1", ["1:1 the pipeline must be a mapping, not a list"]),
        (MINIMAL, "pipeline: p", ["1:1 the pipeline needs 'sinks'", "1:1 the pipeline needs 'sources'"]),
    ],
)  # fmt: skip
def test_mistakes_say_where_and_what_is_meant(tmp_path: Path, before: str, after: str, told: list[str] | None) -> None:
    assert before in MINIMAL
    found = mistakes_of(tmp_path, MINIMAL.replace(before, after))
    if told is None:
        assert found
    else:
        assert found == told


def with_step(step: str, sink: str = "{from: x, console: true}") -> str:
    return MINIMAL.replace("sinks:", f"steps:\n  - {step}\nsinks:").replace("{from: s, console: true}", sink)


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("{name: x, sql: SELECT * FROM ss}", ["5:34 no source or step is called 'ss' (did you mean 's'?)"]),
        ("{name: x, sql: SELECT * FROM x}", ["5:5 steps read each other in a circle: x <- x"]),
        ("{name: s, sql: SELECT 1 FROM s}", None),
        ("{sql: SELECT * FROM s}", None),
        ("{name: x}", ["5:5 step 'x' does not say what it is (exactly one of: sql, python, stateful)"]),
        ("{name: x, sql: SELECT * FROM s, with: {a: 1}}", None),
        ("{name: x, python: steps.py}", ["5:23 'steps.py' does not name Python code (such as transforms.py:enrich)"]),
        ("{name: x, python: 'steps.py:cleen'}", ["5:23 steps.py has no function 'cleen' (did you mean 'clean'?)"]),
        ("{name: x, python: 'gone.py:clean'}", None),
        ("{name: x, python: 'steps.py:clean'}", [
            "5:23 steps.py:clean wants 'drops', which nothing gives (a parameter is 'spark', a source, a step, or given by 'with')",
            "5:23 steps.py:clean wants 'least', which nothing gives (a parameter is 'spark', a source, a step, or given by 'with')",
            "5:23 steps.py:clean wants 'names', which nothing gives (a parameter is 'spark', a source, a step, or given by 'with')",
            "5:23 steps.py:clean wants 'rates', which nothing gives (a parameter is 'spark', a source, a step, or given by 'with')",
        ]),
        ("{name: x, stateful: {processor: 'steps.py:Sessions', from: s, by: value, output: a INT, time: event}}", [
            "5:63 step 'x' uses event time, and nothing it reads has a watermark (add 'watermark' to 's')".replace("5:63", "5:64")]),
        ("{name: x, stateful: {processor: 'steps.py:Sesions', from: s, by: value, output: a INT}}", [
            "5:37 steps.py has no class 'Sesions' (did you mean 'Sessions'?)"]),
        ("{name: x, stateful: {processor: 'steps.py:Sessions', form: s, by: value, output: a INT}}", None),
        ("{name: x, python: 'steps.py:other'}", ["5:23 steps.py has no function 'other' (steps.py has clean)"]),
        ("{name: x, sql: DROP TABLE s}", ["5:20 the SQL of step 'x' must be a query, not DROP (one SELECT)"]),
        ("{name: x, sql: '-- SELECT'}", ["5:20 the SQL of step 'x' must be a query (one SELECT)"]),
        ("{name: x, sql: '(select * from s) union (from s select *)'}", []),
        ("{name: S, sql: SELECT 1 FROM s}\n  - {name: x, sql: SELECT * FROM S}", [
            "5:5 'S' and 's' are one name (the source is at line 3; SQL does not care for case)",
            "5:5 steps read each other in a circle: S <- S"]),
    ],
)  # fmt: skip
def test_mistakes_of_steps(tmp_path: Path, step: str, told: list[str] | None) -> None:
    found = mistakes_of(tmp_path, with_step(step))
    if told is None:
        assert found
    else:
        assert found == told


def test_all_mistakes_come_at_once(tmp_path: Path) -> None:
    found = mistakes_of(tmp_path, MINIMAL.replace("rate: 1", "rate: x").replace("from: s", "from: t, mde: append"))
    assert len(found) == 3


def test_a_step_in_a_circle_names_the_circle(tmp_path: Path) -> None:
    text = with_step("{name: x, sql: SELECT * FROM y}\n  - {name: y, sql: SELECT * FROM s JOIN x}")
    assert mistakes_of(tmp_path, text) == ["5:5 steps read each other in a circle: x <- y <- x"]


def test_what_nothing_reads_is_told(tmp_path: Path) -> None:
    text = MINIMAL.replace("sinks:", "  lonely: {rate: 1}\nsinks:")
    assert mistakes_of(tmp_path, text) == [
        "4:11 nothing reads source 'lonely' (remove it, or name it in a step or sink)"
    ]


def test_tables_alone_do_not_run(tmp_path: Path) -> None:
    text = MINIMAL.replace("{rate: 1}", "{files: x, format: csv}")
    assert mistakes_of(tmp_path, text) == [
        "5:12 sink 's' reads only tables, and a stream is needed to run (add 'read: stream' to a source)"
    ]


def test_a_loop_through_a_topic_is_refused(tmp_path: Path) -> None:
    text = MINIMAL.replace("{rate: 1}", "{topic: x, format: string}").replace("console: true", "topic: x, value: value")
    (told,) = mistakes_of(tmp_path, text)
    assert "writes to 'x', which it reads through source 's'" in told


def test_processing_timers_do_not_end_with_available_now(tmp_path: Path) -> None:
    step = "{name: x, stateful: {processor: 'steps.py:Sessions', from: s, by: value, output: a INT, time: processing}}"
    text = with_step(step).replace("pipeline: p", "pipeline: p\ntrigger: available-now")
    (told,) = mistakes_of(tmp_path, text)
    assert told.startswith("6:5 step 'x' has processing-time timers")


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        ("{from: s, parquet: x}", "cannot write sink 's'"),
        ("{from: s, topic: x, mode: update}", "writes topics only in mode 'append'"),
        ("{from: s, table: x, trigger: 1s}", "has a trigger of its own"),
        ("{from: s, table: x}\n  - {from: s, name: y, table: y, mode: complete}", "feeds both a streaming table and a"),
    ],
)
def test_the_declarative_engine_says_what_it_cannot_do(tmp_path: Path, sink: str, told: str) -> None:
    text = MINIMAL.replace("pipeline: p", "pipeline: p\nengine: declarative\ntrigger: available-now")
    found = mistakes_of(tmp_path, text.replace("{from: s, console: true}", sink))
    assert [each for each in found if told in each], found
    without_trigger = MINIMAL.replace("pipeline: p", "pipeline: p\nengine: declarative").replace(
        "console: true", "table: x"
    )
    assert any("only with trigger 'available-now'" in each for each in mistakes_of(tmp_path, without_trigger))


def test_an_exception_carries_every_mistake(tmp_path: Path) -> None:
    with pytest.raises(PipelineMistaken) as caught:
        read(tmp_path, MINIMAL.replace("rate: 1", "rate: x"))
    assert [each.place.line for each in caught.value.mistakes] == [3]
    assert re.match(r".*shop\.yaml:3:13: 'rate' of source", str(caught.value))


def test_a_missing_or_binary_file_is_told(tmp_path: Path) -> None:
    mistakes = Mistakes()
    assert load(tmp_path / "none.yaml", {}, mistakes) is None
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    assert load(tmp_path / "binary.yaml", {}, mistakes) is None
    assert [each.what for each in mistakes.found] == [
        "the file cannot be read: No such file or directory",
        "the file is not text in UTF-8",
    ]
