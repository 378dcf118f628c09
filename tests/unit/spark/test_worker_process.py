"""Spark's worker processes collect garbage after every task: what is there to stay must not be walked each time."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from moldau.spark import worker_process


@pytest.fixture(autouse=True)
def thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(worker_process, "_freezes_left", worker_process.FREEZES)
    gc.unfreeze()
    yield
    gc.unfreeze()


def in_process(monkeypatch: pytest.MonkeyPatch, main: str) -> None:
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=SimpleNamespace(name=main)))  # type: ignore[arg-type]


def test_in_a_worker_what_is_there_is_put_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    in_process(monkeypatch, "pyspark.daemon")
    worker_process.keep_collections_short()
    assert gc.get_freeze_count() > 1000


def test_only_the_first_tasks_do_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what a later task leaves behind in cycles would never be collected."""
    in_process(monkeypatch, "pyspark.daemon")
    for _ in range(worker_process.FREEZES):
        worker_process.keep_collections_short()
    before = gc.get_freeze_count()
    later = [[] for _ in range(1000)]  # type: ignore[var-annotated]
    worker_process.keep_collections_short()
    assert gc.get_freeze_count() <= before
    assert len(later) == 1000


def test_a_users_own_process_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    in_process(monkeypatch, "my_job")
    worker_process.keep_collections_short()
    assert gc.get_freeze_count() == 0
