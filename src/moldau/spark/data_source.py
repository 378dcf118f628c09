"""The data source `moldau`. Spark finds it by itself through the module `pyspark_moldau`; nothing is to be registered.

spark.read.format("moldau").option("kafka.bootstrap.servers", "localhost:9092").option("subscribe", "orders").load()
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from moldau.spark.option_names import judge_sink, judge_source
from moldau.spark.option_reader import OptionsWrong
from moldau.spark.source.options import SourceOptions, ignored_in_batch, parse
from moldau.spark.telling import sentence_first
from moldau.spark.types import spark_schema
from moldau.spark.worker_process import keep_collections_short

logger = logging.getLogger("moldau.spark")


class MoldauDataSource(DataSource):
    """Topics as tables: batch and stream, read and write."""

    @classmethod
    def name(cls) -> str:
        return "moldau"

    @sentence_first()
    def schema(self) -> StructType:
        """Called at load time, so mistakes in the options are told there and not when the query runs."""
        options = parse(self.options)
        _warn(judge_source(self.options).warnings)
        schema = spark_schema(options.read_settings())
        keep_collections_short()
        return schema

    @sentence_first()
    def reader(self, schema: StructType) -> DataSourceReader:
        from moldau.spark.source.batch_reader import MoldauBatchReader

        options = parse(self.options, streaming=False)
        _check_schema(schema, options)
        _warn(f"option {name} has no meaning in a batch query" for name in ignored_in_batch(self.options))
        return MoldauBatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from moldau.spark.source.refused_reader import RefusedReader

        try:
            options = parse(self.options, streaming=True)
            _check_schema(schema, options)
        except OptionsWrong as wrong:
            return RefusedReader(wrong)
        return _stream_reader(options)

    @sentence_first()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from moldau.spark.sink.writers import MoldauBatchWriter

        _warn(judge_sink(self.options).warnings)
        return MoldauBatchWriter(dict(self.options), schema, overwrite)

    @sentence_first()
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from moldau.spark.sink.writers import MoldauStreamWriter

        _warn(judge_sink(self.options).warnings)
        return MoldauStreamWriter(dict(self.options), schema, overwrite)


def _warn(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        logger.warning("%s", sentence)


def _stream_reader(options: SourceOptions) -> DataSourceStreamReader:
    from moldau.spark.source.stream_reader import MoldauStreamReader

    if options.near_records_max == 0:
        return MoldauStreamReader(options)
    try:
        from moldau.spark.source.near_reader import MoldauNearReader
    except ImportError:
        # It stands on a part of PySpark that is not promised to stay; without it every batch is read by tasks.
        return MoldauStreamReader(options)
    return MoldauNearReader(options)


def _check_schema(given: StructType, options: SourceOptions) -> None:
    """A schema set by hand is fine only if it is the source's own."""
    own = spark_schema(options.read_settings())
    if _shape(given) != _shape(own):
        raise OptionsWrong([
            f"the schema of format moldau is given by its options; it is {own.simpleString()}, "
            f"not {given.simpleString()}. Leave schema() out; choose with columns, value.format and value.schema"
        ])  # fmt: skip


def _shape(schema: StructType) -> list[tuple[Any, ...]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]
