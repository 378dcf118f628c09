"""The metadata store in one SQLite file: what a single machine needs, without another server.

WAL mode with synchronous=FULL, so that an append that returned survives power loss. It is moved from the WAL into the
database and the WAL emptied before it returns: SQLite takes a damaged WAL for the end of what was written, so a topic
that lay there alone could be lost without a word. Every record carries a checksum over its offset and bytes, which
SQLite itself does not have; a store that does not hold what was written to it is `StoreDamaged`.

All brokers of one machine may share the file; SQLite's write lock orders them. One thread per store runs every
statement, so the event loop never waits for the disk and statements of one process never overlap.

Leases are rows with a wall-clock deadline. The controllership hangs on the broker lease of its holder: whoever is
registered and holds it keeps it until he resigns, his lease ends, or he starts again (same node id, new process). The
fence makes the rest safe: an append by someone who lost the controllership without noticing is refused.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from moldau.model.failures import Fenced, StoreDamaged, StoreFailed
from moldau.ports import BrokerLease, Clock
from moldau.store import layout

T = TypeVar("T")

POLL_SECONDS: Final = 0.05
"""How often to look for appends by other processes; appends of this process wake waiters at once."""
BUSY_SECONDS: Final = 10.0


class SqliteStore:
    """A `MetadataStore` on one file. Make it with `await SqliteStore.open(path, clock)`."""

    def __init__(self, path: str, clock: Clock) -> None:
        self.path = path
        self._clock = clock
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="moldau-store")
        self._connection: sqlite3.Connection | None = None
        self._grown = asyncio.Event()

    @classmethod
    async def open(cls, path: str, clock: Clock) -> SqliteStore:
        store = cls(path, clock)
        try:
            await store._run(store._connect)
        except BaseException:
            store._thread.shutdown(wait=False)
            raise
        return store

    # -- the log -----------------------------------------------------------------------------------------------------

    async def append(self, records: Sequence[bytes], *, fence: int) -> int:
        last = await self._run(lambda: self._durably(lambda db: _append(db, records, fence)))
        self._wake()
        return last

    async def read(self, *, after: int, records_max: int = 10_000) -> list[tuple[int, bytes]]:
        rows: list[tuple[int, bytes, int]] = await self._run(
            lambda: self._query(
                "SELECT log_offset, record, crc FROM log WHERE log_offset > ? ORDER BY log_offset LIMIT ?",
                (after, records_max),
            )
        )
        return [(offset, layout.checked(offset, record, crc)) for offset, record, crc in rows]

    async def wait(self, *, after: int) -> None:
        while True:
            grown = self._grown
            rows: list[tuple[int]] = await self._run(lambda: self._query("SELECT last_offset FROM head", ()))
            if rows[0][0] > after:
                return
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await grown.wait()
            except TimeoutError:
                continue

    async def save_snapshot(self, offset: int, records: Sequence[bytes]) -> None:
        await self._run(lambda: self._durably(lambda db: _save_snapshot(db, offset, records)))

    async def load_snapshot(self) -> tuple[int, list[bytes]]:
        return await self._run(lambda: self._in_transaction(_load_snapshot, write=False))

    # -- brokers -----------------------------------------------------------------------------------------------------

    async def register(self, node_id: int, payload: bytes, *, lease_ms: int) -> int:
        deadline_ms = self._clock.wall_ms() + lease_ms
        return await self._run(lambda: self._in_transaction(lambda db: _register(db, node_id, payload, deadline_ms)))

    async def renew(self, node_id: int, broker_epoch: int, *, lease_ms: int) -> None:
        now_ms = self._clock.wall_ms()

        def renew(db: sqlite3.Connection) -> None:
            renewed = db.execute(
                "UPDATE lease SET deadline_ms = ? WHERE node_id = ? AND broker_epoch = ? AND deadline_ms > ?",
                (now_ms + lease_ms, node_id, broker_epoch, now_ms),
            )
            if renewed.rowcount != 1:
                raise Fenced(f"broker {node_id} lost its lease of epoch {broker_epoch}")

        await self._run(lambda: self._in_transaction(renew))

    async def unregister(self, node_id: int, broker_epoch: int) -> None:
        statement = "DELETE FROM lease WHERE node_id = ? AND broker_epoch = ?"
        await self._run(lambda: self._in_transaction(lambda db: db.execute(statement, (node_id, broker_epoch))))
        self._wake()

    async def brokers(self) -> list[BrokerLease]:
        now_ms = self._clock.wall_ms()
        rows: list[tuple[int, int, bytes]] = await self._run(
            lambda: self._query(
                "SELECT node_id, broker_epoch, payload FROM lease WHERE deadline_ms > ? ORDER BY node_id", (now_ms,)
            )
        )
        return [BrokerLease(*row) for row in rows]

    # -- the controllership ------------------------------------------------------------------------------------------

    async def campaign(self, node_id: int) -> int:
        while True:
            grown = self._grown
            fence = await self._run(
                lambda: self._in_transaction(lambda db: _campaign(db, node_id, self._clock.wall_ms()))
            )
            if fence is not None:
                return fence
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await grown.wait()
            except TimeoutError:
                continue

    async def resign(self, fence: int) -> None:
        statement = "UPDATE head SET controller = NULL WHERE fence = ?"
        await self._run(lambda: self._in_transaction(lambda db: db.execute(statement, (fence,))))
        self._wake()

    async def close(self) -> None:
        if self._connection is not None:
            await self._run(self._disconnect)
        self._thread.shutdown(wait=True)

    # -- plumbing ----------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Everybody who waits looks again; whoever comes later waits for the next time."""
        self._grown.set()
        self._grown = asyncio.Event()

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except sqlite3.Error as problem:
            kind = StoreDamaged if _is_damage(problem) else StoreFailed
            raise kind(f"metadata store {self.path}: {problem}") from problem
        except RuntimeError as problem:
            raise StoreFailed(f"metadata store {self.path} is closed") from problem

    def _connect(self) -> None:
        # isolation_level=None: transactions begin and end where this file says so, nowhere else.
        db = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")
            self._connection = db
            self._in_transaction(layout.make_tables)
            layout.verify(db)
        except BaseException:
            self._connection = None
            db.close()
            raise

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _db(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreFailed(f"metadata store {self.path} is closed")
        return self._connection

    def _query(self, statement: str, values: tuple[object, ...]) -> list[T]:
        return self._db().execute(statement, values).fetchall()

    def _durably(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """A transaction that stands in the database itself when this returns, and nowhere else. Somebody who reads at
        this moment may keep the WAL from being emptied; the next one does it."""
        result = self._in_transaction(work)
        self._db().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return result

    def _in_transaction(self, work: Callable[[sqlite3.Connection], T], *, write: bool = True) -> T:
        db = self._db()
        db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        try:
            result = work(db)
        except BaseException:
            db.execute("ROLLBACK")
            raise
        db.execute("COMMIT")
        return result


def _is_damage(problem: sqlite3.Error) -> bool:
    """Not a database at all, or malformed; SQLite has no class of its own for it. A table that is not there was: the
    layout was checked when the file was opened."""
    return type(problem) is sqlite3.DatabaseError or "no such" in str(problem) or "already exists" in str(problem)


def _append(db: sqlite3.Connection, records: Sequence[bytes], fence: int) -> int:
    last, newest = db.execute("SELECT last_offset, fence FROM head").fetchone()
    if fence != newest:
        raise Fenced(f"fence {fence} was outranked by {newest}")
    db.executemany("INSERT INTO log VALUES (?, ?, ?)", layout.rows(last + 1, records))
    db.execute("UPDATE head SET last_offset = ?", (last + len(records),))
    return int(last) + len(records)


def _save_snapshot(db: sqlite3.Connection, offset: int, records: Sequence[bytes]) -> None:
    last, known = db.execute("SELECT last_offset, snapshot_offset FROM head").fetchone()
    if offset > last:
        raise StoreFailed(f"snapshot at {offset}, but the log ends at {last}")
    if offset <= known:
        return  # an older snapshot than the one there: nothing to gain, and its records are gone
    db.execute("DELETE FROM snapshot")
    db.executemany("INSERT INTO snapshot VALUES (?, ?, ?)", layout.rows(0, records))
    db.execute("DELETE FROM log WHERE log_offset <= ?", (offset,))
    db.execute("UPDATE head SET snapshot_offset = ?, snapshot_records = ?", (offset, len(records)))


def _load_snapshot(db: sqlite3.Connection) -> tuple[int, list[bytes]]:
    offset = db.execute("SELECT snapshot_offset FROM head").fetchone()[0]
    rows = db.execute("SELECT position, record, crc FROM snapshot ORDER BY position").fetchall()
    return offset, [layout.checked(*row) for row in rows]


def _register(db: sqlite3.Connection, node_id: int, payload: bytes, deadline_ms: int) -> int:
    db.execute("UPDATE head SET broker_epoch = broker_epoch + 1")
    epoch = int(db.execute("SELECT broker_epoch FROM head").fetchone()[0])
    db.execute("INSERT OR REPLACE INTO lease VALUES (?, ?, ?, ?)", (node_id, epoch, deadline_ms, payload))
    return epoch


def _campaign(db: sqlite3.Connection, node_id: int, now_ms: int) -> int | None:
    fence, holder = db.execute("SELECT fence, controller FROM head").fetchone()
    if holder is not None and holder != node_id:
        lease = db.execute("SELECT 1 FROM lease WHERE node_id = ? AND deadline_ms > ?", (holder, now_ms)).fetchone()
        if lease is not None:
            return None
    db.execute("UPDATE head SET fence = ?, controller = ?", (fence + 1, node_id))
    return int(fence) + 1
