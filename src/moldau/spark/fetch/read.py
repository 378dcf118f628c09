"""Executors: offset ranges, fetched from the leaders, as Arrow record batches.

Every leader has a lane with one fetch under way. As soon as an answer is in, its batch headers tell where to go on and
the next fetch leaves; only then are the records of the answer turned into columns, while the broker works. So one
answer per leader is in memory and another one in the kernel's buffers, whatever the size of a range.

A range is done when its position has reached its end. Positions move only by whole batches that were received, so a
lost connection or a moved leader is answered by asking again, and nothing is lost or doubled.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from moldau.client.failures import AnswerTimedOut, BrokerRefused, NoBrokerAnswers
from moldau.model.errors import RETRIABLE, ErrorCode
from moldau.model.failures import PeerGone, WireError
from moldau.model.ids import NO_TOPIC_ID, TopicPartition
from moldau.records.batch import MAGIC
from moldau.records.column_walk import next_fetch_offset
from moldau.spark.fetch.leaders import LinkPool, TopicLeaders, pool_for
from moldau.spark.fetch.link import BrokerLink, readable
from moldau.spark.fetch.progress import Progress
from moldau.spark.fetch.requests import fetch_request, log_bounds
from moldau.spark.fetch.rows import Rows
from moldau.spark.types import DataLost, OffsetRange, ReadFailed, ReadSettings, lost_sentence, topic_id_bytes
from moldau.wire.apis import ApiKey

FETCH_BYTES: Final = 2 << 20
"""At most this much is asked for at once; a single larger batch comes nevertheless. Measured: what fits the processor's
caches is read in less time than larger pieces."""

FETCH_VERSION_BY_NAME: Final = 12
FETCH_VERSION_BY_ID: Final = 13
PROGRESS_TIMEOUT_MS: Final = 60_000
GONE_AFTER_S: Final = 10.0
"""How long a topic, partition or the end of a log must be missing before it counts as gone: leaders change."""

_WAIT_MS: Final = 250
_TICK_S: Final = 0.5
_MAGIC_AT: Final = 16
_LINK_FAILURES: Final = (PeerGone, AnswerTimedOut, NoBrokerAnswers, WireError)
_ALSO_RETRIED: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.UNKNOWN_SERVER_ERROR}
)

log = logging.getLogger(__name__)


def read_ranges(settings: ReadSettings, ranges: Sequence[OffsetRange]) -> Iterator[Any]:
    """Every record of `ranges` as pyarrow.RecordBatch with the schema `types.arrow_schema(settings)`.

    Raises `DataLost` when records are gone and that matters, `BadRecord` when one does not decode and that matters,
    `ReadFailed` when the cluster gives no more for a minute (default.api.timeout.ms).
    """
    reading = _Reading(settings, ranges)
    rows = Rows(settings)
    try:
        for answer in reading.answers():
            yield from rows.add(answer.range, answer.position, answer.data, answer.aborted)
            del answer  # its memory serves the next one
        yield from rows.rest()
    finally:
        reading.close()


class Answer(NamedTuple):
    """Batches of one partition from `position` on, and (producer id, first offset) of aborted transactions in them."""

    range: OffsetRange
    position: int
    data: bytes
    aborted: list[tuple[int, int]]


class _Lane(NamedTuple):
    """A fetch under way."""

    node_id: int
    link: BrokerLink
    sent_s: float
    asked: dict[TopicPartition, Progress]
    names: dict[bytes, str]
    """Topic ids to names: newer brokers answer by id only."""


class _Reading:
    def __init__(self, settings: ReadSettings, ranges: Sequence[OffsetRange]) -> None:
        self._settings = settings
        self._pool: LinkPool = pool_for(settings.bootstrap, settings.client)
        self._timeout_s = int(settings.client.get("default.api.timeout.ms", PROGRESS_TIMEOUT_MS)) / 1000
        self._fetch_bytes = int(settings.client.get("fetch.max.bytes", FETCH_BYTES))
        self._partition_bytes = int(settings.client.get("max.partition.fetch.bytes", self._fetch_bytes))
        self._started_s = time.monotonic()
        self._looked_s = self._started_s
        self._open = [Progress(part) for part in ranges if part.start < part.end]
        self._lanes: dict[int, _Lane] = {}
        self._links: dict[int, BrokerLink] = {}

    def answers(self) -> Iterator[Answer]:
        while True:
            self._open = [progress for progress in self._open if not progress.done]
            if not self._open:
                return
            self._send_fetches()
            lane = self._answered_lane()
            if lane is None:
                continue
            found = self._receive(lane)
            self._send_fetches()  # the next fetch is under way while the caller works on this one
            while found:
                yield found.pop(0)

    def close(self) -> None:
        """Give back connections; those with an unread answer are closed."""
        for link in self._links.values():
            self._pool.give_back(link)
        self._links.clear()
        self._lanes.clear()

    # -- asking ------------------------------------------------------------------------------------------------

    def _send_fetches(self) -> None:
        """A fetch to every leader that has none and leads something that is open."""
        self._looked_s = now_s = time.monotonic()
        in_flight = {partition for lane in self._lanes.values() for partition in lane.asked}
        groups: dict[int, dict[TopicPartition, Progress]] = {}
        expected_bytes: dict[int, int] = {}
        for progress in self._open:
            partition = progress.partition
            if progress.done or progress.retry_at_s > now_s or partition in in_flight:
                continue
            node_id = self._leader_of(progress)
            # No more partitions than can fill an answer: brokers look at each that is named.
            if node_id is None or node_id in self._lanes or expected_bytes.get(node_id, 0) > 2 * self._fetch_bytes:
                continue
            if groups.setdefault(node_id, {}).setdefault(partition, progress) is progress and not progress.waits:
                expected_bytes[node_id] = expected_bytes.get(node_id, 0) + self._limit(progress)
        for node_id, asked in groups.items():
            self._send(node_id, asked)

    def _send(self, node_id: int, asked: dict[TopicPartition, Progress]) -> None:
        try:
            link = self._links.get(node_id) or self._pool.take(node_id)
            self._links[node_id] = link
            ids = {name: self._topic_id(name, asked.values()) for name in {part.topic for part in asked}}
            newest = FETCH_VERSION_BY_ID if NO_TOPIC_ID not in ids.values() else FETCH_VERSION_BY_NAME
            limits = {part: self._limit(progress) for part, progress in asked.items()}
            waiting = any(progress.waits for progress in asked.values())
            request = fetch_request(
                {part: (progress.position, limits[part]) for part, progress in asked.items()},
                ids,
                read_committed=self._settings.read_committed,
                bytes_max=self._fetch_bytes,
                wait_ms=_WAIT_MS if waiting else 0,
            )
            link.send(ApiKey.FETCH, request, newest=newest)
        except _LINK_FAILURES as failure:
            self._drop(node_id, asked.values(), str(failure))
            return
        self._lanes[node_id] = _Lane(node_id, link, time.monotonic(), asked, {raw: name for name, raw in ids.items()})

    def _limit(self, progress: Progress) -> int:
        """About as many bytes as the rest of the range weighs: what is fetched beyond it is thrown away."""
        weight = self._pool.bytes_per_offset.get(progress.partition)
        return min(self._partition_bytes, progress.bytes_wanted(weight))

    def _topic_id(self, name: str, asked: Iterable[Progress]) -> bytes:
        for progress in asked:
            if progress.range.topic == name and progress.range.topic_id:
                return topic_id_bytes(progress.range.topic_id)
        known = self._pool.topic(name)
        return known.topic_id if known is not None else NO_TOPIC_ID

    # -- leaders -----------------------------------------------------------------------------------------------

    def _leader_of(self, progress: Progress) -> int | None:
        """The broker to ask, or None when there is none now: then the range was told so."""
        if not self._metadata_is_fresh(progress):
            return None
        topic = self._pool.topic(progress.range.topic)
        index = progress.range.partition
        if topic is None:
            self._missing(progress, "the topic no longer exists")
        elif self._is_another(progress.range, topic):
            self._lost(progress, progress.range.end, "the topic was deleted and created again")
        elif index not in topic.partitions:
            count = len(topic.partitions)
            self._missing(progress, f"the topic has {count} partition{'s' if count != 1 else ''} now")
        elif index not in topic.leaders:
            self._failed(progress, "the partition has no leader")
        else:
            return topic.leaders[index]
        return None

    def _metadata_is_fresh(self, progress: Progress) -> bool:
        """What is remembered serves while all goes well; it is asked for anew after a failure and before a topic
        counts as another one."""
        known = self._pool.topic(progress.range.topic)
        recent = known is not None and known.read_at_s >= progress.failed_at_s
        if known is not None and recent and not self._is_another(progress.range, known):
            return True
        if known is not None and recent and known.read_at_s >= self._started_s:
            return True
        try:
            self._pool.refresh({other.range.topic for other in self._open})
        except NoBrokerAnswers as failure:
            for other in self._idle_ranges():
                self._failed(other, str(failure))
            return False
        return True

    @staticmethod
    def _is_another(wanted: OffsetRange, topic: TopicLeaders) -> bool:
        if not wanted.topic_id or topic.topic_id == NO_TOPIC_ID:
            return False
        return topic_id_bytes(wanted.topic_id) != topic.topic_id

    # -- answers -----------------------------------------------------------------------------------------------

    def _answered_lane(self) -> _Lane | None:
        """A lane whose answer begins to arrive; None after a while without one, so that others can be tried again."""
        lanes = list(self._lanes.values())
        # What was due when fetches were sent last, and is not being fetched, waits for an answer to another fetch.
        retries = [progress.retry_at_s for progress in self._idle_ranges() if progress.retry_at_s > self._looked_s]
        now_s = time.monotonic()
        pause_s = min([_TICK_S, *(max(0.0, at_s - now_s) for at_s in retries)])
        ready = readable([lane.link for lane in lanes], pause_s)
        if ready:
            lane = next(lane for lane in lanes if lane.link is ready[0])
            del self._lanes[lane.node_id]
            return lane
        for lane in lanes:
            if time.monotonic() - lane.sent_s > lane.link.timeout_s:
                del self._lanes[lane.node_id]
                late = AnswerTimedOut(lane.link.address, "Fetch", lane.link.timeout_s)
                self._drop(lane.node_id, lane.asked.values(), str(late))
        return None

    def _idle_ranges(self) -> list[Progress]:
        """Ranges that are open and not being fetched."""
        busy = {id(progress) for lane in self._lanes.values() for progress in lane.asked.values()}
        return [progress for progress in self._open if not progress.done and id(progress) not in busy]

    def _receive(self, lane: _Lane) -> list[Answer]:
        try:
            response = lane.link.receive()
        except _LINK_FAILURES as failure:
            self._drop(lane.node_id, lane.asked.values(), str(failure))
            return []
        if response.error_code != 0:
            for progress in lane.asked.values():
                self._refused(progress, ErrorCode(response.error_code))
            return []
        rows = [(topic, row) for topic in response.responses for row in topic.partitions]
        nothing_at_all = not any(row.records for _, row in rows)
        found = []
        for topic, row in rows:
            name = topic.topic or lane.names.get(topic.topic_id, "")
            partition = TopicPartition(name, row.partition_index)
            if partition in lane.asked:
                answer = self._take_row(lane, lane.asked[partition], row, nothing_at_all)
                found += [] if answer is None else [answer]
        return found

    def _take_row(self, lane: _Lane, progress: Progress, row: Any, nothing_at_all: bool) -> Answer | None:
        code = ErrorCode(row.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range(lane, progress)
        elif code is not ErrorCode.NONE:
            self._refused(progress, code)
        elif row.records:
            return self._accept(progress, row)
        elif nothing_at_all:
            # An empty row beside full ones means only that the answer was full.
            self._nothing_there(progress, row)
        return None

    def _accept(self, progress: Progress, row: Any) -> Answer | None:
        data = bytes(row.records)
        position = progress.position
        self._check_magic(progress.range, position, data)
        reached = next_fetch_offset(data, position)
        if reached == position:
            progress.bytes_min = max(progress.bytes_min, 2 * len(data))  # cut inside its first batch: ask for more
            return None
        self._pool.bytes_per_offset[progress.partition] = len(data) / (reached - position)
        progress.advance(reached)
        aborted = [(entry.producer_id, entry.first_offset) for entry in row.aborted_transactions or []]
        return Answer(progress.range, position, data, aborted if self._settings.read_committed else [])

    def _check_magic(self, wanted: OffsetRange, position: int, data: bytes) -> None:
        magic = data[_MAGIC_AT] if len(data) > _MAGIC_AT else MAGIC
        if magic < MAGIC:
            raise ReadFailed(
                f"topic '{wanted.topic}' partition {wanted.partition} offset {position} is stored in message format "
                f"v{magic}, as Kafka before 0.11 wrote it; only v2 can be read here. Copy the topic with a client of "
                "today to rewrite it"
            )

    def _nothing_there(self, progress: Progress, row: Any) -> None:
        """The log has no batch from the position on. Compaction may have emptied the rest of the range."""
        visible = row.last_stable_offset if self._settings.read_committed else row.high_watermark
        end = progress.range.end
        progress.empty_answers += 1
        if visible >= end:
            if progress.empty_answers > 1:  # the second one had time to wait for slow storage
                progress.advance(end)
        elif row.high_watermark >= end:
            self._held_back(progress, visible)
        else:
            self._log_too_short(progress, row.high_watermark)

    def _held_back(self, progress: Progress, stable: int) -> None:
        """A transaction is open before the end of the range. It may end any moment: waited for, and told at once."""
        why = f"an open transaction holds readers back from offset {stable} on (read_committed)"
        if progress.why != why:
            log.warning("%s: %s; waiting %g s for its end", self._where(progress), why, self._timeout_s)
        progress.fail(why)
        if progress.failing_for_s() > self._timeout_s:
            raise ReadFailed(
                f"{self._where(progress)}: {why}, and did not end within {self._timeout_s:g} s. See who holds it with: "
                "moldau txn list. Let the read end earlier, wait longer with kafka.default.api.timeout.ms, or set "
                "kafka.isolation.level=read_uncommitted"
            )

    # -- what goes wrong ---------------------------------------------------------------------------------------

    def _out_of_range(self, lane: _Lane, progress: Progress) -> None:
        try:
            bounds = log_bounds(lane.link, progress.partition)
        except BrokerRefused as refusal:
            self._refused(progress, refusal.code)
            return
        except _LINK_FAILURES as failure:
            self._drop(lane.node_id, [progress], str(failure))
            return
        if bounds.start > progress.position:
            reason = f"the log now starts at offset {bounds.start} (retention or deleted records)"
            self._lost(progress, min(bounds.start, progress.range.end), reason)
        elif bounds.end < progress.position:
            self._log_too_short(progress, bounds.end)
        else:
            self._failed(progress, ErrorCode.OFFSET_OUT_OF_RANGE.name)

    def _log_too_short(self, progress: Progress, log_end: int) -> None:
        self._missing(progress, f"the log ends at offset {log_end}: it was truncated or its newest part was not saved")

    def _missing(self, progress: Progress, reason: str) -> None:
        """Loss if it stays so: metadata and high watermarks lag behind for a moment when leaders change."""
        progress.fail(reason)
        if progress.failing_for_s() > min(GONE_AFTER_S, self._timeout_s):
            self._lost(progress, progress.range.end, reason)

    def _lost(self, progress: Progress, until: int, reason: str) -> None:
        wanted = progress.range
        if self._settings.fail_on_data_loss:
            once = self._settings.planned_once
            raise DataLost(wanted.topic, wanted.partition, progress.position, until, reason, planned_once=once)
        log.warning("%s", lost_sentence(wanted.topic, wanted.partition, progress.position, until, reason))
        progress.advance(until)

    def _refused(self, progress: Progress, code: ErrorCode) -> None:
        if code not in RETRIABLE and code not in _ALSO_RETRIED:
            raise ReadFailed(f"{self._where(progress)}: {code.name}")
        self._failed(progress, code.name)

    def _drop(self, node_id: int, asked: Iterable[Progress], why: str) -> None:
        """The connection is of no use any more."""
        link = self._links.pop(node_id, None)
        if link is not None:
            link.close()
        for progress in asked:
            self._failed(progress, why)

    def _failed(self, progress: Progress, why: str) -> None:
        progress.fail(why)
        if progress.failing_for_s() > self._timeout_s:
            raise ReadFailed(f"{self._where(progress)}: nothing came for {self._timeout_s:g} s: {why}")

    @staticmethod
    def _where(progress: Progress) -> str:
        return f"topic '{progress.range.topic}' partition {progress.range.partition} offset {progress.position}"
