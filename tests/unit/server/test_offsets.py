"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords, DescribeProducers."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.broker.partition import Partition
from moldau.core.log.settings import LogSettings
from moldau.model.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from moldau.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from moldau.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.unit.server.harness import NOW_MS, Stage, batch
from tests.unit.server.requests import list_offsets


def timed(partition: Partition, *timestamps: int) -> None:
    for timestamp in timestamps:
        assert partition.append(batch(timestamp=NOW_MS + timestamp), 1, NOW_MS).error == 0


def ask(stage: Stage, version: int, timestamp: int, **options: Any) -> tuple[int, int, int]:
    response = stage.connect().call(ApiKey.LIST_OFFSETS, version, list_offsets("t", timestamp, **options))
    (answer,) = response.topics[0].partitions
    return answer.error_code, answer.offset, answer.timestamp


@pytest.mark.parametrize("version", range(1, 12))
def test_earliest_and_latest(stage: Stage, version: int) -> None:
    (partition,) = stage.topic("t")
    timed(partition, 0, 10, 5)
    partition.log.advance_start_offset(1)
    assert ask(stage, version, -2) == (0, 1, -1)
    assert ask(stage, version, -1) == (0, 3, -1)


def test_latest_for_committed_readers_is_the_last_stable_offset(stage: Stage) -> None:
    (partition,) = stage.topic("t")
    timed(partition, 0)
    open_records = batch([b"x"], producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    partition.append(open_records, 1, NOW_MS)
    assert ask(stage, 6, -1, isolation_level=1)[1] == 1
    assert ask(stage, 6, -1, isolation_level=0)[1] == 2


def test_by_time_exact_to_the_record(stage: Stage) -> None:
    (partition,) = stage.topic("t")
    timed(partition, 0, 10, 5, 20)
    assert ask(stage, 6, NOW_MS + 1) == (0, 1, NOW_MS + 10)
    assert ask(stage, 6, NOW_MS + 11) == (0, 3, NOW_MS + 20)
    assert ask(stage, 6, NOW_MS + 21) == (0, -1, -1)
    assert ask(stage, 6, 0) == (0, 0, NOW_MS)


def test_what_is_not_committed_is_not_found_by_time(stage: Stage) -> None:
    (partition,) = stage.topic("t")
    timed(partition, 0)
    partition.become_leader(1, (1, 2), (1, 2))
    timed(partition, 10)
    assert ask(stage, 6, NOW_MS + 5) == (0, -1, -1)
    assert ask(stage, 6, -1) == (0, 1, -1)


@pytest.mark.parametrize(
    ("timestamp", "since", "expected"),
    [(-3, 7, (0, 1, NOW_MS + 10)), (-4, 8, (0, 0, -1)), (-5, 9, (0, -1, -1)), (-6, 11, (0, -1, -1))],
)
def test_special_times_and_the_versions_they_came_with(
    stage: Stage, timestamp: int, since: int, expected: tuple[int, int, int]
) -> None:
    (partition,) = stage.topic("t")
    timed(partition, 0, 10, 5)
    assert ask(stage, since, timestamp) == expected
    assert ask(stage, since - 1, timestamp)[0] == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("timestamp", [-7, -100])
def test_times_nobody_knows(stage: Stage, timestamp: int) -> None:
    stage.topic("t")
    assert ask(stage, 11, timestamp)[0] == ErrorCode.UNSUPPORTED_VERSION


def test_errors(stage: Stage) -> None:
    assert ask(stage, 6, -1)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (partition,) = stage.topic("t")
    partition.become_leader(4, (1,), (1,))
    assert ask(stage, 6, -1, epoch=3)[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert ask(stage, 6, -1, epoch=5)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    partition.become_follower(2, 5)
    assert ask(stage, 6, -1)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    request = list_offsets("t", -1)
    request.topics += list_offsets("t", -2).topics
    response = stage.connect().call(ApiKey.LIST_OFFSETS, 6, request)
    assert [topic.partitions[0].error_code for topic in response.topics] == [ErrorCode.INVALID_REQUEST] * 2


class TestLeaderEpochs:
    def ask(self, stage: Stage, version: int, epoch: int, current: int = -1) -> tuple[int, int, int]:
        wanted = OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=current)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[wanted])])
        response = stage.connect().call(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, request)
        answer = response.topics[0].partitions[0]
        return answer.error_code, answer.leader_epoch, answer.end_offset

    @pytest.mark.parametrize("version", [2, 3, 4])
    def test_where_each_epoch_ended(self, stage: Stage, version: int) -> None:
        (partition,) = stage.topic("t")
        timed(partition, 0, 1)
        partition.become_leader(3, (1,), (1,))
        assert self.ask(stage, version, 3) == (0, 3, 2), "the current epoch, before its first record"
        timed(partition, 2)
        assert self.ask(stage, version, 0) == (0, 0, 2)
        assert self.ask(stage, version, 1) == (0, 0, 2)
        assert self.ask(stage, version, 3) == (0, 3, 3)
        assert self.ask(stage, version, 9) == (0, -1, -1)
        assert self.ask(stage, version, 0, current=2)[0] == ErrorCode.FENCED_LEADER_EPOCH

    def test_unknown_topic(self, stage: Stage) -> None:
        assert self.ask(stage, 4, 0)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class TestDeleteRecords:
    def ask(self, stage: Stage, offset: int, topic: str = "t", version: int = 2) -> tuple[int, int]:
        wanted = DeleteRecordsPartition(partition_index=0, offset=offset)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=1000)
        answer = stage.connect().call(ApiKey.DELETE_RECORDS, version, request).topics[0].partitions[0]
        return answer.error_code, answer.low_watermark

    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_it_moves_the_beginning(self, stage: Stage, version: int) -> None:
        (partition,) = stage.topic("t")
        timed(partition, 0, 1, 2)
        assert self.ask(stage, 2, version=version) == (0, 2)
        assert self.ask(stage, 1, version=version) == (0, 2), "never backwards"
        assert self.ask(stage, -1, version=version) == (0, 3), "-1 means up to the high watermark"
        assert ask(stage, 6, -2)[1] == 3

    def test_refusals(self, stage: Stage) -> None:
        (partition,) = stage.topic("t")
        timed(partition, 0)
        assert self.ask(stage, 2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert self.ask(stage, -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
        assert self.ask(stage, 0, topic="nowhere") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
        stage.topic("__consumer_offsets")
        assert self.ask(stage, 0, topic="__consumer_offsets") == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
        stage.topic("keys", settings=LogSettings(compact=True, delete=False))
        assert self.ask(stage, 0, topic="keys") == (ErrorCode.POLICY_VIOLATION, -1)


def test_describe_producers(stage: Stage) -> None:
    (partition,) = stage.topic("t")
    partition.append(batch([b"a", b"b"], producer_id=7, producer_epoch=2, base_sequence=0), 1, NOW_MS)
    open_records = batch([b"x"], producer_id=5, producer_epoch=0, base_sequence=0, transactional=True)
    partition.append(open_records, 1, NOW_MS)
    request = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 1])])
    here, missing = stage.connect().call(ApiKey.DESCRIBE_PRODUCERS, 0, request).topics[0].partitions
    assert [
        (one.producer_id, one.producer_epoch, one.last_sequence, one.current_txn_start_offset)
        for one in here.active_producers
    ] == [(5, 0, 0, 2), (7, 2, 1, -1)]
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
