"""Describing, listing, and ending by hand what no coordinator ends.

Every expectation holds on Apache Kafka 4.3 as well: `MOLDAU_TEST_BOOTSTRAP=host:port pytest <this file>`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.integration.transactions.wire_client import WireClient, name_of

Unique = Callable[[], str]


def test_describe(wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    found = wire.describe(name)
    assert (found.transaction_state, found.transaction_start_time_ms, found.topics) == ("Empty", -1, [])
    assert (found.producer_id, found.producer_epoch, found.transaction_timeout_ms) == (pid, epoch, 60_000)
    wire.add(name, pid, epoch, (topic, 0), (topic, 1))
    found = wire.describe(name)
    assert found.transaction_start_time_ms > 0
    assert [(row.topic, sorted(row.partitions)) for row in found.topics] == [(topic, [0, 1])]
    wire.end(name, pid, epoch, commit=True)
    wire.wait_until(name, "CompleteCommit")
    assert wire.describe(name).topics == []
    assert name_of(wire.describe(unique()).error_code) == "TRANSACTIONAL_ID_NOT_FOUND"
    assert name_of(wire.describe("").error_code) == "INVALID_REQUEST"


def test_list_with_every_filter(wire: WireClient, topic: str, unique: Unique) -> None:
    resting, running = unique(), unique()
    wire.begin(resting)
    pid, epoch = wire.begin(running)
    wire.add(running, pid, epoch, (topic, 0))

    def listed(**filters: Any) -> set[tuple[str, str]]:
        rows = wire.list(**filters).transaction_states
        return {(row.transactional_id, row.transaction_state) for row in rows} & everything

    everything = {(resting, "Empty"), (running, "Ongoing")}
    assert listed() == everything
    assert listed(state_filters=["Ongoing"]) == {(running, "Ongoing")}
    assert listed(producer_id_filters=[pid]) == {(running, "Ongoing")}
    assert listed(state_filters=["Empty"], producer_id_filters=[pid]) == set()
    assert listed(duration_filter=3_600_000, state_filters=["Ongoing"]) == set()
    wire.until(lambda: listed(duration_filter=1, state_filters=["Ongoing"]) == {(running, "Ongoing")})
    assert listed(transactional_id_pattern=running) == {(running, "Ongoing")}
    assert listed(transactional_id_pattern=running[:-1] + ".") == everything
    assert listed(transactional_id_pattern=running[:-1]) == set()  # the whole id must match
    assert name_of(wire.list(transactional_id_pattern="(").error_code) == "INVALID_REGULAR_EXPRESSION"
    answer = wire.list(state_filters=["Nonsense"])
    assert (answer.unknown_state_filters, answer.transaction_states) == (["Nonsense"], [])
    assert listed(version=0) == everything


def test_a_hanging_transaction_is_aborted_by_hand(wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    wire.add(name, pid, epoch, (topic, 0))
    wire.produce(name, pid, epoch, 0, (topic, 0))
    assert wire.fetch(topic, 0, committed=True).last_stable_offset == 0
    assert wire.write_marker(pid, epoch, (topic, 0), coordinator_epoch=-1, version=1) == "NONE"
    found = wire.fetch(topic, 0, committed=True)
    assert found.last_stable_offset == 2
    assert [row.first_offset for row in found.aborted_transactions] == [0]


def test_markers_that_must_not_be_written(wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    wire.add(name, pid, epoch, (topic, 0))
    wire.produce(name, pid, epoch, 0, (topic, 0))
    assert wire.write_marker(pid, epoch, (unique(), 0)) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert wire.write_marker(pid, epoch, (topic, 9)) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert wire.write_marker(pid, epoch, (topic, 0), transaction_version=2) == "INVALID_PRODUCER_EPOCH"
    assert wire.write_marker(pid, epoch, (topic, 0), coordinator_epoch=7) == "NONE"
    assert wire.write_marker(pid, epoch, (topic, 0), coordinator_epoch=6) == "TRANSACTION_COORDINATOR_FENCED"


def test_a_later_batch_does_not_overtake_the_first(wire: WireClient, topic: str, unique: Unique) -> None:
    name = unique()
    pid, epoch = wire.begin(name)
    assert wire.produce(name, pid, epoch, 5, (topic, 0)) == ["TRANSACTION_ABORTABLE"]
    wire.add(name, pid, epoch, (topic, 0))
    assert wire.produce(name, pid, epoch, 7, (topic, 0)) == ["OUT_OF_ORDER_SEQUENCE_NUMBER"]
    assert wire.produce(name, pid, epoch, 5, (topic, 0)) == ["NONE"]
