"""Transactions v1 (librdkafka, aiokafka, older Java clients) call by call, errors included.

Every expectation holds on Apache Kafka 4.3 as well: `MOLDAU_TEST_BOOTSTRAP=host:port pytest <this file>`.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.integration.transactions.wire_client import WireClient

Unique = Callable[[], str]


def test_a_transaction_from_its_beginning_to_its_end(wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    assert epoch == 0
    assert wire.state(name) == "Empty"
    assert wire.add(name, pid, epoch, (topic, 0), (topic, 1)) == ["NONE", "NONE"]
    assert wire.state(name) == "Ongoing"
    assert wire.produce(name, pid, epoch, 0, (topic, 0)) == ["NONE"]
    assert wire.end(name, pid, epoch, commit=True)[0] == "NONE"
    wire.wait_until(name, "CompleteCommit")
    found = wire.fetch(topic, 0, committed=True)
    assert (found.high_watermark, found.last_stable_offset) == (2, 2)
    assert wire.fetch(topic, 1, committed=True).high_watermark == 1  # the marker alone


def test_an_end_may_be_repeated_but_not_turned_around(wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    assert wire.end(name, pid, epoch, commit=True)[0] == "INVALID_TXN_STATE"
    assert wire.end(name, pid, epoch, commit=False)[0] == "INVALID_TXN_STATE"
    wire.add(name, pid, epoch, (topic, 0))
    assert wire.end(name, pid, epoch, commit=True)[0] == "NONE"
    wire.wait_until(name, "CompleteCommit")
    assert wire.end(name, pid, epoch, commit=True)[0] == "NONE"
    assert wire.end(name, pid, epoch, commit=False)[0] == "INVALID_TXN_STATE"
    wire.add(name, pid, epoch, (topic, 0))
    assert wire.end(name, pid, epoch, commit=False)[0] == "NONE"
    wire.wait_until(name, "CompleteAbort")
    assert wire.end(name, pid, epoch, commit=False)[0] == "NONE"
    assert wire.end(name, pid, epoch, commit=True)[0] == "INVALID_TXN_STATE"


def test_who_a_producer_must_be(wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    assert wire.add("nobody", pid, epoch, (topic, 0)) == ["INVALID_PRODUCER_ID_MAPPING"]
    assert wire.add("", pid, epoch, (topic, 0)) == ["INVALID_REQUEST"]
    assert wire.add(name, pid + 1000, epoch, (topic, 0)) == ["INVALID_PRODUCER_ID_MAPPING"]
    assert wire.add(name, pid, epoch + 1, (topic, 0)) == ["PRODUCER_FENCED"]
    assert wire.add(name, pid, epoch + 1, (topic, 0), version=1) == ["INVALID_PRODUCER_EPOCH"]
    assert wire.end("nobody", pid, epoch, commit=True)[0] == "INVALID_PRODUCER_ID_MAPPING"
    assert wire.end("", pid, epoch, commit=True)[0] == "INVALID_REQUEST"
    assert wire.end(name, pid + 1000, epoch, commit=True)[0] == "INVALID_PRODUCER_ID_MAPPING"
    assert wire.end(name, pid, epoch + 1, commit=True)[0] == "PRODUCER_FENCED"
    assert wire.end(name, pid, epoch + 1, commit=True, version=1)[0] == "INVALID_PRODUCER_EPOCH"
    assert wire.add_offsets(name, pid, epoch + 1, "g") == "PRODUCER_FENCED"
    assert wire.add_offsets(name, pid, epoch + 1, "g", version=1) == "INVALID_PRODUCER_EPOCH"


def test_partitions_are_added_all_or_none(wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    missing = (unique(), 0)
    answer = wire.add(name, pid, epoch, (topic, 0), missing, (topic, 7))
    assert answer == ["OPERATION_NOT_ATTEMPTED", "UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_OR_PARTITION"]
    assert wire.state(name) == "Empty"


def test_init_bumps_the_epoch_and_fences(wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    assert wire.init(name) == ("NONE", pid, epoch + 1)
    assert wire.add(name, pid, epoch, (topic, 0)) == ["PRODUCER_FENCED"]
    assert wire.add(name, pid, epoch + 1, (topic, 0)) == ["NONE"]
    assert wire.produce(name, pid, epoch + 1, 0, (topic, 0)) == ["NONE"]
    # An open transaction is aborted with an epoch of its own before anyone is let in.
    assert wire.init(name)[0] == "CONCURRENT_TRANSACTIONS"
    wire.wait_until(name, "CompleteAbort")
    assert wire.init(name) == ("NONE", pid, epoch + 3)
    assert wire.produce(name, pid, epoch + 1, 1, (topic, 0)) == ["INVALID_PRODUCER_EPOCH"]
    assert wire.end(name, pid, epoch + 1, commit=True)[0] == "PRODUCER_FENCED"


def test_a_producer_comes_back_as_itself(wire: WireClient, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    assert wire.init(name, producer_id=pid, epoch=epoch) == ("NONE", pid, epoch + 1)
    assert wire.init(name, producer_id=pid, epoch=epoch) == ("NONE", pid, epoch + 1)  # the answer was lost
    assert wire.init(name, producer_id=pid, epoch=epoch + 1) == ("NONE", pid, epoch + 2)
    assert wire.init(name, producer_id=pid, epoch=epoch)[0] == "PRODUCER_FENCED"
    assert wire.init(name, producer_id=pid, epoch=epoch, version=3)[0] == "INVALID_PRODUCER_EPOCH"
    assert wire.init(name, producer_id=pid + 1000, epoch=epoch)[0] == "PRODUCER_FENCED"
    assert wire.init(name, producer_id=pid, epoch=-1)[0] == "INVALID_REQUEST"
    assert wire.init(name) == ("NONE", pid, epoch + 3)
    assert wire.init(name, producer_id=pid, epoch=epoch + 2)[0] == "PRODUCER_FENCED"


def test_init_refuses_bad_timeouts_and_names(wire: WireClient, unique: Unique) -> None:
    name = unique()
    wire.find_coordinator(name)
    for timeout_ms in (900_001, 0, -5):
        assert wire.init(name, timeout_ms=timeout_ms) == ("INVALID_TRANSACTION_TIMEOUT", -1, -1)
    assert wire.init("") == ("INVALID_REQUEST", -1, -1)
    error, pid, epoch = wire.init(None)
    assert (error, epoch) == ("NONE", 0)
    assert pid >= 0


def test_nothing_is_appended_outside_a_transaction(wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    assert wire.produce(name, pid, epoch, 0, (topic, 0), version=11) == ["TRANSACTION_ABORTABLE"]
    assert wire.produce(name, pid, epoch, 0, (topic, 0), version=10) == ["INVALID_TXN_STATE"]
    assert wire.produce(None, pid, epoch, 0, (topic, 0)) == ["TRANSACTIONAL_ID_AUTHORIZATION_FAILED"]
    assert wire.produce("nobody", pid, epoch, 0, (topic, 0)) == ["INVALID_PRODUCER_ID_MAPPING"]
    assert wire.produce(name, pid, epoch + 1, 0, (topic, 0)) == ["INVALID_PRODUCER_EPOCH"]
    wire.add(name, pid, epoch, (topic, 0))
    assert wire.produce(name, pid, epoch, 0, (topic, 1)) == ["TRANSACTION_ABORTABLE"]
    assert wire.produce(name, pid, epoch, 0, (topic, 0)) == ["NONE"]
    wire.end(name, pid, epoch, commit=True)
    wire.wait_until(name, "CompleteCommit")
    # What was delayed until after the end does not open a transaction that nobody would close.
    assert wire.produce(name, pid, epoch, 1, (topic, 0)) == ["TRANSACTION_ABORTABLE"]
    assert wire.fetch(topic, 0, committed=True).last_stable_offset == 2
    assert wire.fetch(topic, 1, committed=False).high_watermark == 0


def test_verify_only(wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    wire.add(name, pid, epoch, (topic, 0))
    assert wire.verify(name, pid, epoch, (topic, 0), (topic, 1)) == ["NONE", "TRANSACTION_ABORTABLE"]
    assert wire.verify(name, pid, epoch + 1, (topic, 0)) == ["PRODUCER_FENCED"]
    assert wire.verify(name, pid + 1000, epoch, (topic, 0)) == ["INVALID_PRODUCER_ID_MAPPING"]
    assert wire.verify("nobody", pid, epoch, (topic, 0)) == ["INVALID_PRODUCER_ID_MAPPING"]


def test_a_transaction_times_out(wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name, timeout_ms=3_000)  # not before it has produced
    wire.add(name, pid, epoch, (topic, 0))
    wire.produce(name, pid, epoch, 0, (topic, 0))
    wire.wait_until(name, "CompleteAbort")
    assert wire.end(name, pid, epoch, commit=True)[0] == "PRODUCER_FENCED"
    assert wire.add(name, pid, epoch, (topic, 0)) == ["PRODUCER_FENCED"]
    found = wire.fetch(topic, 0, committed=True)
    assert found.last_stable_offset == 2
    assert [(row.producer_id, row.first_offset) for row in found.aborted_transactions] == [(pid, 0)]
    assert wire.describe(name).producer_epoch == epoch + 1
    assert wire.init(name, producer_id=pid, epoch=epoch) == ("NONE", pid, epoch + 1)  # it may come back as itself
    assert wire.begin(name) == (pid, epoch + 2)
    assert wire.init(name, producer_id=pid, epoch=epoch)[0] == "PRODUCER_FENCED"


def test_offsets_inside_a_transaction(wire: WireClient, topic: str, unique: Unique) -> None:
    name, group = unique(), unique()
    pid, epoch = wire.begin(name)
    wire.find_group_coordinator(group)
    assert wire.commit_offset(name, pid, epoch, group, topic, 5, version=4) == "TRANSACTION_ABORTABLE"
    assert wire.commit_offset(name, pid, epoch, group, topic, 5, version=3) == "INVALID_TXN_STATE"
    assert wire.add_offsets(name, pid, epoch, group) == "NONE"
    assert wire.commit_offset(name, pid, epoch, group, topic, 5) == "NONE"
    assert wire.committed(group, topic) == (-1, "NONE")
    assert wire.committed(group, topic, require_stable=True) == (-1, "UNSTABLE_OFFSET_COMMIT")
    assert wire.commit_offset(name, pid, epoch, group, topic, 9, generation=4, member_id="m") != "NONE"
    assert wire.commit_offset(name, pid, epoch, "", topic, 9) == "INVALID_GROUP_ID"
    assert wire.commit_offset(name, pid, epoch, group, unique(), 9) == "UNKNOWN_TOPIC_OR_PARTITION"
    wire.end(name, pid, epoch, commit=True)
    wire.wait_until(name, "CompleteCommit")
    assert wire.committed(group, topic, require_stable=True) == (5, "NONE")
    assert wire.add_offsets(name, pid, epoch, group) == "NONE"
    assert wire.commit_offset(name, pid, epoch, group, topic, 8) == "NONE"
    wire.end(name, pid, epoch, commit=False)
    wire.wait_until(name, "CompleteAbort")
    assert wire.committed(group, topic, require_stable=True) == (5, "NONE")
