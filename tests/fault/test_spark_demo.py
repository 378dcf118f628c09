"""The whole demo: kills its broker twice, once under a running pipeline, and checks every result."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.demo_process import assert_nothing_left, start_demo


@pytest.mark.slow
def test_the_whole_demo_holds_what_it_claims(tmp_path: Path) -> None:
    process = start_demo(tmp_path)
    output, _ = process.communicate(timeout=280)
    assert process.returncode == 0, output
    assert "they equal what plain Python makes of the same events" in output
    assert "everything shown was checked" in output
    assert_nothing_left(tmp_path)
