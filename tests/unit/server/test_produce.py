from __future__ import annotations

from typing import Any

import pytest

from moldau.core.log.settings import LogSettings
from moldau.model.errors import ErrorCode
from moldau.wire.apis import ApiKey
from tests.unit.server.harness import NOW_MS, Stage, batch
from tests.unit.server.requests import produce

VERSIONS = range(3, 14)


def only(response: Any) -> Any:
    return response.responses[0].partition_responses[0]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [1, -1])
def test_every_version_appends_and_answers_the_base_offset(stage: Stage, version: int, acks: int) -> None:
    (partition,) = stage.topic("t")
    client = stage.connect()
    first = only(client.call(ApiKey.PRODUCE, version, produce("t", batch([b"a", b"b"]), acks=acks)))
    second = only(client.call(ApiKey.PRODUCE, version, produce("t", batch([b"c"]), acks=acks)))
    assert (first.error_code, first.base_offset, first.log_append_time_ms) == (0, 0, -1)
    assert (second.error_code, second.base_offset) == (0, 2)
    assert partition.high_watermark == 3


@pytest.mark.parametrize("version", [0, 1, 2, 14])
def test_versions_outside_the_range_close_the_connection(stage: Stage, version: int) -> None:
    stage.topic("t")
    client = stage.connect()
    frame = bytearray(client.frame(ApiKey.PRODUCE, 3, produce("t", batch())))
    frame[6:8] = version.to_bytes(2, "big")
    client.send(bytes(frame))
    assert client.transport.closed
    assert not client.transport.written
    assert stage.hub.bad_peers_total == 1


def test_acks_zero_has_no_reply_and_the_next_request_is_answered(stage: Stage) -> None:
    (partition,) = stage.topic("t")
    client = stage.connect()
    client.send(client.frame(ApiKey.PRODUCE, 9, produce("t", batch(), acks=0), expect_reply=False))
    answer = only(client.call(ApiKey.PRODUCE, 9, produce("t", batch())))
    assert answer.base_offset == 1
    assert partition.log.end_offset == 2


def test_a_failed_append_with_acks_zero_closes_the_connection(stage: Stage) -> None:
    client = stage.connect()
    client.send(client.frame(ApiKey.PRODUCE, 9, produce("nowhere", batch(), acks=0), expect_reply=False))
    stage.loop.run()
    assert client.transport.closed
    assert not client.transport.written


@pytest.mark.parametrize("acks", [2, -2, 7])
def test_other_acks_are_refused(stage: Stage, acks: int) -> None:
    (partition,) = stage.topic("t")
    answer = only(stage.connect().call(ApiKey.PRODUCE, 9, produce("t", batch(), acks=acks)))
    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert answer.base_offset == -1
    assert partition.log.end_offset == 0


@pytest.mark.parametrize(
    ("version", "topic", "index", "code"),
    [
        (9, "nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (9, "t", 5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (9, "t", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (13, "nowhere", 0, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_partitions_that_do_not_exist(stage: Stage, version: int, topic: str, index: int, code: ErrorCode) -> None:
    stage.topic("t")
    answer = only(stage.connect().call(ApiKey.PRODUCE, version, produce(topic, batch(), partition=index)))
    assert answer.error_code == code


def test_a_former_leader_answers_with_the_new_leader(stage: Stage) -> None:
    (partition,) = stage.topic("t")
    partition.become_follower(leader_id=2, leader_epoch=7)
    answer = only(stage.connect().call(ApiKey.PRODUCE, 10, produce("t", batch())))
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 7)


def test_too_few_replicas_in_sync_refuse_acks_all_only(stage: Stage) -> None:
    (partition,) = stage.topic("t", settings=LogSettings(insync_replicas_min=2))
    partition.become_leader(1, (1, 2), (1,))
    client = stage.connect()
    refused = only(client.call(ApiKey.PRODUCE, 9, produce("t", batch(), acks=-1)))
    accepted = only(client.call(ApiKey.PRODUCE, 9, produce("t", batch(), acks=1)))
    assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert accepted.error_code == 0


def test_min_insync_replicas_never_exceeds_the_replicas_there_are(stage: Stage) -> None:
    stage.topic("t", settings=LogSettings(insync_replicas_min=2))
    assert only(stage.connect().call(ApiKey.PRODUCE, 9, produce("t", batch(), acks=-1))).error_code == 0


def test_too_large_batches_are_refused_by_name(stage: Stage) -> None:
    stage.topic("t", settings=LogSettings(message_bytes_max=200))
    answer = only(stage.connect().call(ApiKey.PRODUCE, 9, produce("t", batch([b"x" * 300]))))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "max.message.bytes" in answer.error_message


def test_a_damaged_batch_is_refused(stage: Stage) -> None:
    (partition,) = stage.topic("t")
    damaged = bytearray(batch([b"hello"]))
    damaged[-2] ^= 1
    answer = only(stage.connect().call(ApiKey.PRODUCE, 9, produce("t", bytes(damaged))))
    assert answer.error_code == ErrorCode.CORRUPT_MESSAGE
    assert partition.log.end_offset == 0


@pytest.mark.parametrize("records", [None, b"", b"short"])
def test_a_partition_without_a_batch_is_refused(stage: Stage, records: bytes | None) -> None:
    stage.topic("t")
    answer = only(stage.connect().call(ApiKey.PRODUCE, 9, produce("t", records)))
    assert answer.error_code == ErrorCode.INVALID_RECORD


def test_keyless_records_on_a_compacted_topic_are_named_one_by_one(stage: Stage) -> None:
    stage.topic("t", settings=LogSettings(compact=True, delete=False))
    answer = only(stage.connect().call(ApiKey.PRODUCE, 8, produce("t", batch([b"a", b"b"]))))
    assert answer.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [0, 1]
    assert answer.error_message


def test_zstd_needs_version_seven(stage: Stage) -> None:
    stage.topic("t")
    client = stage.connect()
    old = only(client.call(ApiKey.PRODUCE, 6, produce("t", batch([b"z"], codec=4))))
    new = only(client.call(ApiKey.PRODUCE, 7, produce("t", batch([b"z"], codec=4))))
    assert old.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert new.error_code == 0


def test_clients_cannot_write_to_internal_topics(stage: Stage) -> None:
    stage.topic("__consumer_offsets")
    answer = only(stage.connect().call(ApiKey.PRODUCE, 9, produce("__consumer_offsets", batch())))
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_repeated_idempotent_batch_gets_its_first_offset_again(stage: Stage) -> None:
    (partition,) = stage.topic("t")
    client = stage.connect()
    first = batch([b"a", b"b"], producer_id=9, producer_epoch=0, base_sequence=0)
    second = batch([b"c"], producer_id=9, producer_epoch=0, base_sequence=2)
    offsets = [
        only(client.call(ApiKey.PRODUCE, 9, produce("t", records, acks=-1))).base_offset
        for records in (first, second, first, second)
    ]
    assert offsets == [0, 2, 0, 2]
    assert partition.log.end_offset == 3


def test_a_gap_in_the_sequence_is_refused(stage: Stage) -> None:
    stage.topic("t")
    client = stage.connect()
    client.call(ApiKey.PRODUCE, 9, produce("t", batch([b"a"], producer_id=9, producer_epoch=0, base_sequence=0)))
    answer = only(
        client.call(ApiKey.PRODUCE, 9, produce("t", batch([b"b"], producer_id=9, producer_epoch=0, base_sequence=5)))
    )
    assert answer.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_log_append_time_is_told(stage: Stage) -> None:
    stage.topic("t", settings=LogSettings(timestamp_log_append=True))
    answer = only(stage.connect().call(ApiKey.PRODUCE, 9, produce("t", batch(timestamp=5))))
    assert answer.log_append_time_ms == NOW_MS


def test_one_bad_partition_does_not_spoil_the_others(stage: Stage) -> None:
    stage.topic("t", partitions=2)
    request = produce("t", batch())
    request.topic_data += produce("nowhere", batch()).topic_data + produce("t", batch(), partition=1).topic_data
    response = stage.connect().call(ApiKey.PRODUCE, 9, request)
    assert [one.partition_responses[0].error_code for one in response.responses] == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        0,
    ]


class TestWaitingForTheHighWatermark:
    def follower_topic(self, stage: Stage) -> Any:
        (partition,) = stage.topic("t")
        partition.become_leader(1, (1, 2), (1, 2))
        return partition

    def test_acks_all_is_answered_when_the_followers_have_it(self, stage: Stage) -> None:
        partition = self.follower_topic(stage)
        client = stage.connect()
        client.ask(ApiKey.PRODUCE, 9, produce("t", batch(), acks=-1))
        assert client.replies() == []
        assert partition.leadership.follower_fetched(2, 1, NOW_MS)
        partition._raised()
        stage.loop.run()
        (reply,) = client.replies()
        assert (only(reply).error_code, only(reply).base_offset) == (0, 0)
        assert stage.services.parking.parked == 0
        assert not partition.waiters

    def test_acks_one_does_not_wait(self, stage: Stage) -> None:
        self.follower_topic(stage)
        assert only(stage.connect().call(ApiKey.PRODUCE, 9, produce("t", batch(), acks=1))).error_code == 0

    def test_time_runs_out(self, stage: Stage) -> None:
        self.follower_topic(stage)
        client = stage.connect()
        client.ask(ApiKey.PRODUCE, 9, produce("t", batch(), acks=-1, timeout_ms=300))
        stage.loop.advance(0.2)
        assert client.replies() == []
        stage.loop.advance(0.2)
        (reply,) = client.replies()
        assert only(reply).error_code == ErrorCode.REQUEST_TIMED_OUT

    def test_losing_the_leadership_is_told_at_once(self, stage: Stage) -> None:
        partition = self.follower_topic(stage)
        client = stage.connect()
        client.ask(ApiKey.PRODUCE, 9, produce("t", batch(), acks=-1))
        partition.become_follower(2, 2)
        stage.loop.run()
        (reply,) = client.replies()
        assert only(reply).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    def test_a_closed_connection_leaves_no_waiter(self, stage: Stage) -> None:
        partition = self.follower_topic(stage)
        client = stage.connect()
        client.ask(ApiKey.PRODUCE, 9, produce("t", batch(), acks=-1))
        client.connection.connection_lost(None)
        assert not partition.waiters
        assert stage.services.parking.parked == 0

    @pytest.mark.parametrize("acks", [-1, 1])
    def test_flush_before_acknowledge_waits_for_the_disk(self, stage: Stage, acks: int) -> None:
        (partition,) = stage.topic("t", settings=LogSettings(flush_messages=1))
        wanted = []
        partition.log.on_sync_wanted = wanted.append
        client = stage.connect()
        client.ask(ApiKey.PRODUCE, 9, produce("t", batch(), acks=acks))
        assert client.replies() == []
        assert wanted == [partition.log]
        partition.log.sync_now()
        stage.loop.run()
        assert only(client.replies()[0]).error_code == 0

    def test_the_disk_is_enough_for_acks_1_while_followers_lag(self, stage: Stage) -> None:
        (partition,) = stage.topic("t", settings=LogSettings(flush_messages=1))
        partition.log.on_sync_wanted = lambda log: None
        partition.become_leader(1, (1, 2), (1, 2))
        client = stage.connect()
        client.ask(ApiKey.PRODUCE, 9, produce("t", batch(), acks=1))
        assert client.replies() == []
        partition.log.sync_now()
        stage.loop.run()
        assert only(client.replies()[0]).error_code == 0
        assert partition.high_watermark == 0

    def test_the_log_knows_the_high_watermark(self, stage: Stage) -> None:
        """Retention, compaction and the checkpoint are bound by it, not by the end of the log."""
        (partition,) = stage.topic("t", settings=LogSettings(flush_messages=1))
        partition.log.on_sync_wanted = lambda log: None
        client = stage.connect()
        client.ask(ApiKey.PRODUCE, 9, produce("t", batch(), acks=1))
        assert partition.log.high_watermark == 0
        partition.log.sync_now()
        assert partition.log.high_watermark == 1

    def test_a_failed_directory_answers_storage_error(self, stage: Stage) -> None:
        (partition,) = stage.topic("t", settings=LogSettings(flush_messages=1))
        partition.log.on_sync_wanted = lambda log: None
        client = stage.connect()
        client.ask(ApiKey.PRODUCE, 9, produce("t", batch(), acks=-1))
        stage.home.fail("the test says so")
        assert stage.partitions.close_offline() == [partition]
        stage.loop.run()
        assert only(client.replies()[0]).error_code == ErrorCode.KAFKA_STORAGE_ERROR
