"""Fetch sessions (KIP-227): a consumer of many partitions names them once, then sends and receives only changes.

Compiled, pure. A request says which session it belongs to by (session id, epoch):

    id 0, epoch -1   no session: a full request, a full answer, nothing remembered
    id x, epoch 0    a full request that asks for a new session (and gives up session x)
    id x, epoch -1   a full request that gives up session x
    id x, epoch > 0  an incremental request: partitions added or changed, partitions forgotten

Rotation: a partition that gave data goes to the end of its session's order, so that with a small `max_bytes` every
partition gets its turn. Python's dicts keep insertion order, which is all the ordering needed here.

Eviction follows Kafka: when all slots are taken, a session not used for `eviction_ms` goes first; otherwise one that
has been there for `eviction_ms` and is smaller than the newcomer. If neither exists the newcomer goes without.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1
SESSIONS_MAX: Final = 1000
"""`max.incremental.fetch.session.cache.slots`."""
EVICTION_MS: Final = 120_000

_OK: Final = 0
_SESSION_NOT_FOUND: Final = 70
_INVALID_EPOCH: Final = 71
_TOPIC_ID_MIX: Final = 106


class FetchPartition:
    """What a consumer wants of one partition, and what it was last told of it."""

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: i64,
        fetch_offset: i64,
        bytes_max: i64,
        current_leader_epoch: i64,
        last_fetched_epoch: i64,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index: i64 = index
        self.fetch_offset: i64 = fetch_offset
        self.bytes_max: i64 = bytes_max
        self.current_leader_epoch: i64 = current_leader_epoch
        self.last_fetched_epoch: i64 = last_fetched_epoch
        self.told_high_watermark: i64 = -1
        self.told_start_offset: i64 = -1

    def ask(self, other: FetchPartition) -> None:
        """Take over a changed request for the same partition; what it was told stays."""
        self.fetch_offset = other.fetch_offset
        self.bytes_max = other.bytes_max
        self.current_leader_epoch = other.current_leader_epoch
        self.last_fetched_epoch = other.last_fetched_epoch

    def must_tell(self, has_records: bool, error: i64, high_watermark: i64, start_offset: i64) -> bool:
        """Whether an incremental answer has to name this partition; remembers what is told."""
        tell = has_records
        if self.told_high_watermark != high_watermark:
            self.told_high_watermark = high_watermark
            tell = True
        if self.told_start_offset != start_offset:
            self.told_start_offset = start_offset
            tell = True
        if error != 0:
            # Forget what was told, so that the first good answer after an error is sent even if nothing moved.
            self.told_high_watermark = -1
            tell = True
        return tell


Key = tuple[str, bytes, int]


class FetchSession:
    """The partitions of one consumer, in the order they are served."""

    def __init__(self, session_id: i64, uses_topic_ids: bool, now_ms: i64) -> None:
        self.session_id: i64 = session_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch: i64 = 1
        self.created_ms: i64 = now_ms
        self.last_used_ms: i64 = now_ms
        self.partitions: dict[Key, FetchPartition] = {}

    def put(self, wanted: FetchPartition) -> None:
        key = (wanted.topic, wanted.topic_id, int(wanted.index))
        known = self.partitions.get(key)
        if known is None:
            self.partitions[key] = wanted
        else:
            known.ask(wanted)

    def forget(self, topic: str, topic_id: bytes, index: i64) -> None:
        self.partitions.pop((topic, topic_id, int(index)), None)

    def served(self, partition: FetchPartition) -> None:
        """It gave data: to the end of the order."""
        key = (partition.topic, partition.topic_id, int(partition.index))
        known = self.partitions.pop(key, None)
        if known is not None:
            self.partitions[key] = known


class SessionStart:
    """What a request's session fields came to: an error, or the partitions to serve."""

    def __init__(
        self, error: i64, session: FetchSession | None, incremental: bool, partitions: list[FetchPartition]
    ) -> None:
        self.error: i64 = error
        self.session = session
        self.incremental = incremental
        """Answer only what changed. False: answer every partition."""
        self.partitions = partitions

    @property
    def session_id(self) -> i64:
        return NO_SESSION if self.session is None else self.session.session_id


class FetchSessionCache:
    """All sessions of a node, bounded by slots."""

    def __init__(
        self,
        random_below: Callable[[int], int] | None = None,
        slots_max: int = SESSIONS_MAX,
        eviction_ms: int = EVICTION_MS,
    ) -> None:
        self.slots_max: i64 = slots_max
        self.eviction_ms: i64 = eviction_ms
        self.sessions: dict[int, FetchSession] = {}
        """By session id, least recently used first."""
        self.evictions: i64 = 0
        self._random_below = random_below
        self._last_id: i64 = 0

    def begin(
        self,
        session_id: i64,
        epoch: i64,
        uses_topic_ids: bool,
        wanted: list[FetchPartition],
        forgotten: list[Key],
        now_ms: i64,
    ) -> SessionStart:
        """Apply a request's session part."""
        if FINAL_EPOCH <= epoch <= INITIAL_EPOCH:
            if session_id != NO_SESSION:
                self.sessions.pop(int(session_id), None)
            session: FetchSession | None = None
            if epoch == INITIAL_EPOCH and wanted:
                session = self._create(uses_topic_ids, wanted, now_ms)
            return SessionStart(_OK, session, False, wanted)
        return self._continue(session_id, epoch, uses_topic_ids, wanted, forgotten, now_ms)

    def partitions_cached(self) -> int:
        return sum(len(session.partitions) for session in self.sessions.values())

    def _continue(
        self,
        session_id: i64,
        epoch: i64,
        uses_topic_ids: bool,
        wanted: list[FetchPartition],
        forgotten: list[Key],
        now_ms: i64,
    ) -> SessionStart:
        session = self.sessions.get(int(session_id))
        if session is None:
            return SessionStart(_SESSION_NOT_FOUND, None, False, [])
        if session.epoch != epoch:
            return SessionStart(_INVALID_EPOCH, None, False, [])
        if session.uses_topic_ids != uses_topic_ids:
            # A client must not change between names and ids inside a session (KIP-516).
            return SessionStart(_TOPIC_ID_MIX, None, False, [])
        for want in wanted:
            session.put(want)
        for topic, topic_id, index in forgotten:
            session.forget(topic, topic_id, index)
        if not session.partitions:
            del self.sessions[int(session_id)]
            return SessionStart(_OK, None, False, [])
        session.epoch = next_epoch(session.epoch)
        self._touch(session, now_ms)
        return SessionStart(_OK, session, True, list(session.partitions.values()))

    def _touch(self, session: FetchSession, now_ms: i64) -> None:
        session.last_used_ms = now_ms
        key = int(session.session_id)
        del self.sessions[key]
        self.sessions[key] = session

    def _create(self, uses_topic_ids: bool, wanted: list[FetchPartition], now_ms: i64) -> FetchSession | None:
        if self.slots_max <= 0:
            return None
        if len(self.sessions) >= self.slots_max and not self._evict(len(wanted), now_ms):
            return None
        session = FetchSession(self._new_id(), uses_topic_ids, now_ms)
        for want in wanted:
            session.put(want)
        self.sessions[int(session.session_id)] = session
        return session

    def _evict(self, newcomer_size: int, now_ms: i64) -> bool:
        """Free a slot for a session of `newcomer_size` partitions, if somebody may be sent away for it."""
        stalest: FetchSession | None = None
        smallest: FetchSession | None = None
        for session in self.sessions.values():
            if stalest is None:
                stalest = session
            if now_ms - session.created_ms <= self.eviction_ms:
                continue
            if smallest is None or len(session.partitions) < len(smallest.partitions):
                smallest = session
        victim: FetchSession | None = None
        if stalest is not None and now_ms - stalest.last_used_ms > self.eviction_ms:
            victim = stalest
        elif smallest is not None and len(smallest.partitions) < newcomer_size:
            victim = smallest
        if victim is None:
            return False
        del self.sessions[int(victim.session_id)]
        self.evictions += 1
        return True

    def _new_id(self) -> i64:
        """Random, so that a session id from before a restart is not mistaken for a living one."""
        while True:
            if self._random_below is None:
                self._last_id = self._last_id % EPOCH_MAX + 1
            else:
                self._last_id = self._random_below(EPOCH_MAX) + 1
            if int(self._last_id) not in self.sessions:
                return self._last_id


def next_epoch(epoch: i64) -> i64:
    """The epoch after `epoch`; wraps past 0, which means "new session"."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == EPOCH_MAX else epoch + 1
