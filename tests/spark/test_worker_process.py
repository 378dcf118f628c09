"""PySpark's workers are what `moldau.spark.worker_process` and `moldau.spark.home` take them for."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from moldau.spark.data_source import MoldauDataSource
from moldau.spark.source.batch_reader import MoldauBatchReader
from moldau.spark.source.options import parse
from tests.spark.topics import Topics


class TellingSource(MoldauDataSource):
    """Its tasks tell in the file `tell` how many objects their process has put aside, and where it has pyspark from."""

    @classmethod
    def name(cls) -> str:
        return "moldau_telling"

    def schema(self) -> StructType:
        self.tell = self.options.pop("tell")
        return super().schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return TellingReader(dict(self.options), self.tell)


class TellingReader(MoldauBatchReader):
    def __init__(self, options: dict[str, str], tell: str) -> None:
        super().__init__(parse(options, streaming=False))
        self.tell = tell

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield from super().read(partition)
        Path(self.tell).write_text(f"{gc.get_freeze_count()} {pyspark.__file__}")


def test_workers_start_quickly_and_put_their_modules_aside(
    spark: Any, bootstrap: str, unique: Callable[[], str], tmp_path: Path
) -> None:
    topic, tell = unique(), tmp_path / "frozen"
    topics = Topics(bootstrap)
    topics.create(topic)
    topics.fill(topic, ["x"])
    spark.dataSource.register(TellingSource)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "tell": str(tell)}
    assert spark.read.format("moldau_telling").options(**options).load().count() == 1
    frozen, origin = tell.read_text().split(" ", 1)
    assert int(frozen) > 10_000
    assert Path(origin) == Path(pyspark.__file__)
