"""One coordinator shard at work: commands in, records to its partition's log, replies when they are committed.

    decide -> append -> apply            without a turn of the loop in between, so the loop is the lock
    ... the tick writes the append, the high watermark passes it ...
    effects, reply, completions          in the order of the decisions

Non-obvious:

- Nothing is answered before the high watermark passed *everything applied so far*, reads included: what a reader is
  told can then not be lost with the leader. A reply without records waits only if something is in flight.
- The shard wakes as a waiter of its partition, in the server's tick, after the tick's appends were written. So a reply
  never leaves for bytes that did not reach the page cache, and effects never overtake their decision on disk.
- Decisions may touch soft state. If an append fails, that state is ahead of the log: the shard is dropped and loaded
  again. Only when the append was refused for what it contains is the decision taken back instead (`not_appended`).
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from moldau.broker.partition import Partition, Waiter
from moldau.broker.shards.batches import RecordTooLarge, build_batches
from moldau.broker.shards.loading import READ_BYTES, Codec, LoadFailed, replay
from moldau.broker.shards.telling import tell, tell_expired
from moldau.core.coordination import NOT_YET, Decision, Now
from moldau.model.checks import InvariantBroken
from moldau.model.errors import ErrorCode, Refused
from moldau.model.failures import DiskFailed
from moldau.ports import Clock
from moldau.records.batch import NO_PRODUCER_ID

UNCOMMITTED_MAX: Final = 10_000
"""Decisions that wait for the high watermark; more means that replication does not keep up."""
WAITING_MAX: Final = 100_000
"""Commands that wait for others (joins, syncs)."""
NO_TICKET: Final = -1

Deliver = Callable[[Any], None]
log = logging.getLogger("moldau.shards")

_GONE: Final = {
    int(ErrorCode.NOT_LEADER_OR_FOLLOWER): ErrorCode.NOT_COORDINATOR,
    int(ErrorCode.KAFKA_STORAGE_ERROR): ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""Append errors that mean the shard cannot go on, and what its callers are told."""


class ShardCore(Protocol):
    """A decider as the runtime sees it (`core/group/shard.py`, `core/transaction/shard.py`)."""

    def decide(self, command: Any, now: Now) -> Decision: ...

    def apply(self, record: Any, producer_id: int = NO_PRODUCER_ID) -> None: ...

    def apply_marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None: ...

    def loaded(self, now: Now) -> Decision | None:
        """The log has been replayed: soft state begins, with full timeouts."""
        ...

    def next_deadline_ms(self) -> int | None:
        """In milliseconds of the loop's clock (`Now.loop_ms`)."""
        ...

    def decide_expired(self, now: Now) -> Decision: ...


class Producer(NamedTuple):
    """Whose transaction an append belongs to."""

    producer_id: int
    producer_epoch: int


class ShardState(enum.Enum):
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"
    """Its log could not be read; answered like a coordinator that is not there."""
    CLOSED = "closed"


_REFUSALS: Final = {
    ShardState.LOADING: Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the coordinator is loading"),
    ShardState.FAILED: Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator could not be loaded"),
    ShardState.CLOSED: Refused(ErrorCode.NOT_COORDINATOR, "this node does not coordinate here any more"),
}
_BUSY: Final = Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too many requests wait for this coordinator")
_TOO_SLOW: Final = Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the commit was not replicated in time")


class _Uncommitted:
    """Answers and effects of one decision, until the high watermark reaches `end_offset`."""

    __slots__ = ("answers", "deadline_ms", "effects", "end_offset")

    def __init__(
        self, end_offset: int, answers: list[tuple[Deliver, Any]], effects: tuple[Any, ...], deadline_ms: int
    ) -> None:
        self.end_offset = end_offset
        self.answers = answers
        self.effects = effects
        self.deadline_ms = deadline_ms


class _Watch(Waiter):
    """The shard's place among the waiters of its partition."""

    def __init__(self, shard: ShardRuntime) -> None:
        super().__init__()
        self.shard = shard

    def wake(self) -> None:
        self.shard.partition_moved()

    def fail(self, error: Exception) -> None:
        self.shard.on_bug(error)


class ShardRuntime:
    """Runs one core. Made by the directory when this node becomes leader of the partition."""

    def __init__(
        self,
        partition: Partition,
        new_core: Callable[[], ShardCore],
        codec: Codec,
        *,
        clock: Clock,
        compression: int = 0,
        commit_timeout_ms: int = 5_000,
        load_bytes: int = READ_BYTES,
        on_effect: Callable[[ShardRuntime, Any], None] | None = None,
        on_dropped: Callable[[ShardRuntime], None] | None = None,
        on_bug: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.partition = partition
        self.leader_epoch = int(partition.leader_epoch)
        self.state = ShardState.LOADING
        self.core = new_core()
        self.on_bug: Callable[[BaseException], None] = on_bug if on_bug is not None else _raise
        self._codec = codec
        self._clock = clock
        self._compression = compression
        self._commit_timeout_ms = commit_timeout_ms
        self._load_bytes = load_bytes
        self._on_effect = on_effect
        self._on_dropped = on_dropped
        self._watch = _Watch(self)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._end_offset = 0
        """After the newest record applied."""
        self._committed_offset = 0
        """Everything below is replicated and written; raised in the tick only."""
        self._uncommitted: deque[_Uncommitted] = deque()
        self._waiting: dict[int, Deliver] = {}
        self.uncommitted_max = UNCOMMITTED_MAX
        self.waiting_max = WAITING_MAX
        self._ticket = 0
        partition.watch(self._watch)

    def __repr__(self) -> str:
        return f"ShardRuntime({self.partition.topic}-{self.partition.index}, {self.state.value})"

    # -- asking ------------------------------------------------------------------------------------------------------

    def submit(self, command: Any, *, producer: Producer | None = None) -> asyncio.Future[Any]:
        """Decide; the future holds the reply, or a `Refused`, once it is committed."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self.submit_to(command, lambda reply: None if future.done() else future.set_result(reply), producer=producer)
        return future

    def submit_to(self, command: Any, deliver: Deliver, *, producer: Producer | None = None) -> None:
        """Decide; `deliver` is called with the reply or a `Refused`, at once or from a later tick. With a producer,
        the records are appended as part of its transaction."""
        refusal = self.refusal()
        if refusal is not None:
            deliver(refusal)
            return
        ticket = NO_TICKET
        if hasattr(command, "ticket"):
            self._ticket = ticket = self._ticket + 1
            command = command._make((ticket, *command[1:]))  # the first field; `_replace` takes several times as long
        now = self.now()
        decision = self.core.decide(command, now)
        self._carry_out(decision, now, deliver, ticket, producer)

    def refusal(self) -> Refused | None:
        """Why nothing can be asked now; None when the shard is ready."""
        if self.state is not ShardState.READY:
            return _REFUSALS[self.state]
        if len(self._uncommitted) >= self.uncommitted_max or len(self._waiting) >= self.waiting_max:
            return _BUSY
        return None

    def marker_appended(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """A transaction marker was appended to the partition, just now. While the shard loads there is nothing to do:
        its replay will meet the marker."""
        if self.state is ShardState.READY:
            self.core.apply_marker(producer_id, producer_epoch, committed)
            self._end_offset = int(self.partition.log.end_offset)
            self._set_timer()

    def now(self) -> Now:
        return Now(self._clock.wall_ms(), int(self._loop.time() * 1000.0))

    # -- carrying out ------------------------------------------------------------------------------------------------

    def _carry_out(
        self,
        decision: Decision,
        now: Now,
        deliver: Deliver | None = None,
        ticket: int = NO_TICKET,
        producer: Producer | None = None,
        told: Callable[[tuple[Any, ...]], None] = tell,
    ) -> None:
        if decision.records:
            refused = self._append(decision.records, now, producer)
            if refused is not None:
                self._not_appended(decision, refused, now, deliver)
                return
            told(decision.records)
        answers: list[tuple[Deliver, Any]] = []
        if deliver is not None:
            if decision.reply is NOT_YET:
                self._waiting[ticket] = deliver
            else:
                answers.append((deliver, decision.reply))
        for completed, reply in decision.completions:
            waiter = self._waiting.pop(completed, None)
            if waiter is not None:
                answers.append((waiter, reply))
        if answers or decision.effects:
            self._when_committed(
                _Uncommitted(self._end_offset, answers, decision.effects, now.loop_ms + self._commit_timeout_ms)
            )
        self._set_timer()

    def _append(self, records: tuple[Any, ...], now: Now, producer: Producer | None) -> Refused | None:
        """Append and apply. Refused without a trace for what the records are; the shard is gone if the partition
        or its disk is."""
        producer_id, producer_epoch = producer if producer is not None else (NO_PRODUCER_ID, -1)
        partition, encode = self.partition, self._codec.encode
        try:
            batches = build_batches(
                [encode(record) for record in records],
                now_ms=now.wall_ms,
                batch_bytes_max=int(partition.log.settings.message_bytes_max),
                codec=self._compression,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
            )
        except RecordTooLarge as problem:
            return Refused(ErrorCode.UNKNOWN_SERVER_ERROR, str(problem))
        for number, batch in enumerate(batches):
            outcome = partition.append_own(batch, now.wall_ms)
            if outcome.error:
                return self._append_refused(int(outcome.error), outcome.detail, after=number)
            self._end_offset = int(outcome.last_offset) + 1
        for record in records:
            self.core.apply(record, producer_id)
        return None

    def _append_refused(self, error: int, detail: str, *, after: int) -> Refused:
        code = _GONE.get(error)
        if code is None and after == 0:
            return Refused(ErrorCode(error), detail)
        refused = Refused(code or ErrorCode.COORDINATOR_NOT_AVAILABLE, detail)
        self._drop(refused)
        return refused

    def _not_appended(self, decision: Decision, refused: Refused, now: Now, deliver: Deliver | None) -> None:
        if deliver is not None:
            deliver(refused)
        if self.state is not ShardState.READY:
            return  # dropped, and everyone who waited was told
        log.warning("%s-%d: a decision was not appended: %s", self.partition.topic, self.partition.index, refused)
        take_back: Callable[[Decision, Refused, Now], Decision] | None = getattr(self.core, "decide_not_appended", None)
        if take_back is None:
            self._drop(Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator is loaded again"))
        else:
            self._carry_out(take_back(decision, refused, now), now)

    def _when_committed(self, entry: _Uncommitted) -> None:
        if self._committed_offset >= entry.end_offset and not self._uncommitted:
            self._answer(entry)
        else:
            self._uncommitted.append(entry)

    def _answer(self, entry: _Uncommitted) -> None:
        for effect in entry.effects:
            if self._on_effect is not None:
                self._on_effect(self, effect)
        for deliver, reply in entry.answers:
            deliver(reply)

    # -- what the partition tells ------------------------------------------------------------------------------------

    def partition_moved(self) -> None:
        """Called from the tick after appends were written, and when the partition changes its role."""
        partition = self.partition
        if self.state is ShardState.CLOSED:
            return
        if partition.offline or partition.log.offline:
            self._drop(Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator's log directory is offline"))
            return
        if not partition.is_leader or partition.leader_epoch != self.leader_epoch:
            self._drop(_REFUSALS[ShardState.CLOSED])
            return
        if partition.log.has_unflushed:
            # Somebody woken before us in this tick appended here; what we answer must be written first.
            try:
                partition.log.flush_appends()
            except DiskFailed as problem:
                self._drop(Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(problem)))
                return
        committed = self._committed_offset = int(partition.high_watermark)
        # An answer may lead to another append, whose entry is not written yet: its end lies beyond `committed`.
        while self._uncommitted and self._uncommitted[0].end_offset <= committed:
            self._answer(self._uncommitted.popleft())

    # -- time --------------------------------------------------------------------------------------------------------

    def _set_timer(self) -> None:
        """One timer, for the nearest deadline. Deadlines mostly move away; then the timer fires once in vain."""
        wanted = self.core.next_deadline_ms()
        if self._uncommitted and (wanted is None or self._uncommitted[0].deadline_ms < wanted):
            wanted = self._uncommitted[0].deadline_ms
        if wanted is None or (self._timer is not None and self._timer_ms <= wanted):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = wanted
        # One millisecond late rather than early: times are cut to whole milliseconds.
        self._timer = self._loop.call_at((wanted + 1) / 1000.0, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self.state is not ShardState.READY:
            return
        try:
            now = self.now()
            self._give_up_waiting(now.loop_ms)
            deadline = self.core.next_deadline_ms()
            if deadline is not None and deadline <= now.loop_ms:
                self._carry_out(self.core.decide_expired(now), now, told=tell_expired)
            else:
                self._set_timer()
        except Exception as error:
            self.on_bug(error)

    def _give_up_waiting(self, now_ms: int) -> None:
        """Tell those who waited too long for replication. Their records stay, and may still be committed."""
        for entry in self._uncommitted:
            if entry.deadline_ms > now_ms:
                break
            answers, entry.answers = entry.answers, []
            entry.deadline_ms = now_ms + self._commit_timeout_ms
            for deliver, _ in answers:
                deliver(_TOO_SLOW)

    # -- beginning and end -------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Replay the log, then serve."""
        began = self._loop.time()
        name = f"{self.partition.topic}-{self.partition.index}"
        try:
            loaded = await replay(
                self.partition, self.core, self._codec, lambda: self.state is ShardState.LOADING, self._load_bytes
            )
        except LoadFailed as problem:
            log.error("coordinator %s could not be loaded: %s", name, problem)
            if self.state is ShardState.LOADING:
                self.state = ShardState.FAILED
            return
        if loaded is None:
            return
        self._serve(loaded.end_offset)
        took_ms = (self._loop.time() - began) * 1000.0
        level = logging.INFO if loaded.records else logging.DEBUG
        log.log(level, "coordinator %s loaded %d records in %.0f ms", name, loaded.records, took_ms)
        if loaded.skipped:
            log.warning("coordinator %s skipped %d records it does not know", name, loaded.skipped)

    def load_empty(self) -> bool:
        """Serve at once if there is nothing to replay."""
        its_log = self.partition.log
        if its_log.offline or its_log.start_offset < its_log.end_offset:
            return False
        self._serve(int(its_log.end_offset))
        return True

    def _serve(self, end_offset: int) -> None:
        self.state = ShardState.READY
        self._end_offset = end_offset
        self._committed_offset = int(self.partition.high_watermark)
        now = self.now()
        first = self.core.loaded(now)
        if first is None:
            self._set_timer()
        else:
            self._carry_out(first, now)

    def close(self) -> None:
        """This node resigns, or stops."""
        self._end(_REFUSALS[ShardState.CLOSED])

    def _drop(self, refused: Refused) -> None:
        """The shard cannot go on: forget it, and let the directory decide whether to load it again."""
        if self.state is ShardState.CLOSED:
            return
        log.info("coordinator %s-%d dropped: %s", self.partition.topic, self.partition.index, refused.detail)
        self._end(refused)
        if self._on_dropped is not None:
            self._on_dropped(self)

    def _end(self, refused: Refused) -> None:
        self.state = ShardState.CLOSED
        self._watch.done = True
        self.partition.unwatch(self._watch)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        uncommitted, self._uncommitted = self._uncommitted, deque()
        waiting, self._waiting = self._waiting, {}
        for entry in uncommitted:
            for deliver, _ in entry.answers:
                deliver(refused)
        for deliver in waiting.values():
            deliver(refused)


def _raise(error: BaseException) -> None:
    raise error if isinstance(error, Exception) else InvariantBroken(str(error))
