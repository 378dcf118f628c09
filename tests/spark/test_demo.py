"""The demo with its pipeline on Spark, interrupted. All of it runs in `make demo` and in the fault runs."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from tests.spark.demo_process import assert_nothing_left, left_behind, start_demo


def test_interrupted_while_spark_starts_it_leaves_nothing(tmp_path: Path) -> None:
    process = start_demo(tmp_path)
    assert process.stdout is not None
    deadline = time.monotonic() + 120
    while not any("pyspark" in command or "SparkSubmit" in command for command in left_behind(tmp_path)):
        assert time.monotonic() < deadline, "no Java was started"
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=180) == 1
    assert_nothing_left(tmp_path)
