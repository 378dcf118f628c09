"""Transactional batches wait outside the log until the coordinator has spoken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from moldau.model.errors import ErrorCode
from moldau.model.ids import TopicPartition
from moldau.wire.apis import ApiKey
from moldau.wire.messages.produce import ProduceRequest
from tests.unit.server.harness import Stage, batch
from tests.unit.server.requests import produce

KEY = TopicPartition("t", 0)


class FakeVerifier:
    """Answers at once with `verdict`, or keeps the question in `open` when there is none."""

    def __init__(self, verdict: ErrorCode | None) -> None:
        self.verdict = verdict
        self.open: list[Callable[[Mapping[TopicPartition, ErrorCode]], None]] = []
        self.asked: list[tuple[Any, ...]] = []
        self.sequences: dict[TopicPartition, int] = {}

    def ask(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: frozenset[TopicPartition],
        deliver: Callable[[Mapping[TopicPartition, ErrorCode]], None],
        *,
        add: bool,
    ) -> None:
        self.asked.append((transactional_id, producer_id, epoch, partitions, add))
        if self.verdict is None:
            self.open.append(deliver)
        else:
            deliver(dict.fromkeys(partitions, self.verdict))

    def first_attempt(self, key: TopicPartition, producer_id: int, epoch: int, sequence: int) -> int:
        self.sequences[key] = min(self.sequences.get(key, sequence), sequence)
        return self.sequences[key]

    def appended(self, key: TopicPartition, producer_id: int) -> None:
        self.sequences.pop(key, None)


class FakeTransactions:
    def __init__(self, verdict: ErrorCode | None = None) -> None:
        self.verifier = FakeVerifier(verdict)


def transactional(sequence: int = 0, *, epoch: int = 0, acks: int = -1, timeout_ms: int = 1000) -> ProduceRequest:
    records = batch([b"x"], producer_id=5, producer_epoch=epoch, base_sequence=sequence, transactional=True)
    request = produce("t", records, acks=acks, timeout_ms=timeout_ms)
    request.transactional_id = "id"
    return request


def coordinator(stage: Stage, verdict: ErrorCode | None) -> FakeVerifier:
    stage.services.transactions = FakeTransactions(verdict)
    verifier: FakeVerifier = stage.services.transactions.verifier
    return verifier


def code(response: Any) -> str:
    return ErrorCode(response.responses[0].partition_responses[0].error_code).name


def test_a_batch_that_belongs_to_its_transaction_is_appended_and_the_next_is_not_asked_about(stage: Stage) -> None:
    (partition,) = stage.topic("t")
    verifier = coordinator(stage, ErrorCode.NONE)
    client = stage.connect()
    assert code(client.call(ApiKey.PRODUCE, 9, transactional(0))) == "NONE"
    assert code(client.call(ApiKey.PRODUCE, 9, transactional(1))) == "NONE"
    assert verifier.asked == [("id", 5, 0, frozenset({KEY}), False)]
    assert partition.log.end_offset == 2


def test_from_version_twelve_on_asking_adds(stage: Stage) -> None:
    stage.topic("t")
    verifier = coordinator(stage, ErrorCode.NONE)
    stage.connect().call(ApiKey.PRODUCE, 12, transactional())
    assert verifier.asked[0][-1] is True


@pytest.mark.parametrize(
    ("verdict", "version", "told"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, 10, "INVALID_TXN_STATE"),
        (ErrorCode.TRANSACTION_ABORTABLE, 11, "TRANSACTION_ABORTABLE"),
        (ErrorCode.PRODUCER_FENCED, 11, "INVALID_PRODUCER_EPOCH"),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 11, "INVALID_PRODUCER_ID_MAPPING"),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 11, "NOT_ENOUGH_REPLICAS"),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 12, "CONCURRENT_TRANSACTIONS"),
        (ErrorCode.NOT_COORDINATOR, 12, "NOT_ENOUGH_REPLICAS"),
    ],
)
def test_what_the_coordinator_refuses_is_not_appended(
    stage: Stage, verdict: ErrorCode, version: int, told: str
) -> None:
    (partition,) = stage.topic("t")
    coordinator(stage, verdict)
    assert code(stage.connect().call(ApiKey.PRODUCE, version, transactional())) == told
    assert partition.log.end_offset == 0


def test_without_a_transactional_id_or_a_coordinator_nothing_is_appended(stage: Stage) -> None:
    (partition,) = stage.topic("t")
    request = transactional()
    assert code(stage.connect().call(ApiKey.PRODUCE, 11, request)) == "NOT_ENOUGH_REPLICAS"
    request.transactional_id = None
    assert code(stage.connect().call(ApiKey.PRODUCE, 11, request)) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    assert partition.log.end_offset == 0


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_late_verdict_appends_then(stage: Stage, acks: int) -> None:
    (partition,) = stage.topic("t")
    verifier = coordinator(stage, None)
    client = stage.connect()
    client.ask(ApiKey.PRODUCE, 12, transactional(acks=acks))
    assert client.replies() == []
    assert partition.log.end_offset == 0
    verifier.open[0]({KEY: ErrorCode.NONE})
    stage.loop.run()
    (reply,) = client.replies()
    assert code(reply) == "NONE"
    assert partition.log.end_offset == 1


def test_acks_zero_stays_silent(stage: Stage) -> None:
    (partition,) = stage.topic("t")
    verifier = coordinator(stage, None)
    client = stage.connect()
    client.ask(ApiKey.PRODUCE, 12, transactional(acks=0))
    verifier.open[0]({KEY: ErrorCode.NONE})
    stage.loop.run()
    assert client.replies() == []
    assert partition.log.end_offset == 1


def test_a_verdict_after_the_deadline_appends_nothing(stage: Stage) -> None:
    (partition,) = stage.topic("t")
    verifier = coordinator(stage, None)
    client = stage.connect()
    client.ask(ApiKey.PRODUCE, 12, transactional(timeout_ms=100))
    stage.loop.advance(0.2)
    (reply,) = client.replies()
    assert code(reply) == "NOT_ENOUGH_REPLICAS"
    verifier.open[0]({KEY: ErrorCode.NONE})
    assert partition.log.end_offset == 0


def test_a_verdict_for_a_client_that_is_gone_appends_nothing(stage: Stage) -> None:
    (partition,) = stage.topic("t")
    verifier = coordinator(stage, None)
    client = stage.connect()
    client.ask(ApiKey.PRODUCE, 12, transactional())
    client.connection.connection_lost(None)
    verifier.open[0]({KEY: ErrorCode.NONE})
    assert partition.log.end_offset == 0
    assert stage.services.parking.parked == 0


def test_a_later_batch_waits_for_the_first(stage: Stage) -> None:
    (partition,) = stage.topic("t")
    verifier = coordinator(stage, None)
    client = stage.connect()
    client.ask(ApiKey.PRODUCE, 11, transactional(0))
    client.ask(ApiKey.PRODUCE, 11, transactional(1))
    verifier.open[1]({KEY: ErrorCode.NONE})  # its verdict overtakes that of the first
    assert partition.log.end_offset == 0
    verifier.open[0]({KEY: ErrorCode.NONE})
    stage.loop.run()
    assert [code(reply) for reply in client.replies()] == ["NONE", "OUT_OF_ORDER_SEQUENCE_NUMBER"]
    assert partition.log.end_offset == 1


def test_two_producers_in_one_request_are_refused(stage: Stage) -> None:
    (first, second) = stage.topic("t", partitions=2)
    coordinator(stage, ErrorCode.NONE)
    request, other = transactional(), transactional(epoch=1)
    other.topic_data[0].partition_data[0].index = 1
    request.topic_data[0].partition_data += other.topic_data[0].partition_data
    response = stage.connect().call(ApiKey.PRODUCE, 11, request)
    codes = [ErrorCode(row.error_code).name for row in response.responses[0].partition_responses]
    assert codes == ["INVALID_PRODUCER_ID_MAPPING"] * 2
    assert (first.log.end_offset, second.log.end_offset) == (0, 0)
