"""What only the SQLite store does; the rest is the contract (`tests/contract/store`)."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from moldau.model.failures import StoreFailed
from moldau.runtime.clock import WallClock
from moldau.store.layout import SCHEMA_VERSION
from moldau.store.sqlite import SqliteStore


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def test_appends_are_synced_before_they_return(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await SqliteStore.open(str(tmp_path / "m.db"), WallClock())
        assert await store._run(lambda: store._query("PRAGMA journal_mode", ())) == [("wal",)]
        assert await store._run(lambda: store._query("PRAGMA synchronous", ())) == [(2,)]
        await store.close()

    run(scenario)


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "m.db"
        path.write_bytes(b"this is not a database, but long enough to look at" * 100)
        with pytest.raises(StoreFailed, match=r"m\.db.*not a database"):
            await SqliteStore.open(str(path), WallClock())

    run(scenario)


def test_a_store_of_a_newer_moldau_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = str(tmp_path / "m.db")
        await (await SqliteStore.open(path, WallClock())).close()
        with sqlite3.connect(path) as db:
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        db.close()
        with pytest.raises(StoreFailed, match="newer moldau"):
            await SqliteStore.open(path, WallClock())

    run(scenario)


def test_a_failed_append_leaves_nothing_behind(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await SqliteStore.open(str(tmp_path / "m.db"), WallClock())
        fence = await store.campaign(1)
        await store.append([b"a"], fence=fence)
        with pytest.raises(TypeError):
            await store.append([b"b", object()], fence=fence)  # type: ignore[list-item]
        assert await store.read(after=0) == [(1, b"a")]
        assert await store.append([b"c"], fence=fence) == 2
        await store.close()

    run(scenario)
