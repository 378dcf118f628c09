"""Spark shows what its Python processes say about an exception: the sentence must come before the traceback."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from pyspark.util import handle_worker_exception

from moldau.model.failures import MoldauError
from moldau.spark.option_reader import OptionsWrong
from moldau.spark.source.refused_reader import RefusedReader
from moldau.spark.telling import HIDE, sentence_first


@pytest.fixture(autouse=True)
def _in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    started_by(monkeypatch, "pyspark.daemon")
    monkeypatch.setenv(HIDE, "")  # whatever is set is undone after the test


def started_by(monkeypatch: pytest.MonkeyPatch, main: str) -> None:
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=SimpleNamespace(name=main)))  # type: ignore[arg-type]


@sentence_first()
def fail(failure: Exception) -> None:
    raise failure


def as_spark_shows(failure: Exception) -> str:
    """What PySpark's worker sends to the JVM."""
    out = io.BytesIO()
    try:
        fail(failure)
    except Exception as raised:
        handle_worker_exception(raised, out)
    return out.getvalue()[8:].decode()


def test_the_sentence_comes_first_and_the_traceback_after() -> None:
    shown = as_spark_shows(MoldauError("no broker answers"))
    first, second, *rest = shown.splitlines()
    assert first.endswith("MoldauError: no broker answers")
    assert second.startswith("Traceback")
    assert "raise failure" in "".join(rest)
    assert shown.count("File ") == 1, "the way through our own wrapping tells nobody anything"


def test_other_peoples_failures_are_told_as_python_tells_them() -> None:
    assert as_spark_shows(ValueError("a bug")).startswith("Traceback")


def test_what_comes_while_rows_are_read_is_told_alike() -> None:
    def rows() -> Iterator[int]:
        with sentence_first():
            yield 1
            raise MoldauError("lost")

    reading = rows()
    assert next(reading) == 1
    with pytest.raises(MoldauError) as failure:
        next(reading)
    assert "Traceback" in failure.value.__notes__[0]


def test_a_users_own_process_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    started_by(monkeypatch, "my_job")
    with pytest.raises(MoldauError) as failure:
        fail(MoldauError("x"))
    assert not hasattr(failure.value, "__notes__")
    assert not os.environ[HIDE]


def test_a_refused_stream_says_why_at_every_question() -> None:
    reader = RefusedReader(OptionsWrong(["option endingOffsets has no place here"]))
    reader.stop()
    for ask in (
        reader.initialOffset,
        lambda: reader.latestOffset({}, None),
        lambda: reader.partitions({}, {}),
        lambda: reader.read(SimpleNamespace()),  # type: ignore[arg-type]
    ):
        with pytest.raises(OptionsWrong, match="endingOffsets"):
            ask()
