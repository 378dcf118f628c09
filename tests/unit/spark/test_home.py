"""The home that an embedded Spark is started from."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from moldau.spark.home import home_with_quick_workers


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_HOME", "PYSPARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)


def test_a_home_without_the_zip_for_as_long_as_the_session_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    with home_with_quick_workers():
        home = Path(os.environ["SPARK_HOME"])
        assert (home / "bin" / "spark-submit").is_file()
        assert any((home / "jars").glob("spark-core*.jar"))
        assert not (home / "python").exists()
    assert "SPARK_HOME" not in os.environ
    assert home.is_dir()  # Java loads jars from there later too


def test_a_chosen_home_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with home_with_quick_workers():
        assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert os.environ["SPARK_HOME"] == "/opt/spark"


def test_another_python_may_have_no_pyspark_but_the_zip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/usr/bin/python3.12")
    with home_with_quick_workers():
        assert "SPARK_HOME" not in os.environ


def test_without_symbolic_links_sparks_own_home_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("a required privilege is not held by the client")

    monkeypatch.setattr(Path, "symlink_to", refuse)
    with home_with_quick_workers():
        assert "SPARK_HOME" not in os.environ
