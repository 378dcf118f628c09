"""A Spark session with Spark's own Kafka connector. Skips, with the reason, where its jars cannot be had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from bench.peers.base import PeerUnavailable
from bench.spark import connector, sides

from moldau.spark.home import home_with_quick_workers
from moldau.spark.java import JavaUnusable, find_java

_TALLY: Counter[str] = Counter()


@pytest.fixture(scope="session")
def connector_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    try:
        find_java()
        jars = connector.resolve()
    except (PeerUnavailable, JavaUnusable) as reason:
        pytest.skip(str(reason))
    from pyspark import SparkContext

    from moldau.spark.data_source import MoldauDataSource

    if SparkContext._gateway is not None:
        pytest.skip("jars are given to a JVM when it starts, and one runs already: run this folder by itself")
    with home_with_quick_workers():
        spark = sides.session(jars, tmp_path_factory.mktemp("spark"), memory="1g")
    # Spark looks for formats once, within ten seconds; on a busy machine it would never find this one.
    spark.dataSource.register(MoldauDataSource)
    # A reader of the log must see which version this was: it need not be the one of this Spark.
    print(f"\nconnector: {jars.label}")
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def differential_tally() -> Counter[str]:
    """How many scenarios ended how; told at the end of the run."""
    return _TALLY


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if _TALLY:
        terminalreporter.section("moldau beside Spark's Kafka connector")
        terminalreporter.write_line(f"{_TALLY.total()} scenarios as expected, {_TALLY['equal']} of them equal")
        for reason, count in _TALLY.most_common():
            if reason != "equal":
                terminalreporter.write_line(f"{count:5} differ: {reason}")
