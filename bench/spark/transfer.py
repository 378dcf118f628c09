"""Rows a second: read a topic, write a topic. Each returns seconds and checks what it moved."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from bench.peers.base import Peer
from bench.spark.sides import Side


class WrongAnswer(RuntimeError):
    """A side was fast but did not move the right rows."""


def read_sum(spark: Any, side: Side, peer: Peer, topic: str, count: int, value_bytes: int, **options: Any) -> float:
    """Read values in full: their lengths must add up."""
    from pyspark.sql import functions as f

    frame = side.read(spark, peer.bootstrap, topic, **options)
    begin = time.perf_counter()
    ((rows, size),) = frame.agg(f.count("*"), f.sum(f.length("value"))).collect()
    seconds = time.perf_counter() - begin
    if (rows, size) != (count, count * value_bytes):
        raise WrongAnswer(f"{side.name} read {rows} rows of {size} bytes, not {count} of {count * value_bytes}")
    return seconds


def read_noop(spark: Any, side: Side, peer: Peer, topic: str, **options: Any) -> float:
    """All columns of all rows, into nothing."""
    frame = side.read(spark, peer.bootstrap, topic, **options)
    begin = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begin


def write(spark: Any, side: Side, peer: Peer, topic: str, count: int, value_bytes: int) -> float:
    """Rows with a key of up to eight bytes, made and kept in memory before the clock runs: making values of 1 KB takes
    Spark longer than either side needs to write them."""
    from pyspark.sql import functions as f

    value = f.rpad(f.col("id").cast("string"), value_bytes, "x").cast("binary")
    frame = spark.range(0, count, 1, 2).select(
        f.col("id").cast("string").cast("binary").alias("key"), value.alias("value")
    )
    frame.persist()
    try:
        frame.count()
        begin = time.perf_counter()
        side.write(frame, peer.bootstrap, topic)
        return time.perf_counter() - begin
    finally:
        frame.unpersist(blocking=True)


def check_written(peer: Peer, topic: str, partitions: int, count: int) -> None:
    """Exactly the rows, seen by a client that belongs to neither side."""
    consumer = Consumer(
        {
            "bootstrap.servers": peer.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    seen, ended, deadline = 0, set[int](), time.monotonic() + 120
    while len(ended) < partitions and time.monotonic() < deadline:
        for message in consumer.consume(10_000, timeout=1.0):
            error = message.error()
            if error is None:
                seen += 1
            elif error.name() == "_PARTITION_EOF":
                number = message.partition()
                assert number is not None
                ended.add(number)
    consumer.close()
    if seen != count or len(ended) < partitions:
        raise WrongAnswer(f"{topic} holds {seen} rows, not {count}")
