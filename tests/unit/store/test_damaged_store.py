"""A store that does not hold what was written to it says so; what was acknowledged lies in the database alone."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from moldau.model.failures import StoreDamaged, StoreFailed
from moldau.runtime.clock import WallClock
from moldau.store.layout import checksum
from moldau.store.sqlite import SqliteStore

RECORDS = [b"record %d " % number * 20 for number in range(60)]


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


async def filled(path: Path) -> SqliteStore:
    """A snapshot of twenty records, and as many after it."""
    store = await SqliteStore.open(str(path), WallClock())
    fence = await store.campaign(1)
    await store.append(RECORDS[:20], fence=fence)
    await store.save_snapshot(20, RECORDS[20:40])
    await store.append(RECORDS[40:], fence=fence)
    return store


async def contents(path: Path) -> tuple[list[bytes], list[bytes]]:
    store = await SqliteStore.open(str(path), WallClock())
    try:
        return (await store.load_snapshot())[1], [record for _, record in await store.read(after=20)]
    finally:
        await store.close()


def test_what_was_acknowledged_needs_no_wal(tmp_path: Path) -> None:
    """As after kill -9, with the WAL lost: copied while the store is open."""

    async def scenario() -> None:
        store = await filled(tmp_path / "m.db")
        assert (tmp_path / "m.db-wal").stat().st_size == 0
        copy = tmp_path / "copy.db"
        copy.write_bytes((tmp_path / "m.db").read_bytes())
        await store.close()
        assert await contents(copy) == (RECORDS[20:40], RECORDS[40:])

    run(scenario)


def test_a_wal_of_which_half_is_damaged_loses_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await filled(tmp_path / "m.db")
        await store.resign(1)
        db, wal = (tmp_path / "m.db").read_bytes(), (tmp_path / "m.db-wal").read_bytes()
        assert wal, "what the store keeps for itself may lie there"
        await store.close()
        for number, damaged in enumerate((wal[: len(wal) // 2], wal[:40] + bytes(len(wal) - 40), bytes(len(wal)))):
            copy = tmp_path / f"copy{number}.db"
            copy.write_bytes(db)
            copy.with_name(f"copy{number}.db-wal").write_bytes(damaged)
            assert await contents(copy) == (RECORDS[20:40], RECORDS[40:])

    run(scenario)


def test_every_flipped_bit_is_noticed_or_does_not_matter(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "m.db"
        await (await filled(path)).close()
        whole = path.read_bytes()
        whole_contents = await contents(path)
        noticed = 0
        for place in range(0, len(whole), 97):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << place % 8
            path.write_bytes(damaged)
            try:
                assert await contents(path) == whole_contents, place
            except StoreFailed:
                noticed += 1
        assert noticed > 20

    run(scenario)


@pytest.mark.parametrize("how", ["zeroed", "half", "no rows", "row moved"])
def test_damage_is_told_from_other_failures(tmp_path: Path, how: str) -> None:
    async def scenario() -> None:
        path = tmp_path / "m.db"
        await (await filled(path)).close()
        whole = path.read_bytes()
        if how == "zeroed":
            path.write_bytes(bytes(len(whole)))
        elif how == "half":
            path.write_bytes(whole[: len(whole) // 2])
        else:
            statement = "DELETE FROM log" if how == "no rows" else "UPDATE log SET crc = 1 WHERE log_offset = 30"
            db = sqlite3.connect(path)
            with db:
                db.execute(statement)
            db.close()
        with pytest.raises(StoreDamaged):
            await contents(path)

    run(scenario)


def test_a_store_without_checksums_gets_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "m.db"
        await (await filled(path)).close()
        db = sqlite3.connect(path)
        with db:
            for table in ("log", "snapshot"):
                db.execute(f"ALTER TABLE {table} DROP COLUMN crc")
            db.execute("ALTER TABLE head DROP COLUMN snapshot_records")
            db.execute("PRAGMA user_version = 1")
        assert await contents(path) == (RECORDS[20:40], RECORDS[40:])
        assert db.execute("SELECT crc FROM log WHERE log_offset = 21").fetchone() == (checksum(21, RECORDS[40]),)
        db.close()

    run(scenario)
