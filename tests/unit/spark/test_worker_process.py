"""Spark's worker processes collect garbage after every task: what is there to stay must not be walked each time."""

from __future__ import annotations

import gc
import os
import subprocess
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


# Three large blocks at once, then none, as a read takes and frees them; prints the pages that the last rounds cost.
BLOCKS = """
import resource, sys
from types import SimpleNamespace
from moldau.spark import worker_process

sys.modules["__main__"].__spec__ = SimpleNamespace(name=sys.argv[1])
worker_process.keep_freed_memory()

def round_of_blocks():
    blocks = [b"x" * (3 << 20) for _ in range(3)]
    del blocks

for _ in range(3):
    round_of_blocks()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    round_of_blocks()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * resource.getpagesize())
"""


@pytest.mark.skipif(not hasattr(os, "confstr") or "glibc" not in os.confstr("CS_GNU_LIBC_VERSION"), reason="glibc's")
def test_in_a_worker_freed_blocks_are_used_again() -> None:
    """Without it the kernel clears the pages of nearly every block anew."""

    def fetched_bytes(main: str) -> int:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
        done = subprocess.run([sys.executable, "-c", BLOCKS, main], env=environment, capture_output=True, check=True)
        return int(done.stdout)

    assert fetched_bytes("pyspark.daemon") < 1 << 20
    assert fetched_bytes("my_job") > 12 << 20


def test_reading_does_not_load_pandas() -> None:
    """A worker is 24 MiB smaller without it and answers a third of a second earlier."""
    code = """
import sys
from moldau.records.builder import BatchBuilder
from moldau.spark.fetch.rows import Rows
from moldau.spark.types import OffsetRange, ReadSettings

builder = BatchBuilder(base_offset=0)
builder.append(b"k", b"v" * 100, [("h", b"1")], 1000, 0)
rows = Rows(ReadSettings("", headers=True))
made = [*rows.add(OffsetRange("topic", None, 7, 0, 1), 0, builder.build(), []), *rows.rest()]
print(sum(batch.num_rows for batch in made), "pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "False"]
