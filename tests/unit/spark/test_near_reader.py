"""Which micro-batches the planning process reads itself, and what it does when they turn out to be large."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.datasource import InputPartition
from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from moldau.spark.data_source import _stream_reader
from moldau.spark.source import near_reader
from moldau.spark.source.batch_reader import OffsetsPartition
from moldau.spark.source.near_reader import NEAR_BYTES_MAX, MoldauNearReader
from moldau.spark.source.options import parse
from moldau.spark.source.stream_reader import MoldauStreamReader
from moldau.spark.types import OffsetRange

OPTIONS = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


class Scene:
    """Two topic partitions, each planned as a task of its own; every record has `record_bytes`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **options: str) -> None:
        self.record_bytes = 100
        self.records = 10
        self.reads: list[OffsetsPartition] = []
        monkeypatch.setattr(MoldauStreamReader, "partitions", lambda reader, start, end: self.planned())
        monkeypatch.setattr(MoldauStreamReader, "read", lambda reader, partition: self.rows(partition))
        self.reader = MoldauNearReader(parse(OPTIONS | options, streaming=True))

    def planned(self) -> Sequence[InputPartition]:
        half = self.records // 2
        return [
            OffsetsPartition((OffsetRange("orders", None, 0, 0, half),)),
            OffsetsPartition((OffsetRange("orders", None, 1, 0, self.records - half),)),
        ]

    def rows(self, partition: OffsetsPartition) -> Iterator[Any]:
        self.reads.append(partition)
        for part in partition.ranges:
            for _ in range(part.start, part.end):
                yield pa.record_batch([pa.array([b"x" * self.record_bytes])], names=["value"])

    def plan(self) -> tuple[Sequence[InputPartition], list[Any] | None]:
        planned = self.reader.partitions({}, {})
        rows = self.reader.getCache({}, {})
        return planned, None if rows is None else list(rows)


def test_a_small_batch_comes_with_its_rows_and_one_partition_for_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    planned, rows = Scene(monkeypatch).plan()
    assert rows is not None
    assert sum(batch.num_rows for batch in rows) == 10
    (whole,) = planned
    assert isinstance(whole, OffsetsPartition)
    assert [part.partition for part in whole.ranges] == [0, 1]


def test_rows_are_handed_over_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch)
    scene.plan()
    assert scene.reader.getCache({}, {}) is None


def test_more_records_than_allowed_are_left_to_tasks_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch, nearRecordsMax="9")
    planned, rows = scene.plan()
    assert (len(planned), rows, scene.reads) == (2, None, [])


def test_records_that_turn_out_large_are_left_to_tasks_and_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch)
    scene.record_bytes = NEAR_BYTES_MAX // 4
    planned, rows = scene.plan()
    assert (len(planned), rows, len(scene.reads)) == (2, None, 1)
    planned, rows = scene.plan()
    assert (len(planned), rows, len(scene.reads)) == (2, None, 1), "not read a second time for nothing"


def test_large_records_are_forgotten_by_and_by(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch)
    scene.record_bytes = NEAR_BYTES_MAX // 4
    scene.plan()
    scene.record_bytes = 100
    assert any(scene.plan()[1] is not None for _ in range(200))


def test_an_empty_batch_has_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(monkeypatch)
    scene.records = 0
    assert scene.plan()[1] is None


def test_who_asks_for_partitions_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    planned, rows = Scene(monkeypatch, minPartitions="2").plan()
    assert (len(planned), rows) == (2, None)


def test_who_limits_partitions_gets_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    planned, rows = Scene(monkeypatch, maxRecordsPerPartition="9").plan()
    assert (len(planned), rows) == (2, None)


def test_spark_takes_it_for_a_simple_reader_only_while_rows_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Scene(monkeypatch).reader
    assert not isinstance(reader, _SimpleStreamReaderWrapper)
    assert isinstance(reader, SupportsTriggerAvailableNow)
    reader.partitions({}, {})
    assert isinstance(reader, _SimpleStreamReaderWrapper)
    reader.getCache({}, {})
    assert not isinstance(reader, _SimpleStreamReaderWrapper)


def test_it_travels_to_executors() -> None:
    reader = MoldauNearReader(parse(OPTIONS, streaming=True))
    assert pickle.loads(CloudPickleSerializer().dumps(reader)).options == reader.options


def test_it_can_be_turned_off() -> None:
    plain = _stream_reader(parse(OPTIONS | {"nearRecordsMax": "0"}, streaming=True))
    assert type(plain) is MoldauStreamReader
    assert type(_stream_reader(parse(OPTIONS, streaming=True))) is near_reader.MoldauNearReader
