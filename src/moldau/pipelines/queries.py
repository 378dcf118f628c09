"""Sinks as streaming queries: each is one query of its own, with its own checkpoint folder and consumer group."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from moldau.pipelines import options
from moldau.pipelines.failures import PipelineFailed, failed_at, passes
from moldau.pipelines.frames import Frames
from moldau.pipelines.places import Mistakes, Place, Text
from moldau.pipelines.spec import (
    ConsoleTarget,
    FileTarget,
    LakeTarget,
    Pipeline,
    Sink,
    TableTarget,
    TopicSource,
    TopicTarget,
)

T = TypeVar("T")
TRIES: Final = 6
logger = logging.getLogger("moldau.pipelines")


@dataclass(frozen=True, slots=True)
class Plan:
    """One query to be: a sink, or the dead letters of a source."""

    name: str
    group: str
    checkpoint: str
    sink: Sink | None = None
    dead_letters: TopicSource | None = None
    trigger_ms: int | None = None


def plan_queries(pipeline: Pipeline, *, once: bool = False) -> list[Plan]:
    """Every query of a pipeline, named `<pipeline>.<sink>`."""
    several = len(pipeline.sinks) > 1
    plans = [
        Plan(
            name=f"{pipeline.name}.{sink.name}",
            group=f"pipeline.{pipeline.name}.{sink.name}" if several else f"pipeline.{pipeline.name}",
            checkpoint=f"{pipeline.checkpoint}/{sink.name}",
            sink=sink,
            trigger_ms=None if once else sink.trigger_ms,
        )
        for sink in pipeline.sinks
    ]
    return plans + [
        Plan(
            name=f"{pipeline.name}.dead_letter.{source.name}",
            group=f"pipeline.{pipeline.name}.dead_letter.{source.name}",
            checkpoint=f"{pipeline.checkpoint}/dead_letter.{source.name}",
            dead_letters=source,
            trigger_ms=None if once else pipeline.trigger_ms,
        )
        for source in pipeline.dead_letters
    ]


def patiently(work: Callable[[], T]) -> T:
    """Try again what a busy machine did not do in time."""
    for _ in range(TRIES - 1):
        try:
            return work()
        except PipelineFailed as failure:
            if not passes(failure.__cause__):
                raise
            logger.warning("trying again: %s", failure.what)
    return work()


def start_query(spark: Any, pipeline: Pipeline, plan: Plan) -> Any:
    """Build the frames of a query and start it. `PipelineFailed` names the place of what does not work."""
    return patiently(lambda: _start_query(spark, pipeline, plan))


def _start_query(spark: Any, pipeline: Pipeline, plan: Plan) -> Any:
    frames = Frames(spark, pipeline)
    if plan.sink is None:
        assert plan.dead_letters is not None
        return _start_dead_letters(frames, pipeline, plan, plan.dead_letters)
    sink = plan.sink
    frame = frames.build(sink.source.value, plan.group)
    try:
        if isinstance(sink.target, TopicTarget):
            frame = topic_rows(frame, sink.target)
        writer = _writer(frame, sink, plan)
        return _start(writer, sink, plan)
    except Exception as error:
        raise _sink_failed(error, sink, pipeline) from error


def resolve_all(spark: Any, pipeline: Pipeline) -> Mistakes:
    """Resolve everything before anything runs, so that a mistake in the last sink does not start the first."""
    mistakes = Mistakes()
    for sink in pipeline.sinks:
        try:
            frame = patiently(partial(Frames(spark, pipeline).build, sink.source.value, "unused"))
        except PipelineFailed as failure:
            mistakes.add(failure.place or sink.place, failure.what, failure.hint)
            continue
        try:
            if isinstance(sink.target, TopicTarget):
                topic_rows(frame, sink.target)
        except Exception as error:
            told = _sink_failed(error, sink, pipeline)
            mistakes.add(told.place or sink.place, told.what, told.hint)
    return mistakes


def _sink_failed(error: Exception, sink: Sink, pipeline: Pipeline) -> PipelineFailed:
    said = str(error)
    place = sink.mode_place if "OUTPUT_MODE" in said or "output mode" in said else _expression_place(said, sink.target)
    return failed_at(error, None, place or sink.place, pipeline.file.absolute().parent, f"sink '{sink.name}'")


def _expression_place(said: str, target: Any) -> Place | None:
    """Where the expression stands that names what the error says cannot be resolved."""
    found = re.search(r"name `([^`]+)`", said)
    if found is None or not isinstance(target, TopicTarget):
        return None
    texts = [target.key, target.value, *target.headers.values(), target.partition, target.timestamp]
    return next((text.place for text in texts if isinstance(text, Text) and found.group(1) in text.value), None)


def topic_rows(frame: Any, target: TopicTarget, *, may_ask: bool = True) -> Any:
    """The columns that format `moldau` writes: key, value, and what else was asked for.

    A declarative engine forbids to ask a frame for its columns' types (`may_ask`); keys are then always text.
    """
    from pyspark.sql import functions as F

    chosen = [_value(target.value).alias("value")]
    if target.key is not None:
        key = _value(target.key)
        chosen.append((key if may_ask else key.cast("string")).alias("key"))
    if target.headers:
        pairs = [
            F.struct(F.lit(name).alias("key"), F.expr(text.value).cast("string").cast("binary").alias("value"))
            for name, text in target.headers.items()
        ]
        chosen.append(F.array(*pairs).alias("headers"))
    if target.partition is not None:
        chosen.append(F.expr(target.partition.value).cast("int").alias("partition"))
    if target.timestamp is not None:
        chosen.append(F.expr(target.timestamp.value).alias("timestamp"))
    rows = frame.select(*chosen)
    if not may_ask:
        return rows
    kinds = dict(rows.dtypes)
    if kinds.get("timestamp", "timestamp") not in ("timestamp", "bigint"):  # a whole number is milliseconds
        rows = rows.withColumn("timestamp", F.col("timestamp").cast("timestamp"))
    for name in ("key", "value"):
        if kinds.get(name, "binary") not in ("string", "binary"):
            rows = rows.withColumn(name, F.col(name).cast("string"))
    return rows


def _value(wanted: Text | tuple[str, ...] | None) -> Any:
    from pyspark.sql import functions as F

    if isinstance(wanted, Text):
        return F.expr(wanted.value)
    if wanted is None:
        return F.to_json(F.struct(F.col("*")))
    return F.to_json(F.struct(*(F.col(f"`{name}`") for name in wanted)))


def _writer(frame: Any, sink: Sink, plan: Plan) -> Any:
    writer = frame.writeStream.queryName(plan.name).outputMode(sink.mode).option("checkpointLocation", plan.checkpoint)
    return with_trigger(writer, plan.trigger_ms)


def with_trigger(writer: Any, trigger_ms: int | None) -> Any:
    return (
        writer.trigger(availableNow=True)
        if trigger_ms is None
        else writer.trigger(processingTime=f"{trigger_ms} milliseconds")
    )


def _start(writer: Any, sink: Sink, plan: Plan) -> Any:
    target = sink.target
    match target:
        case TopicTarget():
            given = {**options.writing(target), **sink.options}
            if sink.mode == "append":
                return writer.format("moldau").options(**given).start()
            from moldau.pipelines.topic_batches import TopicBatches

            return writer.foreachBatch(TopicBatches(given, plan.checkpoint, exactly_once=target.exactly_once)).start()
        case FileTarget():
            if target.partition_by:
                writer = writer.partitionBy(*target.partition_by)
            return writer.format(target.format).options(**sink.options).start(target.path)
        case LakeTarget():
            from moldau.pipelines.lake import LakeWriter

            return writer.foreachBatch(LakeWriter(target, sink.mode, plan.checkpoint, dict(sink.options))).start()
        case TableTarget():
            return _start_table(writer, sink, target)
        case ConsoleTarget():
            return writer.format("console").options(**{"truncate": "false", **sink.options}).start()


def _start_table(writer: Any, sink: Sink, target: TableTarget) -> Any:
    if sink.mode == "complete":
        from moldau.pipelines.lake import TableReplacer

        return writer.foreachBatch(TableReplacer(target, dict(sink.options))).start()
    if target.partition_by:
        writer = writer.partitionBy(*target.partition_by)
    return writer.format(target.format or "parquet").options(**sink.options).toTable(target.table)


def _start_dead_letters(frames: Frames, pipeline: Pipeline, plan: Plan, source: TopicSource) -> Any:
    assert source.dead_letter is not None
    rows = frames.dead_letters(source, plan.group)
    target = TopicTarget(topic=source.dead_letter, bootstrap=source.bootstrap, kafka=source.kafka)
    try:
        writer = rows.writeStream.queryName(plan.name).option("checkpointLocation", plan.checkpoint)
        return with_trigger(writer, plan.trigger_ms).format("moldau").options(**options.writing(target)).start()
    except Exception as error:
        folder = pipeline.file.absolute().parent
        raise failed_at(error, None, source.dead_letter.place, folder, f"dead letters of '{source.name}'") from error
