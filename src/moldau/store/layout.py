"""The tables of the SQLite store, how older ones become today's, and how damage is told from what was written."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from typing import Final

from moldau.model.failures import StoreDamaged, StoreFailed

SCHEMA_VERSION: Final = 2

_SCHEMA: Final = """
CREATE TABLE log (log_offset INTEGER PRIMARY KEY, record BLOB NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE snapshot (position INTEGER PRIMARY KEY, record BLOB NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE lease (
    node_id INTEGER PRIMARY KEY, broker_epoch INTEGER NOT NULL, deadline_ms INTEGER NOT NULL, payload BLOB NOT NULL
);
CREATE TABLE head (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    last_offset INTEGER NOT NULL DEFAULT 0,
    snapshot_offset INTEGER NOT NULL DEFAULT 0,
    fence INTEGER NOT NULL DEFAULT 0,
    controller INTEGER,
    broker_epoch INTEGER NOT NULL DEFAULT 0,
    snapshot_records INTEGER NOT NULL DEFAULT 0
);
INSERT INTO head (one) VALUES (1);
"""
_WITH_CHECKSUMS: Final = """
ALTER TABLE log ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
ALTER TABLE snapshot ADD COLUMN crc INTEGER NOT NULL DEFAULT 0;
ALTER TABLE head ADD COLUMN snapshot_records INTEGER NOT NULL DEFAULT 0;
UPDATE log SET crc = checksum(log_offset, record);
UPDATE snapshot SET crc = checksum(position, record);
UPDATE head SET snapshot_records = (SELECT count(*) FROM snapshot);
"""
"""From layout 1, which had none."""


def checksum(number: int, record: bytes) -> int:
    """Over the place of a record as well: one that turned up elsewhere is as wrong as one that changed."""
    return zlib.crc32(record, number & 0xFFFFFFFF)


def checked(number: int, record: bytes, crc: int) -> bytes:
    if not isinstance(record, bytes) or checksum(number, record) != crc:
        raise StoreDamaged(f"record {number} of the metadata store is not what was written")
    return record


def rows(first: int, records: Sequence[bytes]) -> Iterator[tuple[int, bytes, int]]:
    for number, record in enumerate(records, first):
        yield number, record, checksum(number, record)


def make_tables(db: sqlite3.Connection) -> None:
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA_VERSION:
        raise StoreFailed(f"the metadata store was written by a newer moldau (layout {version}); start that one")
    if version == SCHEMA_VERSION:
        return
    db.create_function("checksum", 2, checksum, deterministic=True)
    for statement in (_SCHEMA if version == 0 else _WITH_CHECKSUMS).split(";"):
        if statement.strip():
            db.execute(statement)
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def verify(db: sqlite3.Connection) -> None:
    """That pages and counts agree with one another; the records themselves are checked when they are read."""
    problems = db.execute("PRAGMA quick_check(1)").fetchall()
    if problems != [("ok",)]:
        raise StoreDamaged(f"the metadata store is damaged: {problems[0][0]}")
    heads = db.execute("SELECT last_offset, snapshot_offset, snapshot_records FROM head").fetchall()
    if len(heads) != 1:
        raise StoreDamaged("the metadata store has lost its head")
    last, snapshot_offset, snapshot_records = heads[0]
    count, low, high = db.execute("SELECT count(*), min(log_offset), max(log_offset) FROM log").fetchone()
    if count != last - snapshot_offset or (count and (low, high) != (snapshot_offset + 1, last)):
        raise StoreDamaged(
            f"the metadata store holds records {low} to {high} ({count}), not {snapshot_offset} to {last}"
        )
    (kept,) = db.execute("SELECT count(*) FROM snapshot").fetchone()
    if kept != snapshot_records:
        raise StoreDamaged(f"the snapshot in the metadata store holds {kept} records, not {snapshot_records}")
