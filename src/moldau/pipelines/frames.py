"""Sources and steps as Spark DataFrames. The same code serves classic Spark and Spark Connect.

Each query builds its own frames, because the consumer group that shows its progress is an option of the source. Views
are temporary and replaced by the next query that is built: a query must be started before the next one is built.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from moldau.pipelines import options
from moldau.pipelines.durations import spoken
from moldau.pipelines.failures import PipelineFailed, failed_at
from moldau.pipelines.graph import inputs, needed_for, python_arguments
from moldau.pipelines.places import Mistakes, Place, Text
from moldau.pipelines.python_code import CodeFailed, load_object, place_in, signature
from moldau.pipelines.read_sources import PARSED
from moldau.pipelines.spec import (
    FileSource,
    JdbcSource,
    Pipeline,
    PythonStep,
    RateSource,
    Source,
    SqlStep,
    StatefulStep,
    Step,
    TopicSource,
    Watermark,
)

_TIME_MODES = {"event": "EventTime", "processing": "ProcessingTime", "none": "None"}
_WRONG_SCHEMA = ("PARSE_SYNTAX_ERROR", "UNSUPPORTED_DATATYPE")


class Frames:
    """Builds what a query needs. `tables_only` reads every source as a table, for results computed anew each time."""

    def __init__(self, spark: Any, pipeline: Pipeline, *, tables_only: bool = False, declared: bool = False) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._tables_only = tables_only
        self._declared = declared
        self._edges = inputs(pipeline)
        self._folder = pipeline.file.absolute().parent

    def build(self, name: str, group: str) -> Any:
        """The DataFrame of a source or step; everything it needs becomes a view. `PipelineFailed` names the place."""
        built: dict[str, Any] = {}
        for each in needed_for(name, self._edges):
            source = self._pipeline.sources.get(each)
            frame = self.source(source, group) if source is not None else self.step(self._pipeline.steps[each], built)
            frame.createOrReplaceTempView(each)
            built[each] = frame
        return built[name]

    def _resolved(self, frame: Any) -> Any:
        """Connect looks at a plan only when asked. A declarative engine looks by itself, and forbids asking."""
        if not self._declared:
            _ = frame.schema
        return frame

    # -- sources -----------------------------------------------------------------------------------------------

    def source(self, source: Source, group: str) -> Any:
        try:
            frame = self._read(source, group)
            frame = _with_watermark(frame, source.watermark if source.stream and not self._tables_only else None)
            return self._resolved(frame)
        except Exception as error:
            text = source.schema if isinstance(source, TopicSource | FileSource) else None
            wrong_schema = text is not None and any(words in str(error) for words in _WRONG_SCHEMA)
            place = _watermark_place(error, source.watermark) or source.place
            raise failed_at(
                error, text if wrong_schema else None, place, self._folder, f"source '{source.name}'"
            ) from error  # fmt: skip

    def _read(self, source: Source, group: str) -> Any:
        stream = source.stream and not self._tables_only
        reader = self._spark.readStream if stream else self._spark.read
        match source:
            case TopicSource():
                given = options.reading(source, group, stream=stream)
                frame = reader.format("moldau").options(**given).load()
                return _flatten(frame if stream else frame.where(options.planned_each_time(source)), source)
            case FileSource():
                reader = reader.format(source.format).options(**source.options)
                if source.schema is not None:
                    reader = reader.schema(source.schema.value)
                if source.max_per_batch is not None and stream:
                    reader = reader.option("maxFilesPerTrigger", source.max_per_batch)
                return reader.load(source.path)
            case JdbcSource():
                reader = reader.format("jdbc").options(**source.options).option("url", source.url)
                if source.query is not None:
                    return reader.option("query", source.query.value).load()
                return reader.option("dbtable", source.table).load()
            case RateSource():
                given = {"rowsPerSecond": str(source.rows_per_second), **source.options}
                return self._spark.readStream.format("rate").options(**given).load()

    def dead_letters(self, source: TopicSource, group: str) -> Any:
        """The records that do not parse, as rows for format `moldau`."""
        try:
            frame = self._spark.readStream.format("moldau").options(**options.reading_bad(source, group)).load()
            return _dead_letter_rows(frame, source)
        except Exception as error:
            raise failed_at(error, None, source.place, self._folder, f"dead letters of '{source.name}'") from error

    # -- steps -------------------------------------------------------------------------------------------------

    def step(self, step: Step, built: dict[str, Any]) -> Any:
        """The frame of a step from the frames of what it reads."""
        text: Text | None = None
        try:
            if isinstance(step, SqlStep):
                text = step.sql
                frame = self._spark.sql(step.sql.value.rstrip().rstrip(";"))
            elif isinstance(step, PythonStep):
                frame = self._call(step, built)
            else:
                frame = _stateful(step, built[step.source.value])
            return self._resolved(_with_watermark(frame, step.watermark))
        except PipelineFailed:
            raise
        except CodeFailed as failure:
            raise PipelineFailed(f"step '{step.name}': {failure}", failure.place) from failure
        except Exception as error:
            if isinstance(step, StatefulStep) and any(words in str(error) for words in _WRONG_SCHEMA):
                text = step.output
            marked = _watermark_place(error, step.watermark)
            place = marked or _code_place(step, error)
            raise failed_at(
                error, None if marked else text, place, self._folder, f"step '{step.name}'"
            ) from error  # fmt: skip

    def watermarked(self, step: Step, frame: Any) -> Any:
        return _with_watermark(frame, step.watermark)

    def _call(self, step: PythonStep, built: dict[str, Any]) -> Any:
        function = load_object(step.function)
        wants_session, views = python_arguments(step, {**self._pipeline.sources, **self._pipeline.steps})
        arguments = {name: built[name] for name in views} | dict(step.arguments)
        if wants_session:
            arguments["spark"] = self._spark
        result = function(**arguments)
        if not hasattr(result, "createOrReplaceTempView"):
            raise PipelineFailed(
                f"step '{step.name}': {step.function} must return a DataFrame, not {type(result).__name__}",
                _function_place(step) or step.function.place,
            )
        return result


# -- inside ----------------------------------------------------------------------------------------------------------


def _flatten(frame: Any, source: TopicSource) -> Any:
    """The value's fields as columns, the record's own facts with a leading underscore."""
    from pyspark.sql import functions as F

    if source.latest_by:
        frame = _latest(frame, source)
    facts = [F.col(name).alias(f"_{name}") for name in options.columns(source) if name != "value"]
    value = [F.col("value.*")] if source.format in PARSED else [F.col("value")]
    return frame.select(*value, *facts)


def _latest(frame: Any, source: TopicSource) -> Any:
    """The newest record of each key, without those that a tombstone has removed.

    A tombstone has no fields, so it can remove a row only if the key is the record's own.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    facts = {f"_{name}": name for name in options.columns(source)}
    by = [F.col(facts[name]) if name in facts else F.col(f"value.`{name}`") for name in source.latest_by]
    newest = Window.partitionBy(*by).orderBy(F.col("offset").desc(), F.col("partition").desc())
    numbered = frame.withColumn("__age", F.row_number().over(newest))
    return numbered.where("__age = 1 AND value IS NOT NULL").drop("__age")


def _dead_letter_rows(frame: Any, source: TopicSource) -> Any:
    from pyspark.sql import functions as F

    parsed_key = source.key_format in PARSED
    error = F.coalesce(F.col("valueError"), F.col("keyError")) if parsed_key else F.col("valueError")

    def header(name: str, value: Any) -> Any:
        return F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))

    facts = F.array(
        *(header(f"source.{name}", F.col(name)) for name in ("topic", "partition", "offset", "timestamp")),
        header("error", error),
    )
    headers = F.coalesce(F.concat(F.col("headers"), facts), facts)
    key = F.col("keyRaw") if parsed_key else F.col("key")
    return frame.where(error.isNotNull()).select(
        key.alias("key"), F.col("valueRaw").alias("value"), headers.alias("headers")
    )


def _stateful(step: StatefulStep, frame: Any) -> Any:
    from pyspark.sql.streaming import StatefulProcessor

    processor = load_object(step.processor)(**step.arguments)
    if not isinstance(processor, StatefulProcessor):  # Spark would only say that a worker crashed
        raise PipelineFailed(
            f"step '{step.name}': {step.processor} is no StatefulProcessor",
            step.processor.place,
            hint="derive the class from pyspark.sql.streaming.StatefulProcessor",
        )
    grouped = frame.groupBy(*step.by)
    transform = grouped.transformWithStateInPandas if step.pandas else grouped.transformWithState
    return transform(
        statefulProcessor=processor,
        outputStructType=step.output.value,
        outputMode=step.mode.capitalize(),
        timeMode=_TIME_MODES[step.time],
        eventTimeColumnName=step.event_time_column or "",
    )


def _with_watermark(frame: Any, watermark: Watermark | None) -> Any:
    return frame if watermark is None else frame.withWatermark(watermark.column, spoken(watermark.delay_ms))


def _watermark_place(error: Exception, watermark: Watermark | None) -> Place | None:
    """Where the watermark stands, if the error is about its column."""
    return watermark.place if watermark is not None and f"`{watermark.column}`" in str(error) else None


def _function_place(step: PythonStep) -> Place | None:
    found = signature(step.function, is_class=False, mistakes=Mistakes())
    return None if found is None else found.place


def _code_place(step: Step, error: Exception) -> Place:
    """Where in the user's code an error came up; else where the step is."""
    if isinstance(step, SqlStep):
        return step.place
    reference = step.function if isinstance(step, PythonStep) else step.processor
    code = getattr(reference.given, "__code__", None)
    file = reference.file or (Path(code.co_filename) if code is not None else None)
    found = place_in(error, file) if file is not None else None
    return found or (reference.place if isinstance(step, PythonStep) else step.place)
