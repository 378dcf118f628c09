"""What all connections of a node share: the tick, the read buffer, pooled buffers, the memory budgets, counters.

Compiled. The tick runs once per turn of the loop in which something was appended or is to be answered:

    1. write the turn's small appends, one write per partition (`FlushSet`);
    2. wake whoever waits for partitions that moved;
    3. write each connection's replies, one write per connection.

So no reply leaves before the bytes it acknowledges are in the page cache, and both disk and socket see few, large
writes. If 1. fails for a log, connections that appended to it in this turn are closed without a reply: what they sent
is in doubt, and an idempotent producer sorts that out when it sends again.
"""

from __future__ import annotations

import logging
import mmap
from collections.abc import Callable
from typing import Any, Final

from mypy_extensions import i64

from moldau.server.complaints import Complaints
from moldau.server.loop_watch import LoopWatch
from moldau.server.reply_budget import Outlet, ReplyBudget
from moldau.server.request_budget import Claim, RequestBudget
from moldau.server.services import Services
from moldau.storage.flush_set import Flushable, FlushSet
from moldau.wire.primitives import Reader, Writer

READ_BUFFER_BYTES: Final = 256 * 1024
READ_BUFFER_BEGIN_BYTES: Final = 16 * 1024
"""What is read at first where a frame larger than the whole buffer is expected."""
POOL_CLASS_MIN: Final = 16
"""The smallest pooled buffer is 2**16 bytes."""
POOL_CLASS_MAX: Final = 27
POOLED_BYTES_MAX: Final = 16 * 1024 * 1024
"""What unused buffers may hold together; beyond it they are given back to the allocator."""
MAPPED_BYTES_MIN: Final = 1024 * 1024
"""Buffers from here on are mapped: pages take memory when bytes arrive in them, and go back to the system at once."""
WRITERS_MAX: Final = 256
BUDGETS_WATCHED_S: Final = 0.25
"""How often those who are slow are looked at, while others wait for memory that they hold."""
TICK_PASSES_MAX: Final = 8
LONG_S: Final = 0.005
"""A request that took longer is told to the watch."""

_PRIVATE: Final[int] = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)

log = logging.getLogger("moldau.server")


class Outgoing(Outlet):
    """A connection as the tick and the budgets see it."""

    def __init__(self, touched: list[Flushable]) -> None:
        self.marked: bool = False
        self.touched = touched
        """Logs it appended to since the last tick: its replies depend on their flush."""

    def write_out(self) -> None:
        raise NotImplementedError

    def drop(self, reason: str) -> None:
        raise NotImplementedError


class Hub:
    """One per node."""

    def __init__(self, services: Services, flush_set: FlushSet, in_flight_bytes_max: int, loop: Any) -> None:
        self.services = services
        self.flush_set = flush_set
        self.loop: Any = loop
        self.now_wall_ms: Any = services.clock.wall_ms
        self.stopwatch: Any = getattr(services.clock, "stopwatch", loop.time)
        """Seconds that pass within a turn of the loop too; the loop's own time, where the clock has no better."""
        self.watch: Any = LoopWatch(loop, self.count_requests, self.watch_rests)
        self.watched: bool = False
        self.route_name: str = ""
        """The API asked last."""
        self.turn_s: float = 0.0
        """What the present turn of a connection took so far, as far as it was timed."""
        self.dirty: list[Outgoing] = []
        self.scheduled: bool = False
        self.failed_early: list[Flushable] = []
        """Logs whose flush failed before the tick; the tick closes everyone else who appended to them."""
        self.on_bug: Callable[[BaseException], None] | None = None
        """Told of broken invariants; the node stops (`model.checks`)."""

        self.read_buffer: memoryview = memoryview(bytearray(READ_BUFFER_BYTES))
        self.read_buffer_begin: memoryview = self.read_buffer[:READ_BUFFER_BEGIN_BYTES]
        self.reader: Reader = Reader(b"")
        self.writers: list[Writer] = []
        self.scratch: Writer = Writer()
        self.pool: list[list[memoryview]] = [[] for _ in range(POOL_CLASS_MAX + 1)]
        self.pooled_bytes: i64 = 0

        self.request_budget: RequestBudget = RequestBudget(in_flight_bytes_max)
        self.reply_budget: ReplyBudget = ReplyBudget()
        self.watches_budgets: bool = False

        self.requests_total: i64 = 0
        self.bytes_in_total: i64 = 0
        self.ticks_total: i64 = 0
        self.bad_peers_total: i64 = 0
        self.bugs_total: i64 = 0
        self.flush_failures_total: i64 = 0
        self.complaints: Any = Complaints(loop.time)
        services.partitions.advances.on_first = self.schedule
        services.reading.start(loop, self.stopwatch, self.reply_budget.has_room)

    # The watch

    def count_requests(self) -> int:
        return self.requests_total

    def watch_rests(self) -> None:
        self.watched = False

    def spent(self, seconds: float) -> None:
        """A connection was at work for so long."""
        self.turn_s += seconds
        if seconds > LONG_S:
            self.watch.turn(seconds, self.route_name)

    # The tick

    def mark(self, connection: Outgoing) -> None:
        """This connection has something to write, or replies that wait for the flush."""
        if not connection.marked:
            connection.marked = True
            self.dirty.append(connection)
        if not self.scheduled:
            self.scheduled = True
            self.loop.call_soon(self.tick)

    def schedule(self) -> None:
        if not self.scheduled:
            self.scheduled = True
            self.loop.call_soon(self.tick)

    def tick(self) -> None:
        try:
            self._tick()
        except Exception as error:
            # Nothing below raises on purpose. Acknowledge nothing of this turn, and let the node stop.
            self.scheduled = False
            dirty = self.dirty
            self.dirty = []
            for connection in dirty:
                connection.drop("the broker failed unexpectedly")
            log.critical("bug in the server's tick", exc_info=error)
            if self.on_bug is not None:
                self.on_bug(error)

    def _tick(self) -> None:
        self.ticks_total += 1
        if not self.watched:
            self.watched = True
            self.watch.begin()
        advances = self.services.partitions.advances
        failed = self.failed_early
        self.failed_early = []
        failed.extend(self.flush_set.flush_all())
        passes: i64 = 0
        while advances.moved and passes < TICK_PASSES_MAX:
            # A woken coordinator may append in its turn; those bytes must be written before its reply.
            passes += 1
            advances.wake_all()
            failed.extend(self.flush_set.flush_all())
        dirty = self.dirty
        if failed:
            self._drop_unwritten(dirty, failed)
        self.dirty = []
        self.scheduled = False
        for connection in dirty:
            connection.marked = False
            if connection.touched:
                connection.touched.clear()
            connection.write_out()
        if advances.moved:
            self.schedule()

    def is_written(self, connection: Outgoing) -> bool:
        """Flush now, for a connection that closes before the tick: whether all it appended was written."""
        if not connection.touched:
            return True
        self.failed_early.extend(self.flush_set.flush_all())
        for log_touched in connection.touched:
            if log_touched in self.failed_early:
                self.schedule()
                return False
        return True

    def _drop_unwritten(self, dirty: list[Outgoing], failed: list[Flushable]) -> None:
        """Close who appended to a log that could not be written, before any reply of theirs leaves."""
        self.flush_failures_total += 1
        for connection in dirty:
            for log_touched in connection.touched:
                if log_touched in failed:
                    connection.drop("what it sent could not be written to disk")
                    break

    # Writers and buffers

    def take_writer(self) -> Writer:
        if self.writers:
            return self.writers.pop()
        return Writer()

    def give_writer(self, writer: Writer) -> None:
        if len(self.writers) < WRITERS_MAX:
            self.writers.append(writer)

    def take_buffer(self, size: i64) -> memoryview:
        """A writable view of at least `size` bytes."""
        index = _pool_class(size)
        if index <= POOL_CLASS_MAX:
            free = self.pool[index]
            if free:
                self.pooled_bytes -= 1 << index
                return free.pop()
            size = 1 << index
        return memoryview(_mapped(size) if size >= MAPPED_BYTES_MIN else bytearray(size))

    def give_buffer(self, buffer: memoryview) -> None:
        """Take a buffer back. Nothing may hold a view of it any more (CVE-2026-35554)."""
        size: i64 = buffer.nbytes
        index = _pool_class(size)
        if index <= POOL_CLASS_MAX and self.pooled_bytes + size <= POOLED_BYTES_MAX:
            self.pool[index].append(buffer)
            self.pooled_bytes += size

    # The memory budgets

    def begin_request(self, connection: Outgoing, have: i64, need: i64) -> Claim | None:
        """Room for a large request, or None until `memory_freed`."""
        claim = self.request_budget.begin(connection, have, need)
        if claim is None:
            self.watch_budgets()
        return claim

    def more_of_request(self, claim: Claim) -> bool:
        if self.request_budget.grow(claim):
            return True
        self.watch_budgets()
        return False

    def clog(self, connection: Outgoing) -> None:
        """Its client does not take its replies."""
        self.reply_budget.clog(connection, self.loop.time())
        self.watch_budgets()

    def clear(self, connection: Outgoing) -> None:
        if self.reply_budget.clogged and self.reply_budget.clear(connection):
            self.services.reading.go_on()

    def watch_budgets(self) -> None:
        if not self.watches_budgets:
            self.watches_budgets = True
            self.loop.call_later(BUDGETS_WATCHED_S, self._watch_budgets)

    def _watch_budgets(self) -> None:
        self.watches_budgets = False
        now_s: float = self.loop.time()
        for claim in self.request_budget.too_slow(now_s):
            claim.owner.put_out("it sends the request it began too slowly, and others wait for its memory")
        for outlet in self.reply_budget.too_slow(now_s):
            outlet.put_out("it does not take its replies, and others need the memory")
        self.services.reading.press()
        if self.request_budget.is_short() or self.reply_budget.clogged:
            self.watch_budgets()

    # Words

    def complain(self, peer_host: str, text: str) -> None:
        """Why a connection is closed. The log stays readable, whatever peers send and however often."""
        self.bad_peers_total += 1
        self.complaints.tell(peer_host, text)


def _mapped(size: int) -> mmap.mmap:
    if _PRIVATE == 0:
        return mmap.mmap(-1, size)
    return mmap.mmap(-1, size, flags=_PRIVATE)


def _pool_class(size: i64) -> i64:
    index: i64 = POOL_CLASS_MIN
    while (1 << index) < size:
        index += 1
    return index
