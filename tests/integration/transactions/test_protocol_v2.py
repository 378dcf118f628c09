"""Transactions v2 (KIP-890): partitions by writing, an epoch per transaction.

Every expectation holds on Apache Kafka 4.3 as well: `MOLDAU_TEST_BOOTSTRAP=host:port pytest <this file>`.
"""

from __future__ import annotations

from collections.abc import Callable

from moldau.wire.apis import ApiKey
from moldau.wire.messages.api_versions import ApiVersionsRequest
from tests.integration.transactions.wire_client import WireClient

Unique = Callable[[], str]


def test_the_feature_is_finalised(wire: WireClient) -> None:
    request = ApiVersionsRequest(client_software_name="wire", client_software_version="1")
    response = wire.ask(ApiKey.API_VERSIONS, request, 4)
    assert ("transaction.version", 2) in [(row.name, row.max_version_level) for row in response.finalized_features]


def test_writing_adds_the_partition_and_the_end_bumps_the_epoch(wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    for round_ in range(3):
        assert wire.produce_until_let_in(name, pid, epoch + round_, 0, (topic, 0), (topic, 1)) == ["NONE", "NONE"]
        assert wire.produce(name, pid, epoch + round_, 1, (topic, 0), version=13) == ["NONE"]
        assert wire.state(name) == "Ongoing"
        answer = wire.end(name, pid, epoch + round_, commit=True, version=5)
        assert answer == ("NONE", pid, epoch + round_ + 1)
    wire.wait_until(name, "CompleteCommit")
    found = wire.fetch(topic, 0, committed=True)
    assert (found.high_watermark, found.last_stable_offset) == (9, 9)


def test_an_end_may_be_repeated(wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    wire.produce(name, pid, epoch, 0, (topic, 0), version=12)
    assert wire.end(name, pid, epoch, commit=True, version=5) == ("NONE", pid, epoch + 1)
    wire.wait_until(name, "CompleteCommit")
    assert wire.end(name, pid, epoch, commit=True, version=5) == ("NONE", pid, epoch + 1)
    assert wire.end(name, pid, epoch, commit=False, version=5)[0] == "INVALID_TXN_STATE"
    assert wire.end(name, pid, epoch + 1, commit=True, version=5)[0] == "INVALID_TXN_STATE"
    assert wire.end(name, pid, epoch + 2, commit=True, version=5)[0] == "PRODUCER_FENCED"
    # An abort without a transaction still makes the epoch useless for what may be under way.
    assert wire.end(name, pid, epoch + 1, commit=False, version=5) == ("NONE", pid, epoch + 2)
    wire.wait_until(name, "CompleteAbort")
    assert wire.end(name, pid, epoch + 1, commit=False, version=5) == ("NONE", pid, epoch + 2)
    assert wire.end(name, pid, epoch + 1, commit=True, version=5)[0] == "INVALID_TXN_STATE"
    assert wire.end(name, pid, epoch, commit=True, version=5)[0] == "PRODUCER_FENCED"
    assert wire.end(name, pid, epoch + 2, commit=False, version=5) == ("NONE", pid, epoch + 3)


def test_an_abort_before_any_transaction(wire: WireClient, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    assert wire.end(name, pid, epoch, commit=True, version=5)[0] == "INVALID_TXN_STATE"
    assert wire.end(name, pid, epoch, commit=False, version=5) == ("NONE", pid, epoch + 1)
    wire.wait_until(name, "CompleteAbort")


def test_a_late_write_of_an_ended_transaction_is_refused(wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    wire.produce(name, pid, epoch, 0, (topic, 0), version=12)
    wire.end(name, pid, epoch, commit=True, version=5)
    wire.wait_until(name, "CompleteCommit")
    assert wire.produce(name, pid, epoch, 1, (topic, 0), version=12) == ["INVALID_PRODUCER_EPOCH"]
    assert wire.produce(name, pid, epoch, 0, (topic, 1), version=12) == ["INVALID_PRODUCER_EPOCH"]
    assert wire.produce(name, pid, epoch + 1, 0, (topic, 1), version=12) == ["NONE"]
    assert wire.end(name, pid, epoch, commit=True, version=5)[0] == "PRODUCER_FENCED"
    assert wire.state(name) == "Ongoing"
    assert wire.end(name, pid, epoch + 1, commit=False, version=5) == ("NONE", pid, epoch + 2)


def test_the_first_sequence_of_an_unknown_producer_is_zero(wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    assert wire.produce(name, pid, epoch, 3, (topic, 0), version=12) == ["OUT_OF_ORDER_SEQUENCE_NUMBER"]
    assert wire.produce(name, pid, epoch, 0, (topic, 0), version=12) == ["NONE"]


def test_a_timeout_leaves_an_epoch_that_can_go_on(wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name, timeout_ms=300)
    wire.produce(name, pid, epoch, 0, (topic, 0), version=12)
    wire.wait_until(name, "CompleteAbort")
    assert wire.describe(name).producer_epoch == epoch + 1
    assert wire.end(name, pid, epoch, commit=True, version=5)[0] == "INVALID_TXN_STATE"
    assert wire.end(name, pid, epoch, commit=False, version=5) == ("NONE", pid, epoch + 1)
    assert wire.produce(name, pid, epoch, 1, (topic, 0), version=12) == ["INVALID_PRODUCER_EPOCH"]


def test_init_against_an_open_transaction(wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    wire.produce(name, pid, epoch, 0, (topic, 0), version=12)
    assert wire.init(name)[0] == "CONCURRENT_TRANSACTIONS"
    wire.wait_until(name, "CompleteAbort")
    assert wire.init(name) == ("NONE", pid, epoch + 2)
    assert wire.end(name, pid, epoch, commit=True, version=5)[0] == "PRODUCER_FENCED"
    assert wire.end(name, pid, epoch + 1, commit=False, version=5)[0] == "PRODUCER_FENCED"


def test_offsets_join_the_transaction_by_being_committed(wire: WireClient, topic: str, unique: Unique) -> None:
    name, group = unique(), unique()
    pid, epoch = wire.begin(name)
    wire.find_group_coordinator(group)
    assert wire.commit_offset(name, pid, epoch, group, topic, 5, version=5) == "NONE"
    assert wire.committed(group, topic, require_stable=True) == (-1, "UNSTABLE_OFFSET_COMMIT")
    assert [row.topic for row in wire.describe(name).topics] == ["__consumer_offsets"]
    assert wire.end(name, pid, epoch, commit=True, version=5)[0] == "NONE"
    wire.wait_until(name, "CompleteCommit")
    assert wire.committed(group, topic, require_stable=True) == (5, "NONE")
    assert wire.commit_offset(name, pid, epoch, group, topic, 6, version=5) == "INVALID_PRODUCER_EPOCH"
    assert wire.commit_offset(name, pid, epoch + 1, group, topic, 6, version=5) == "NONE"
    assert wire.end(name, pid, epoch + 1, commit=False, version=5)[0] == "NONE"
    wire.wait_until(name, "CompleteAbort")
    assert wire.committed(group, topic, require_stable=True) == (5, "NONE")


def test_a_producer_that_missed_what_became_of_its_epoch(wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    wire.produce(name, pid, epoch, 0, (topic, 0), version=12)
    wire.end(name, pid, epoch, commit=True, version=5)
    wire.wait_until(name, "CompleteCommit")
    assert wire.init(name, producer_id=pid, epoch=epoch) == ("NONE", pid, epoch + 1)
    assert wire.init(name, producer_id=pid, epoch=epoch + 1) == ("NONE", pid, epoch + 2)
    assert wire.init(name, producer_id=pid, epoch=epoch)[0] == "PRODUCER_FENCED"


def test_generations_of_clients_take_turns(wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    wire.add(name, pid, epoch, (topic, 0))
    assert wire.end(name, pid, epoch, commit=True, version=5) == ("NONE", pid, epoch + 1)
    wire.wait_until(name, "CompleteCommit")
    assert wire.end(name, pid, epoch, commit=True, version=4)[0] == "PRODUCER_FENCED"
    assert wire.end(name, pid, epoch + 1, commit=True, version=4)[0] == "NONE"
    assert wire.end(name, pid, epoch + 1, commit=False, version=4)[0] == "INVALID_TXN_STATE"
    wire.produce(name, pid, epoch + 1, 0, (topic, 0), version=12)
    assert wire.end(name, pid, epoch + 1, commit=True, version=4)[0] == "NONE"
    wire.wait_until(name, "CompleteCommit")
    assert wire.describe(name).producer_epoch == epoch + 1
