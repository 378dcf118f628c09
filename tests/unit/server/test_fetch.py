from __future__ import annotations

from typing import Any

import pytest

from moldau.broker.partition import Partition
from moldau.core.log.settings import LogSettings
from moldau.model.errors import ErrorCode
from moldau.records.batch import iterate_headers
from moldau.records.builder import build_end_marker
from moldau.wire.apis import ApiKey
from tests.unit.server.harness import NOW_MS, Stage, batch
from tests.unit.server.requests import fetch, joined, produce

VERSIONS = range(4, 19)


def only(response: Any) -> Any:
    assert response.error_code == 0
    return response.responses[0].partitions[0]


def offsets(records: Any) -> list[int]:
    return [int(header.base_offset) for _, header in iterate_headers(joined(records))]


def fill(partition: Partition, count: int, value_bytes: int = 10) -> None:
    for number in range(count):
        assert partition.append(batch([bytes([65 + number % 26]) * value_bytes]), 1, NOW_MS).error == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_returns_whole_batches_and_the_watermarks(stage: Stage, version: int) -> None:
    (partition,) = stage.topic("t")
    fill(partition, 3)
    answer = only(stage.connect().call(ApiKey.FETCH, version, fetch(("t", 0, 1))))
    assert (answer.error_code, answer.high_watermark, answer.last_stable_offset) == (0, 3, 3)
    assert offsets(answer.records) == [1, 2]
    assert answer.aborted_transactions is None
    if version >= 5:
        assert answer.log_start_offset == 0
    if version >= 11:
        assert answer.preferred_read_replica == -1


def test_an_offset_inside_a_batch_returns_that_batch(stage: Stage) -> None:
    (partition,) = stage.topic("t")
    partition.append(batch([b"a", b"b", b"c"]), 1, NOW_MS)
    assert offsets(only(stage.connect().call(ApiKey.FETCH, 12, fetch(("t", 0, 2)))).records) == [0]


@pytest.mark.parametrize("offset", [-1, 4, 100])
def test_offsets_outside_the_log_are_refused(stage: Stage, offset: int) -> None:
    (partition,) = stage.topic("t")
    fill(partition, 3)
    answer = only(stage.connect().call(ApiKey.FETCH, 12, fetch(("t", 0, offset), max_wait_ms=5000)))
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert answer.high_watermark == -1
    assert joined(answer.records) == b""


def test_below_the_start_after_delete_records(stage: Stage) -> None:
    (partition,) = stage.topic("t")
    fill(partition, 3)
    partition.log.advance_start_offset(2)
    client = stage.connect()
    assert only(client.call(ApiKey.FETCH, 12, fetch(("t", 0, 1)))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert only(client.call(ApiKey.FETCH, 12, fetch(("t", 0, 2)))).log_start_offset == 2


@pytest.mark.parametrize(
    ("version", "topic", "index", "code"),
    [
        (12, "nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (12, "t", 3, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (13, "nowhere", 0, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_partitions_that_do_not_exist(stage: Stage, version: int, topic: str, index: int, code: ErrorCode) -> None:
    stage.topic("t")
    answer = only(stage.connect().call(ApiKey.FETCH, version, fetch((topic, index, 0), max_wait_ms=9000)))
    assert answer.error_code == code


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (5, ErrorCode.NONE),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-1, ErrorCode.NONE),
    ],
)
def test_leader_epochs_are_compared(stage: Stage, epoch: int, code: ErrorCode) -> None:
    (partition,) = stage.topic("t")
    partition.become_leader(5, (1,), (1,))
    answer = only(stage.connect().call(ApiKey.FETCH, 16, fetch(("t", 0, 0), current_leader_epoch=epoch)))
    assert answer.error_code == code
    if code == ErrorCode.FENCED_LEADER_EPOCH:
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 5)


def test_a_reader_with_a_tail_of_its_own_is_told_where_ours_ends(stage: Stage) -> None:
    (partition,) = stage.topic("t")
    fill(partition, 2)
    partition.become_leader(3, (1,), (1,))
    fill(partition, 2)
    client = stage.connect()
    same = only(client.call(ApiKey.FETCH, 12, fetch(("t", 0, 2), last_fetched_epoch=0)))
    assert same.diverging_epoch is None or same.diverging_epoch.epoch == -1
    cut = only(client.call(ApiKey.FETCH, 12, fetch(("t", 0, 3), last_fetched_epoch=0, max_wait_ms=9000)))
    assert (cut.diverging_epoch.epoch, cut.diverging_epoch.end_offset) == (0, 2)
    assert joined(cut.records) == b""


def test_not_leader(stage: Stage) -> None:
    (partition,) = stage.topic("t")
    partition.become_follower(2, 1)
    answer = only(stage.connect().call(ApiKey.FETCH, 16, fetch(("t", 0, 0))))
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 1)


class TestSizes:
    def test_the_first_batch_comes_even_when_it_is_too_large(self, stage: Stage) -> None:
        (partition,) = stage.topic("t")
        fill(partition, 2, value_bytes=5000)
        answer = only(stage.connect().call(ApiKey.FETCH, 12, fetch(("t", 0, 0), max_bytes=10, partition_max_bytes=10)))
        assert offsets(answer.records) == [0]

    def test_but_only_of_the_first_partition_with_data(self, stage: Stage) -> None:
        for partition in stage.topic("t", 3):
            if partition.index > 0:
                fill(partition, 1, value_bytes=5000)
        request = fetch(("t", 0, 0), ("t", 1, 0), ("t", 2, 0), max_bytes=10)
        response = stage.connect().call(ApiKey.FETCH, 12, request)
        counts = [len(offsets(one.records)) for topic in response.responses for one in topic.partitions]
        assert counts == [0, 1, 0]

    def test_max_bytes_is_shared_in_order(self, stage: Stage) -> None:
        partitions = stage.topic("t", 3)
        for partition in partitions:
            fill(partition, 4, value_bytes=1000)
        size = len(batch([b"x" * 1000]))
        request = fetch(("t", 0, 0), ("t", 1, 0), ("t", 2, 0), max_bytes=6 * size)
        response = stage.connect().call(ApiKey.FETCH, 12, request)
        counts = [len(offsets(one.records)) for topic in response.responses for one in topic.partitions]
        assert counts == [4, 2, 0]

    def test_the_brokers_own_limit(self, stage: Stage) -> None:
        (partition,) = stage.topic("t")
        fill(partition, 4, value_bytes=1000)
        stage.services.fetch_bytes_max = 2500
        assert len(offsets(only(stage.connect().call(ApiKey.FETCH, 12, fetch(("t", 0, 0)))).records)) == 2

    def test_large_payloads_are_not_copied(self, stage: Stage) -> None:
        (partition,) = stage.topic("t")
        fill(partition, 3, value_bytes=200_000)
        answer = only(stage.connect().call(ApiKey.FETCH, 12, fetch(("t", 0, 0))))
        assert offsets(answer.records) == [0, 1, 2]


class TestLongPoll:
    def test_an_empty_fetch_waits_for_data(self, stage: Stage) -> None:
        (partition,) = stage.topic("t")
        reader = stage.connect()
        reader.ask(ApiKey.FETCH, 12, fetch(("t", 0, 0), max_wait_ms=5000))
        assert reader.replies() == []
        stage.connect().call(ApiKey.PRODUCE, 9, produce("t", batch()))
        assert offsets(only(reader.replies()[0]).records) == [0]
        assert not partition.waiters
        assert stage.services.parking.parked == 0

    def test_a_finished_wait_keeps_no_records_until_its_deadline(self, stage: Stage) -> None:
        stage.topic("t")
        reader = stage.connect()
        reader.ask(ApiKey.FETCH, 12, fetch(("t", 0, 0), max_wait_ms=1_000_000))
        (wait,) = stage.partitions.get("t", 0).waiters
        stage.connect().call(ApiKey.PRODUCE, 9, produce("t", batch([b"v" * 50_000])))
        assert len(reader.replies()) == 1
        assert wait.done
        assert wait.work.answers == []

    def test_all_of_a_ticks_records_come_together(self, stage: Stage) -> None:
        stage.topic("t")
        reader, writer = stage.connect(), stage.connect()
        reader.ask(ApiKey.FETCH, 12, fetch(("t", 0, 0), max_wait_ms=5000))
        writer.send(b"".join(writer.frame(ApiKey.PRODUCE, 9, produce("t", batch())) for _ in range(5)))
        stage.loop.run()
        assert offsets(only(reader.replies()[0]).records) == [0, 1, 2, 3, 4]

    def test_it_ends_with_nothing_at_the_deadline(self, stage: Stage) -> None:
        stage.topic("t")
        reader = stage.connect()
        reader.ask(ApiKey.FETCH, 12, fetch(("t", 0, 0), max_wait_ms=500))
        stage.loop.advance(0.4)
        assert reader.replies() == []
        stage.loop.advance(0.2)
        answer = only(reader.replies()[0])
        assert (joined(answer.records), answer.high_watermark) == (b"", 0)

    def test_it_waits_for_min_bytes(self, stage: Stage) -> None:
        stage.topic("t")
        reader, writer = stage.connect(), stage.connect()
        size = len(batch([b"x" * 100]))
        reader.ask(ApiKey.FETCH, 12, fetch(("t", 0, 0), max_wait_ms=5000, min_bytes=3 * size))
        for _ in range(2):
            writer.call(ApiKey.PRODUCE, 9, produce("t", batch([b"x" * 100])))
            assert reader.replies() == []
        writer.call(ApiKey.PRODUCE, 9, produce("t", batch([b"x" * 100])))
        assert offsets(only(reader.replies()[0]).records) == [0, 1, 2]

    def test_min_bytes_above_max_bytes_cannot_wait_for_ever(self, stage: Stage) -> None:
        (partition,) = stage.topic("t")
        fill(partition, 5, value_bytes=1000)
        request = fetch(("t", 0, 0), max_wait_ms=5000, min_bytes=1 << 30, max_bytes=2000)
        assert len(offsets(only(stage.connect().call(ApiKey.FETCH, 12, request)).records)) >= 1

    def test_many_readers_wake_together(self, stage: Stage) -> None:
        stage.topic("t")
        readers = [stage.connect() for _ in range(30)]
        for reader in readers:
            reader.ask(ApiKey.FETCH, 12, fetch(("t", 0, 0), max_wait_ms=5000))
        stage.connect().call(ApiKey.PRODUCE, 9, produce("t", batch()))
        assert [len(reader.replies()) for reader in readers] == [1] * 30

    def test_a_deleted_topic_ends_the_wait(self, stage: Stage) -> None:
        stage.topic("t")
        reader = stage.connect()
        reader.ask(ApiKey.FETCH, 12, fetch(("t", 0, 0), max_wait_ms=5000))
        stage.partitions.remove("t", 0)
        stage.loop.run()
        assert only(reader.replies()[0]).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_a_full_waiting_room_answers_at_once(self, stage: Stage) -> None:
        stage.topic("t")
        stage.services.parking.waiters_max = 1
        first, second = stage.connect(), stage.connect()
        first.ask(ApiKey.FETCH, 12, fetch(("t", 0, 0), max_wait_ms=5000))
        assert joined(only(second.call(ApiKey.FETCH, 12, fetch(("t", 0, 0), max_wait_ms=5000))).records) == b""
        assert first.replies() == []
        assert stage.services.parking.refused_total == 1


class TestIsolation:
    def transaction(self, partition: Partition, producer_id: int, sequence: int = 0) -> None:
        records = batch([b"tx"], producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)
        assert partition.append(records, 1, NOW_MS).error == 0

    def end(self, partition: Partition, producer_id: int, *, aborted: bool) -> None:
        marker = build_end_marker(
            aborted=aborted, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp=NOW_MS
        )
        assert partition.append_own(marker, NOW_MS).error == 0

    def test_an_open_transaction_hides_what_follows_from_read_committed(self, stage: Stage) -> None:
        (partition,) = stage.topic("t")
        fill(partition, 1)
        self.transaction(partition, 7)
        fill(partition, 1)
        client = stage.connect()
        committed = only(client.call(ApiKey.FETCH, 12, fetch(("t", 0, 0), isolation_level=1)))
        anything = only(client.call(ApiKey.FETCH, 12, fetch(("t", 0, 0), isolation_level=0)))
        assert offsets(committed.records) == [0]
        assert (committed.last_stable_offset, committed.high_watermark) == (1, 3)
        assert committed.aborted_transactions == []
        assert offsets(anything.records) == [0, 1, 2]

    def test_aborted_transactions_are_listed(self, stage: Stage) -> None:
        (partition,) = stage.topic("t")
        self.transaction(partition, 7)
        self.transaction(partition, 8)
        self.end(partition, 7, aborted=True)
        self.end(partition, 8, aborted=False)
        answer = only(stage.connect().call(ApiKey.FETCH, 12, fetch(("t", 0, 0), isolation_level=1)))
        assert [(one.producer_id, one.first_offset) for one in answer.aborted_transactions] == [(7, 0)]
        assert answer.last_stable_offset == 4

    def test_aborted_transactions_behind_what_is_returned_are_left_out(self, stage: Stage) -> None:
        (partition,) = stage.topic("t")
        for producer_id in range(10):
            self.transaction(partition, producer_id)
            self.end(partition, producer_id, aborted=True)
        request = fetch(("t", 0, 4), isolation_level=1, partition_max_bytes=1)
        answer = only(stage.connect().call(ApiKey.FETCH, 12, request))
        assert offsets(answer.records) == [4]
        assert [(one.producer_id, one.first_offset) for one in answer.aborted_transactions] == [(2, 4)]

    def test_the_end_of_a_transaction_wakes_a_committed_reader(self, stage: Stage) -> None:
        (partition,) = stage.topic("t")
        self.transaction(partition, 7)
        reader = stage.connect()
        reader.ask(ApiKey.FETCH, 12, fetch(("t", 0, 0), isolation_level=1, max_wait_ms=5000))
        assert reader.replies() == []
        self.end(partition, 7, aborted=False)
        stage.loop.run()
        assert offsets(only(reader.replies()[0]).records) == [0, 1]


class TestReplicaIds:
    def test_a_client_that_poses_as_a_follower_moves_nothing(self, stage: Stage) -> None:
        (partition,) = stage.topic("t")
        partition.become_leader(1, (1, 2), (1, 2))
        fill(partition, 2)
        request = fetch(("t", 0, 2))
        request.replica_id = 2
        answer = only(stage.connect().call(ApiKey.FETCH, 12, request))
        assert (answer.error_code, answer.high_watermark, partition.high_watermark) == (0, 0, 0)


class TestSessions:
    def test_a_session_from_first_to_last(self, stage: Stage) -> None:
        partitions = stage.topic("t", 3)
        fill(partitions[0], 1)
        client = stage.connect()
        wanted = [("t", index, 0) for index in range(3)]
        first = client.call(ApiKey.FETCH, 12, fetch(*wanted, session_epoch=0))
        session_id = first.session_id
        assert session_id > 0
        assert [one.partition_index for topic in first.responses for one in topic.partitions] == [0, 1, 2]

        def again(epoch: int, *changed: tuple[str, int, int], **options: Any) -> list[tuple[int, list[int]]]:
            request = fetch(*changed, session_id=session_id, session_epoch=epoch, **options)
            response = client.call(ApiKey.FETCH, 12, request)
            assert (response.error_code, response.session_id) == (0, session_id)
            return [
                (one.partition_index, offsets(one.records)) for topic in response.responses for one in topic.partitions
            ]

        assert again(1, ("t", 0, 1)) == [], "nothing changed"
        fill(partitions[2], 1)
        assert again(2) == [(2, [0])], "only what changed"
        assert again(3, ("t", 2, 1)) == []
        fill(partitions[1], 1)
        assert again(4, forgotten=(("t", 1),)) == [], "forgotten partitions are silent"
        final = client.call(ApiKey.FETCH, 12, fetch(session_id=session_id, session_epoch=-1))
        assert (final.error_code, final.session_id, final.responses) == (0, 0, [])
        assert stage.services.fetch_sessions.sessions == {}

    def test_errors_of_the_session_itself(self, stage: Stage) -> None:
        stage.topic("t")
        client = stage.connect()
        session_id = client.call(ApiKey.FETCH, 12, fetch(("t", 0, 0), session_epoch=0)).session_id

        def error(version: int, **options: Any) -> int:
            return int(client.call(ApiKey.FETCH, version, fetch(**options)).error_code)

        assert error(12, session_id=session_id + 1, session_epoch=1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert error(12, session_id=session_id, session_epoch=5) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert error(13, session_id=session_id, session_epoch=1) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        assert error(12, session_id=session_id, session_epoch=1) == 0

    def test_an_error_is_told_again_after_it_is_gone(self, stage: Stage) -> None:
        (partition,) = stage.topic("t")
        client = stage.connect()
        session_id = client.call(ApiKey.FETCH, 12, fetch(("t", 0, 0), session_epoch=0)).session_id
        partition.is_leader = False
        bad = client.call(ApiKey.FETCH, 12, fetch(session_id=session_id, session_epoch=1))
        assert only(bad).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        partition.is_leader = True
        good = client.call(ApiKey.FETCH, 12, fetch(session_id=session_id, session_epoch=2))
        assert only(good).error_code == 0

    def test_with_a_small_limit_every_partition_gets_its_turn(self, stage: Stage) -> None:
        partitions = stage.topic("t", 3)
        for partition in partitions:
            fill(partition, 5, value_bytes=1000)
        client = stage.connect()
        size = len(batch([b"x" * 1000]))
        positions = [0, 0, 0]
        served: list[int] = []
        response = client.call(
            ApiKey.FETCH, 12, fetch(*[("t", index, 0) for index in range(3)], session_epoch=0, max_bytes=size)
        )
        session_id = response.session_id
        for epoch in range(1, 7):
            changed = []
            for topic in response.responses:
                for one in topic.partitions:
                    found = offsets(one.records)
                    if found:
                        served.append(one.partition_index)
                        positions[one.partition_index] = found[-1] + 1
                        changed.append(("t", one.partition_index, found[-1] + 1))
            response = client.call(
                ApiKey.FETCH, 12, fetch(*changed, session_id=session_id, session_epoch=epoch, max_bytes=size)
            )
        assert positions == [2, 2, 2]
        assert served == [0, 1, 2, 0, 1, 2]

    def test_a_topic_id_becomes_known_inside_a_session(self, stage: Stage) -> None:
        client = stage.connect()
        first = client.call(ApiKey.FETCH, 13, fetch(("late", 0, 0), session_epoch=0))
        assert only(first).error_code == ErrorCode.UNKNOWN_TOPIC_ID
        (partition,) = stage.topic("late")
        fill(partition, 1)
        second = client.call(ApiKey.FETCH, 13, fetch(session_id=first.session_id, session_epoch=1))
        assert offsets(only(second).records) == [0]


def test_min_bytes_counts_what_is_stored_where_the_topic_recompresses(stage: Stage) -> None:
    stage.topic("t", settings=LogSettings(compression_type="uncompressed"))
    reader, producer = stage.connect(), stage.connect()
    reader.ask(ApiKey.FETCH, 11, fetch(("t", 0, 0), max_wait_ms=5000, min_bytes=50_000))
    assert reader.replies() == []
    small = batch([b"v" * 100_000], codec=1)
    assert len(small) < 1000
    producer.ask(ApiKey.PRODUCE, 9, produce("t", small))
    assert len(joined(reader.replies()[0].responses[0].partitions[0].records)) > 100_000
