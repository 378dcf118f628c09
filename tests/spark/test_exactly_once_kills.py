"""The small form of the exactly-once proof: driver, Python worker and broker are killed once each.

`make fault` runs the large form, with executors in JVMs of their own (tests/fault/test_spark_exactly_once.py).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.spark.java import find_java
from tests.fault.spark_exactly_once import run


@pytest.mark.timeout(900)
def test_three_kills(tmp_path: Path) -> None:
    find_java()
    kinds = ["driver", "worker", "broker"]
    story = run(tmp_path, records=2000, kinds=kinds, master="local[2]", per_trigger=400, seed=2)
    assert story.judge() == [], f"seed {story.seed}"
    assert story.kills.total() == 3
