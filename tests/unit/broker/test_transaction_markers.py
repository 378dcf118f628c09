"""A decided transaction on its way to its partitions: tried again until it is there, complete only then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from moldau.broker.shards.runtime import ShardRuntime, ShardState
from moldau.broker.transactions import markers
from moldau.broker.transactions.markers import AppendedMarker, Completion, Marker, MarkerWriter
from moldau.core.transaction.commands import MarkersWritten, WriteMarkers
from moldau.model.errors import ErrorCode, Refused
from moldau.model.ids import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
EFFECT = WriteMarkers("t", 7, 3, True, (A, B), 2)


class FakePartition:
    def __init__(self) -> None:
        self.high_watermark = 100
        self.leader_epoch = 0
        self.error = 0
        self.waiters: list[Any] = []

    def role_error(self) -> int:
        return self.error

    def watch(self, waiter: Any) -> None:
        self.waiters.append(waiter)

    def unwatch(self, waiter: Any) -> None:
        if waiter in self.waiters:
            self.waiters.remove(waiter)


class FakeWriter:
    """Answers each partition with the next of its prepared answers; the last one stays."""

    def __init__(self, answers: dict[TopicPartition, list[AppendedMarker | Refused]]) -> None:
        self.answers = answers
        self.written: list[tuple[TopicPartition, Marker]] = []

    def append(self, key: TopicPartition, marker: Marker) -> AppendedMarker | Refused:
        self.written.append((key, marker))
        answers = self.answers[key]
        return answers.pop(0) if len(answers) > 1 else answers[0]


class FakeShard:
    def __init__(self) -> None:
        self.state = ShardState.READY
        self.leader_epoch = 5
        self.told: list[MarkersWritten] = []
        self.complete = asyncio.Event()
        self.busy: list[Refused] = []
        self.bugs: list[BaseException] = []
        self.on_bug = self.bugs.append

    def refusal(self) -> Refused | None:
        return self.busy.pop() if self.busy else None

    def submit_to(self, command: MarkersWritten, deliver: Callable[[Any], None]) -> None:
        self.told.append(command)
        self.complete.set()


def appended(partition: FakePartition, end_offset: int = 10) -> AppendedMarker:
    return AppendedMarker(cast(Any, partition), end_offset, 0)


def begin(writer: FakeWriter, shard: FakeShard) -> tuple[Completion, list[Completion]]:
    finished: list[Completion] = []
    completion = Completion(cast(MarkerWriter, writer), cast(ShardRuntime, shard), EFFECT, finished.append)
    completion.begin()
    return completion, finished


def in_loop(test: Callable[[], Any]) -> None:
    markers_pause, markers.RETRY_PAUSE_S = markers.RETRY_PAUSE_S, 0.001  # type: ignore[misc]
    try:
        asyncio.run(asyncio.wait_for(test(), 60))
    finally:
        markers.RETRY_PAUSE_S = markers_pause  # type: ignore[misc]


def test_written_everywhere_means_complete_at_once() -> None:
    async def test() -> None:
        shard = FakeShard()
        writer = FakeWriter({A: [appended(FakePartition())], B: [appended(FakePartition())]})
        _, finished = begin(writer, shard)
        assert shard.told == [MarkersWritten("t", 7, 3)]
        assert len(finished) == 1
        assert writer.written == [(A, Marker(7, 3, True, 5, 2)), (B, Marker(7, 3, True, 5, 2))]

    in_loop(test)


def test_a_partition_that_fails_is_tried_again_and_only_that_one() -> None:
    async def test() -> None:
        shard = FakeShard()
        offline = Refused(ErrorCode.KAFKA_STORAGE_ERROR)
        moved = Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        writer = FakeWriter({A: [appended(FakePartition())], B: [offline, moved, appended(FakePartition())]})
        begin(writer, shard)
        assert shard.told == []
        await shard.complete.wait()
        assert [key for key, _ in writer.written] == [A, B, B, B]
        assert len(shard.told) == 1

    in_loop(test)


def test_it_waits_for_the_high_watermark() -> None:
    async def test() -> None:
        shard, slow = FakeShard(), FakePartition()
        slow.high_watermark = 9
        completion, _ = begin(FakeWriter({A: [appended(slow)], B: [appended(FakePartition())]}), shard)
        completion.wake()
        assert shard.told == []
        slow.high_watermark = 10
        completion.wake()
        assert len(shard.told) == 1
        assert slow.waiters == []

    in_loop(test)


def test_a_marker_that_may_be_cut_off_with_its_leader_is_written_again() -> None:
    async def test() -> None:
        shard, lost = FakeShard(), FakePartition()
        lost.high_watermark = 9
        writer = FakeWriter({A: [appended(lost), appended(FakePartition())], B: [appended(FakePartition())]})
        completion, _ = begin(writer, shard)
        lost.leader_epoch = 1
        completion.wake()
        await shard.complete.wait()
        assert [key for key, _ in writer.written] == [A, B, A]

    in_loop(test)


def test_deleted_topics_and_newer_epochs_are_done() -> None:
    async def test() -> None:
        shard = FakeShard()
        gone, newer = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), Refused(ErrorCode.INVALID_PRODUCER_EPOCH)
        begin(FakeWriter({A: [gone], B: [newer]}), shard)
        assert len(shard.told) == 1

    in_loop(test)


def test_a_shard_that_is_gone_is_told_nothing() -> None:
    async def test() -> None:
        shard = FakeShard()
        writer = FakeWriter({A: [Refused(ErrorCode.KAFKA_STORAGE_ERROR)], B: [appended(FakePartition())]})
        completion, finished = begin(writer, shard)
        shard.state = ShardState.CLOSED
        completion.begin()
        assert completion.done
        assert (len(finished), shard.told) == (1, [])

    in_loop(test)


def test_a_busy_shard_is_told_later() -> None:
    async def test() -> None:
        shard = FakeShard()
        shard.busy = [Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)] * 2
        begin(FakeWriter({A: [appended(FakePartition())], B: [appended(FakePartition())]}), shard)
        assert shard.told == []
        await shard.complete.wait()
        assert (len(shard.told), shard.bugs) == (1, [])

    in_loop(test)
