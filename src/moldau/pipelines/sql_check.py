"""What only Spark can judge without running anything: SQL syntax, expressions, schemas, options of topic sources.

Spark's parser runs in a bare JVM without a session, which takes a second or two instead of ten.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from moldau.pipelines import options
from moldau.pipelines.failures import explain
from moldau.pipelines.places import Mistakes, Place, Text
from moldau.pipelines.spec import (
    FileSource,
    LakeTarget,
    Pipeline,
    SqlStep,
    StatefulStep,
    TopicSource,
    TopicTarget,
)


def spark_is_installed() -> bool:
    import importlib.util

    return importlib.util.find_spec("pyspark") is not None


def check_options(pipeline: Pipeline, mistakes: Mistakes) -> None:
    """The options of format `moldau`, judged by the source and the sink themselves. Needs pyspark, but no Java."""
    from moldau.spark.option_names import judge_sink, judge_source
    from moldau.spark.sink import options as sink_options
    from moldau.spark.source import options as source_options

    for source in pipeline.sources.values():
        if isinstance(source, TopicSource):
            # Nobody brings options for another source along in a file that was written for moldau.
            for each in judge_source(source.options).warnings:
                mistakes.add(source.options_place, f"source '{source.name}': {each}")
            try:
                source_options.parse(options.reading(source, "group", stream=source.stream), streaming=source.stream)
            except ValueError as wrong:
                told = {mistake.place for mistake in mistakes.found}
                parsed = any(mistake.what.startswith(_schema_of(source)) for mistake in mistakes.found)
                for each in _new(wrong):
                    place = _place_in(source, each)
                    if place not in told and not (parsed and "value.schema" in each):
                        mistakes.add(place, f"source '{source.name}': {each}")
    for sink in pipeline.sinks:
        if isinstance(sink.target, TopicTarget):
            for each in judge_sink(sink.options).warnings:
                mistakes.add(sink.place, f"sink '{sink.name}': {each}")
            try:
                sink_options.parse({**options.writing(sink.target), **sink.options}, streaming=True)
            except ValueError as wrong:
                for each in _new(wrong):
                    mistakes.add(sink.place, f"sink '{sink.name}': {each}")


_TOLD_BY_READING: Final = ("is not a topic name", "is not HOST:PORT", "needs a schema")


def _new(wrong: ValueError) -> list[str]:
    """The mistakes that reading the file has not told yet, at a better place."""
    every = getattr(wrong, "mistakes", [str(wrong)])
    return [each for each in every if not any(words in each for words in _TOLD_BY_READING)]


def _place_in(source: TopicSource, mistake: str) -> Place:
    """Where the file says what the source complains about."""
    if mistake.startswith("option starting"):
        return source.start.place
    if mistake.startswith("option subscribePattern"):
        return source.topic_place
    schema = source.key_schema if "key.schema" in mistake else source.schema
    if "schema" in mistake and schema is not None:
        return schema.place
    return source.options_place if "option" in mistake else source.place


def _schema_of(source: TopicSource | FileSource) -> str:
    return f"schema of source '{source.name}'"


def check_sql(pipeline: Pipeline, mistakes: Mistakes) -> None:
    """Every SQL text, expression and schema, by Spark's own parser. Needs Java."""
    wanted = list(_texts(pipeline))
    if not wanted:
        return
    with _parser() as parser:
        for method, text, what in wanted:
            _check_one(getattr(parser, method), text, what, mistakes)


def _texts(pipeline: Pipeline) -> Iterator[tuple[str, Text, str]]:
    for source in pipeline.sources.values():
        if isinstance(source, FileSource) and source.schema is not None:
            yield "parseTableSchema", source.schema, _schema_of(source)
        if isinstance(source, TopicSource) and source.format == "json" and source.schema is not None:
            yield "parseTableSchema", source.schema, _schema_of(source)
    for step in pipeline.steps.values():
        if isinstance(step, SqlStep):
            yield "parsePlan", step.sql, f"step '{step.name}'"
        elif isinstance(step, StatefulStep):
            yield "parseTableSchema", step.output, f"output of step '{step.name}'"
    for sink in pipeline.sinks:
        for key, text in _expressions(sink.target):
            yield "parseExpression", text, f"'{key}' of sink '{sink.name}'"


def _expressions(target: Any) -> Iterator[tuple[str, Text]]:
    if isinstance(target, TopicTarget):
        found = {"key": target.key, "value": target.value, "partition": target.partition, "timestamp": target.timestamp}
        yield from ((key, text) for key, text in found.items() if isinstance(text, Text))
        yield from ((f"headers.{name}", text) for name, text in target.headers.items())
    elif isinstance(target, LakeTarget):
        for key, text in (("order_by", target.order_by), ("delete_when", target.delete_when)):
            if text is not None:
                yield key, text


def _check_one(parse: Any, text: Text, what: str, mistakes: Mistakes) -> None:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped, unused-ignore]

    try:
        parse(text.value.rstrip().rstrip(";"))
    except Py4JJavaError as error:
        explained = explain(str(error.java_exception.getMessage()))
        place = text.place
        if explained.line is not None and explained.position is not None:
            place = text.at(explained.line, explained.position)
        mistakes.add(place, f"{what}: {explained.sentence}")


@contextmanager
def _parser() -> Iterator[Any]:
    """Spark's parser in a JVM of its own that ends with the block."""
    from pyspark.java_gateway import launch_gateway

    logging.getLogger("py4j").setLevel(logging.ERROR)
    gateway = launch_gateway(popen_kwargs={"stderr": subprocess.DEVNULL})
    try:
        yield gateway.jvm.org.apache.spark.sql.execution.SparkSqlParser()
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()  # which tells the JVM to end
        gateway.proc.wait(timeout=20)
