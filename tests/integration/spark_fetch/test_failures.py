"""Loss is told with exact numbers or passed over, restarts and lost connections cost nothing, limits hold."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from moldau.cli.broker_process import BrokerProcess
from moldau.spark.fetch import read as fetch
from moldau.spark.fetch import rows
from moldau.spark.fetch.leaders import pool_for
from moldau.spark.fetch.read import read_ranges
from moldau.spark.types import (
    BadRecord,
    DataLost,
    Format,
    OffsetRange,
    ReadFailed,
    ReadSettings,
    arrow_schema,
    topic_id_text,
)
from tests.integration.spark_fetch.readers import (
    batches,
    create_topic,
    delete_records,
    delete_topic,
    independent,
    produce,
    producer,
    rows_of,
)


def offsets_read(settings: ReadSettings, *ranges: OffsetRange) -> list[int]:
    return [offset for batch in batches(settings, ranges) for offset in batch.column("offset").to_pylist()]


def topic_id(bootstrap: str, topic: str) -> str | None:
    pool = pool_for(bootstrap, {"client.id": "asks for ids"})
    pool.refresh([topic])
    found = pool.topic(topic)
    assert found is not None
    return topic_id_text(found.topic_id)


def test_deleted_records_are_told_exactly(
    bootstrap: str, unique: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    topic = unique()
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, [b"%d" % number for number in range(20)])
    delete_records(bootstrap, topic, 12)
    whole = OffsetRange(topic, None, 0, 5, 18)
    with pytest.raises(DataLost, match=r"lost offsets 5 to 11 \(7 offsets\): the log now starts at offset 12") as lost:
        batches(ReadSettings(bootstrap), [whole])
    assert (lost.value.start, lost.value.end) == (5, 12)
    caplog.set_level(logging.WARNING, fetch.__name__)
    tolerant = ReadSettings(bootstrap, fail_on_data_loss=False)
    assert offsets_read(tolerant, whole) == list(range(12, 18))
    assert "lost offsets 5 to 11 (7 offsets)" in caplog.text
    gone = OffsetRange(topic, None, 0, 3, 10)
    assert offsets_read(tolerant, gone) == []
    assert "lost offsets 3 to 9 (7 offsets)" in caplog.text


def test_a_topic_created_again_is_another_one(bootstrap: str, unique: Callable[[], str]) -> None:
    topic = unique()
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, [b"old"] * 10)
    old = topic_id(bootstrap, topic)
    assert offsets_read(ReadSettings(bootstrap), OffsetRange(topic, old, 0, 0, 10)) == list(range(10))
    delete_topic(bootstrap, topic)
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, [b"new"] * 10)
    planned = OffsetRange(topic, old, 0, 0, 10)
    with pytest.raises(DataLost, match=r"lost offsets 0 to 9 \(10 offsets\): the topic was deleted and created again"):
        batches(ReadSettings(bootstrap), [planned])
    assert offsets_read(ReadSettings(bootstrap, fail_on_data_loss=False), planned) == []
    new = OffsetRange(topic, topic_id(bootstrap, topic), 0, 0, 10)
    assert offsets_read(ReadSettings(bootstrap), new) == list(range(10))
    assert offsets_read(ReadSettings(bootstrap), OffsetRange(topic, None, 0, 2, 4)) == [2, 3]


def test_what_stays_away_is_lost(bootstrap: str, unique: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "GONE_AFTER_S", 0.3)
    topic = unique()
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, [b"x"] * 10)
    settings = ReadSettings(bootstrap)
    with pytest.raises(DataLost, match=r"lost offsets 10 to 14 \(5 offsets\): the log ends at offset 10"):
        batches(settings, [OffsetRange(topic, None, 0, 0, 15)])
    with pytest.raises(DataLost, match=r"lost offsets 12 to 14 \(3 offsets\): the log ends at offset 10"):
        batches(settings, [OffsetRange(topic, None, 0, 12, 15)])
    with pytest.raises(DataLost, match="the topic has 1 partition now"):
        batches(settings, [OffsetRange(topic, None, 3, 0, 5)])
    with pytest.raises(DataLost, match="the topic no longer exists"):
        batches(settings, [OffsetRange(unique(), None, 0, 0, 5)])
    tolerant = ReadSettings(bootstrap, fail_on_data_loss=False)
    assert offsets_read(tolerant, OffsetRange(topic, None, 0, 7, 15)) == [7, 8, 9]


def test_an_open_transaction_in_the_range_is_named(bootstrap: str, unique: Callable[[], str]) -> None:
    topic = unique()
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, [b"x"] * 3)
    own = producer(bootstrap, transactional_id=topic)
    own.init_transactions(20)
    own.begin_transaction()
    own.produce(topic, value=b"open")
    assert own.flush(20) == 0
    settings = ReadSettings(bootstrap, {"default.api.timeout.ms": "700"})
    with pytest.raises(ReadFailed, match="an open transaction holds readers back from offset 3 on"):
        batches(settings, [OffsetRange(topic, None, 0, 0, 4)])
    own.commit_transaction(20)
    assert offsets_read(settings, OffsetRange(topic, None, 0, 0, 5)) == [0, 1, 2, 3]


def test_a_broker_that_does_not_answer() -> None:
    settings = ReadSettings("127.0.0.1:1", {"default.api.timeout.ms": "300"})
    with pytest.raises(ReadFailed, match=r"no broker answers at 127\.0\.0\.1:1"):
        batches(settings, [OffsetRange("t", None, 0, 0, 5)])


def test_a_broker_killed_in_the_middle_of_a_read(own_broker: BrokerProcess) -> None:
    create_topic(own_broker.bootstrap, "t", 2)
    for partition in range(2):
        produce(own_broker.bootstrap, "t", [os.urandom(900) for _ in range(4000)], partition=partition)
    log = independent(own_broker.bootstrap, "t", read_committed=True)
    settings = ReadSettings(own_broker.bootstrap, {"fetch.max.bytes": "200000"}, headers=True)
    found = []
    restart: threading.Thread | None = None
    for batch in read_ranges(settings, log.ranges("t")):
        found.append(batch)
        if restart is None:
            own_broker.kill()
            restart = threading.Thread(target=own_broker.start)
            restart.start()
    assert restart is not None
    restart.join()
    assert rows_of(found) == log.rows


def test_connections_are_kept_and_stale_ones_replaced(own_broker: BrokerProcess) -> None:
    create_topic(own_broker.bootstrap, "t")
    produce(own_broker.bootstrap, "t", [b"x"] * 10)
    settings = ReadSettings(own_broker.bootstrap)
    whole = OffsetRange("t", None, 0, 0, 10)
    assert len(offsets_read(settings, whole)) == 10
    pool = pool_for(settings.bootstrap, settings.client)
    link = pool.take(next(iter(pool._brokers)))
    pool.give_back(link)
    assert len(offsets_read(settings, whole)) == 10
    assert pool.take(next(iter(pool._brokers))) is link, "the connection was not kept"
    pool.give_back(link)
    own_broker.stop()
    own_broker.start()
    assert len(offsets_read(settings, whole)) == 10


def test_reads_in_a_forked_process_and_side_by_side(bootstrap: str, unique: Callable[[], str]) -> None:
    topic = unique()
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, [os.urandom(500) for _ in range(2000)])
    settings = ReadSettings(bootstrap, {"fetch.max.bytes": "100000"}, columns=("offset",))
    whole = OffsetRange(topic, None, 0, 0, 2000)
    first, second = read_ranges(settings, [whole]), read_ranges(settings, [whole])
    ahead = next(first)
    child = os.fork()
    if child == 0:
        right = sum(batch.num_rows for batch in read_ranges(settings, [whole])) == 2000
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    seen = [sum(batch.num_rows for batch in rest) for rest in (first, second)]
    assert [seen[0] + ahead.num_rows, seen[1]] == [2000, 2000]


def test_a_record_larger_than_a_fetch(bootstrap: str, unique: Callable[[], str]) -> None:
    topic = unique()
    create_topic(bootstrap, topic, max_message_bytes="20000000")
    large = os.urandom(6_000_000)
    produce(bootstrap, topic, [b"a", large, b"b"], message_max_bytes=20_000_000)
    found = batches(ReadSettings(bootstrap, columns=("value",)), [OffsetRange(topic, None, 0, 0, 3)])
    assert [value for batch in found for value in batch.column(0).to_pylist()] == [b"a", large, b"b"]


def test_columns_are_only_those_wanted(bootstrap: str, unique: Callable[[], str]) -> None:
    topic = unique()
    create_topic(bootstrap, topic)
    own = producer(bootstrap)
    for number in range(100):
        own.produce(topic, key=b"k", value=b"%d" % number)
    assert own.flush(20) == 0
    settings = ReadSettings(bootstrap, columns=("timestampType", "offset", "topic"))
    (batch,) = batches(settings, [OffsetRange(topic, None, 0, 10, 21)])
    assert batch.schema.equals(arrow_schema(settings))
    assert batch.to_pylist() == [{"timestampType": 0, "offset": at, "topic": topic} for at in range(10, 21)]


def test_batches_have_a_sensible_size(
    bootstrap: str, unique: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = unique()
    create_topic(bootstrap, topic, 4)
    for partition in range(4):
        produce(bootstrap, topic, [b"x"] * 1000, partition=partition, compression_type="gzip")
    everything = [OffsetRange(topic, None, partition, 0, 1000) for partition in range(4)]
    (together,) = batches(ReadSettings(bootstrap), everything)
    assert together.num_rows == 4000
    monkeypatch.setattr(rows, "ROWS_MAX", 300)
    monkeypatch.setattr(rows, "SMALL_ROWS", 200)
    cut = batches(ReadSettings(bootstrap), everything)
    assert sum(batch.num_rows for batch in cut) == 4000
    assert max(batch.num_rows for batch in cut) < 500


MIXED = [b'{"a":1}', b'{"a":"x"}', None, b"{", b'{"a":2}']


@pytest.fixture
def mixed(bootstrap: str, unique: Callable[[], str]) -> str:
    topic = unique()
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, MIXED)
    return topic


def test_a_bad_record_fails_the_read_and_is_named(bootstrap: str, mixed: str) -> None:
    settings = ReadSettings(bootstrap, value=Format("json", "a INT"))
    with pytest.raises(BadRecord, match=rf"topic '{mixed}' partition 0 offset 1: the value cannot be decoded: .*\$\.a"):
        batches(settings, [OffsetRange(mixed, None, 0, 0, 5)])


def test_bad_records_are_set_aside(bootstrap: str, mixed: str) -> None:
    how = Format("json", "a INT", mode="PERMISSIVE")
    settings = ReadSettings(bootstrap, value=how, columns=("offset", "value", "valueError", "valueRaw"))
    (batch,) = batches(settings, [OffsetRange(mixed, None, 0, 0, 5)])
    assert batch.schema.equals(arrow_schema(settings))
    assert batch.column("value").to_pylist() == [{"a": 1}, None, None, None, {"a": 2}]
    assert batch.column("valueRaw").to_pylist() == [None, b'{"a":"x"}', None, b"{", None]
    reasons = batch.column("valueError").to_pylist()
    assert [reason is None for reason in reasons] == [True, False, True, False, True]
    alone = ReadSettings(bootstrap, value=how, columns=("valueError",))
    (batch,) = batches(alone, [OffsetRange(mixed, None, 0, 0, 5)])
    assert batch.column("valueError").to_pylist() == reasons


def test_bad_records_are_dropped(bootstrap: str, mixed: str) -> None:
    settings = ReadSettings(bootstrap, value=Format("json", "a INT", mode="DROPMALFORMED"))
    (batch,) = batches(settings, [OffsetRange(mixed, None, 0, 0, 5)])
    assert batch.column("offset").to_pylist() == [0, 2, 4]


def test_bad_records_alone(bootstrap: str, mixed: str) -> None:
    """The other half of DROPMALFORMED: together they are every record once."""
    how = Format("json", "a INT", mode="ONLYMALFORMED")
    settings = ReadSettings(bootstrap, value=how, columns=("offset", "value", "valueError", "valueRaw"))
    (batch,) = batches(settings, [OffsetRange(mixed, None, 0, 0, 5)])
    assert batch.column("offset").to_pylist() == [1, 3]
    assert batch.column("value").to_pylist() == [None, None]
    assert batch.column("valueRaw").to_pylist() == [b'{"a":"x"}', b"{"]
    assert None not in batch.column("valueError").to_pylist()
    assert batches(settings, [OffsetRange(mixed, None, 0, 4, 5)]) == []
    either = replace(settings, key=Format("json", "k INT", mode="ONLYMALFORMED"))  # no record has a key: none is bad
    (batch,) = batches(either, [OffsetRange(mixed, None, 0, 0, 5)])
    assert batch.column("offset").to_pylist() == [1, 3]
