"""Looking at everything that metadata could be restored from, and making `metadata.db` anew from the best of it.

For a directory that no broker serves. Nothing is opened in place: SQLite would finish or undo what it finds, and a look
must not change what there is to see.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable
from typing import NamedTuple

from moldau.core.metadata.delta import MetadataDelta
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.records import decode_record, encode_record
from moldau.model.failures import MoldauError, StoreDamaged
from moldau.ports import Disk
from moldau.store import layout
from moldau.store.copies import read_copy
from moldau.store.files import COPY_FILES, STORE_FILE, STORE_FILES, set_aside


class Source(NamedTuple):
    """One file that may hold the metadata."""

    path: str
    problem: str
    """Why it cannot be used; empty when it is sound."""
    image: MetadataImage = MetadataImage()
    written_ms: int = -1


def sources(disk: Disk, directory: str, others: Iterable[str] = ()) -> list[Source]:
    """The store, its copies beside it, and further files that somebody names."""
    paths = [f"{directory}/{name}" for name in COPY_FILES] + list(others)
    return [_store(f"{directory}/{STORE_FILE}"), *(_copy(disk, path) for path in paths)]


def best(found: Iterable[Source]) -> Source | None:
    """The sound one that goes farthest; the store itself before a copy of the same."""
    sound = [source for source in found if not source.problem]
    return max(sound, key=lambda source: source.image.offset, default=None)


def restore(disk: Disk, directory: str, source: Source, now_ms: int) -> list[str]:
    """Make `metadata.db` from `source`. What was there is renamed; returns the new names."""
    made = f"{directory}/{STORE_FILE}.new"
    if os.path.exists(made):
        os.remove(made)
    _write_store(made, source.image)
    kept = set_aside(disk, directory, STORE_FILES, now_ms)
    disk.rename(made, f"{directory}/{STORE_FILE}")
    disk.sync_dir(directory)
    return kept


def _copy(disk: Disk, path: str) -> Source:
    try:
        copy = read_copy(disk, path)
        return Source(path, "", _image(copy.offset, copy.records), copy.written_ms)
    except FileNotFoundError:
        return Source(path, "missing")
    except (MoldauError, ValueError, KeyError) as problem:
        return Source(path, str(problem))


def _store(path: str) -> Source:
    if not os.path.exists(path):
        return Source(path, "missing")
    with tempfile.TemporaryDirectory(prefix="moldau-store-") as folder:
        for suffix in ("", "-wal"):
            if os.path.exists(path + suffix):
                shutil.copyfile(path + suffix, f"{folder}/{STORE_FILE}{suffix}")
        try:
            return Source(path, "", _read_store(f"{folder}/{STORE_FILE}"), int(os.path.getmtime(path) * 1000))
        except (MoldauError, sqlite3.Error) as problem:
            return Source(path, str(problem))


def _read_store(path: str) -> MetadataImage:
    db = sqlite3.connect(path)
    try:
        with db:
            layout.make_tables(db)
        layout.verify(db)
        last, start = db.execute("SELECT last_offset, snapshot_offset FROM head").fetchone()
        rows = db.execute("SELECT position, record, crc FROM snapshot ORDER BY position").fetchall()
        rows += db.execute(
            "SELECT log_offset, record, crc FROM log WHERE log_offset > ? ORDER BY 1", (start,)
        ).fetchall()
    finally:
        db.close()
    if last == 0:
        raise StoreDamaged("it holds nothing")
    return _image(last, [layout.checked(*row) for row in rows])


def _image(offset: int, records: Iterable[bytes]) -> MetadataImage:
    image = MetadataDelta(MetadataImage()).replay_all(map(decode_record, records)).apply(offset)
    image.validate()
    return image


def _write_store(path: str, image: MetadataImage) -> None:
    records = [encode_record(record) for record in image.snapshot()]
    db = sqlite3.connect(path)
    try:
        db.execute("PRAGMA synchronous = FULL")
        with db:
            layout.make_tables(db)
            db.executemany("INSERT INTO snapshot VALUES (?, ?, ?)", layout.rows(0, records))
            # Broker epochs only rise: the next one must be above every one that the records have.
            epoch = max((broker.broker_epoch for broker in image.brokers.values()), default=0)
            db.execute(
                "UPDATE head SET last_offset = ?, snapshot_offset = ?, snapshot_records = ?, broker_epoch = ?",
                (image.offset, image.offset, len(records), epoch),
            )
    finally:
        db.close()
