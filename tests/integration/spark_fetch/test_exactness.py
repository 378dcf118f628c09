"""Rows equal an independent reader's: transactions, compaction, codecs, nulls and headers, however ranges are cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from moldau.testing.broker import InProcessBroker
from tests.integration.spark_fetch.readers import (
    Log,
    create_topic,
    executed,
    independent,
    producer,
)

STEPS = (None, 1, 2, 3, 7)


def assert_equal_however_cut(bootstrap: str, topic: str, log: Log, *, read_committed: bool) -> None:
    for step in STEPS:
        ranges = log.ranges(topic, step=step)
        assert executed(bootstrap, ranges, read_committed=read_committed) == log.rows, f"in ranges of {step}"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_all_codecs_nulls_and_headers(bootstrap: str, unique: Callable[[], str], codec: str) -> None:
    topic = unique()
    create_topic(bootstrap, topic, 3)
    own = producer(bootstrap, compression_type=codec)
    for number in range(60):
        own.produce(
            topic,
            key=None if number % 4 == 0 else b"k%d" % number,
            value=None if number % 5 == 0 else b"" if number % 5 == 1 else b"v" * number,
            headers=[("name", b"x%d" % number), ("name", None), ("příklad", b"")] if number % 3 == 0 else None,
            partition=number % 3,
            timestamp=1_700_000_000_000 + number,
        )
    assert own.flush(20) == 0
    log = independent(bootstrap, topic, read_committed=True)
    assert len(log.rows) == 60
    assert_equal_however_cut(bootstrap, topic, log, read_committed=True)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_transactions_aborted_interleaved_and_open(bootstrap: str, unique: Callable[[], str], codec: str) -> None:
    topic = unique()
    create_topic(bootstrap, topic, 2)
    plain = producer(bootstrap)
    first, second, hanging = (
        producer(bootstrap, transactional_id=f"{topic}-{name}", compression_type=codec, transaction_timeout_ms=600_000)
        for name in "abc"
    )
    for own in (first, second, hanging):
        own.init_transactions(20)

    def write(own: object, text: str, count: int) -> None:
        for number in range(count):
            own.produce(topic, value=f"{text}{number}".encode(), partition=number % 2)  # type: ignore[attr-defined]
        assert own.flush(20) == 0  # type: ignore[attr-defined]

    write(plain, "plain", 3)
    first.begin_transaction()
    write(first, "kept", 5)
    second.begin_transaction()
    write(second, "dropped", 4)
    write(first, "kept too", 3)
    second.abort_transaction(20)
    write(plain, "between", 2)
    second.begin_transaction()
    write(second, "kept of the second", 2)
    first.abort_transaction(20)
    second.commit_transaction(20)
    first.begin_transaction()
    write(first, "third time", 3)
    first.commit_transaction(20)
    hanging.begin_transaction()
    write(hanging, "open", 4)
    write(plain, "behind the open one", 4)

    committed = independent(bootstrap, topic, read_committed=True)
    everything = independent(bootstrap, topic, read_committed=False)
    texts = {row.value for row in committed.rows}
    assert not any(value is None or value.startswith((b"dropped", b"kept0", b"open", b"behind")) for value in texts)
    assert len(everything.rows) > len(committed.rows)
    assert_equal_however_cut(bootstrap, topic, committed, read_committed=True)
    assert_equal_however_cut(bootstrap, topic, everything, read_committed=False)
    hanging.abort_transaction(20)
    committed = independent(bootstrap, topic, read_committed=True)
    assert sum(row.value is not None and row.value.startswith(b"behind") for row in committed.rows) == 4
    assert_equal_however_cut(bootstrap, topic, committed, read_committed=True)


@pytest.fixture(scope="module")
def compacting() -> Iterator[InProcessBroker]:
    """A broker whose clock tests may set, so that compaction has work and does it at once."""
    with InProcessBroker({"log.cleaner.min.cleanable.ratio": "0.0"}) as broker:
        yield broker


def compacted_topic(broker: InProcessBroker, topic: str) -> None:
    create_topic(
        broker.bootstrap,
        topic,
        cleanup_policy="compact",
        segment_ms="60000",
        min_cleanable_dirty_ratio="0.0",
        delete_retention_ms="0",
    )


def write_keys(broker: InProcessBroker, topic: str, pairs: list[tuple[str, str | None]]) -> None:
    own = producer(broker.bootstrap, linger_ms=0)
    for key, value in pairs:
        own.produce(topic, key=key, value=value, timestamp=broker.clock.now_ms())
        assert own.flush(20) == 0


def compact(broker: InProcessBroker) -> None:
    """Twice, with time between: tombstones go with the second round."""
    for _ in range(3):
        broker.clock.advance("10m")


def test_compacted_topics_have_gaps(compacting: InProcessBroker, unique: Callable[[], str]) -> None:
    topic = unique()
    compacted_topic(compacting, topic)
    write_keys(compacting, topic, [(f"k{number % 4}", str(number)) for number in range(40)])
    write_keys(compacting, topic, [("k1", None)])
    compacting.clock.advance("10m")
    write_keys(compacting, topic, [("k9", "rolls the segment")])
    compact(compacting)
    log = independent(compacting.bootstrap, topic, read_committed=True)
    assert len(log.rows) < 10, "nothing was compacted"
    assert log.ends == {0: 42}
    assert_equal_however_cut(compacting.bootstrap, topic, log, read_committed=True)


def test_a_growing_topic_gives_what_the_range_says(bootstrap: str, unique: Callable[[], str]) -> None:
    topic = unique()
    create_topic(bootstrap, topic)
    own = producer(bootstrap)
    for number in range(200):
        own.produce(topic, value=b"%d" % number)
    assert own.flush(20) == 0
    log = independent(bootstrap, topic, read_committed=True)
    for number in range(200):
        own.produce(topic, value=b"later %d" % number)
    rows = executed(bootstrap, log.ranges(topic))
    assert own.flush(20) == 0
    assert rows == log.rows
    assert executed(bootstrap, log.ranges(topic, step=17)) == log.rows
