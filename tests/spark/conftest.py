"""One Spark session and one broker process for each test worker: starting either costs more than most tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.cli.broker_process import BrokerProcess
from moldau.spark.home import home_with_quick_workers
from moldau.spark.java import find_java
from tests.brokers import names, running_broker, shared_address


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running broker; `MOLDAU_TEST_BOOTSTRAP` names another one, such as Apache Kafka."""
    with shared_address(tmp_path_factory) as address:
        yield address


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that the test may stop, kill and start again."""
    with running_broker(tmp_path / "data") as broker:
        yield broker


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local session with two threads. Fails, and says how to install Java, where there is none."""
    find_java()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    warehouse = tmp_path_factory.mktemp("warehouse")
    with home_with_quick_workers():
        session = _session(warehouse)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


def _session(warehouse: Path) -> Any:
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master("local[2]")
        .appName("moldau-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(warehouse))
        .config("spark.driver.extraJavaOptions", f"-Dderby.stream.error.file={warehouse}/derby.log")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config(
            "spark.sql.streaming.checkpointFileManagerClass",
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
        )
        .getOrCreate()
    )


@pytest.fixture
def unique() -> Callable[[], str]:
    """Topic names that no other test uses."""
    return names("s")
