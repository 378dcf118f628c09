"""A Spark session with Spark's own Kafka connector. Skips, with the reason, where its jars cannot be had."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from bench.peers.base import PeerUnavailable
from bench.spark import connector, sides

from moldau.spark.java import JavaUnusable, find_java


@pytest.fixture(scope="session")
def connector_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    try:
        find_java()
        jars = connector.resolve()
    except (PeerUnavailable, JavaUnusable) as reason:
        pytest.skip(str(reason))
    from pyspark import SparkContext

    if SparkContext._gateway is not None:
        pytest.skip("jars are given to a JVM when it starts, and one runs already: run this folder by itself")
    spark = sides.session(jars, tmp_path_factory.mktemp("spark"), memory="1g")
    # A reader of the log must see which version this was: it need not be the one of this Spark.
    print(f"\nconnector: {jars.label}")
    yield spark
    spark.stop()
