"""How an executor takes what brokers may answer: moved leaders, cut connections, old versions, strange rows."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import pytest

from moldau.records.builder import BatchBuilder, build_end_marker
from moldau.spark.fetch.link import BrokerLink, readable
from moldau.spark.fetch.read import read_ranges
from moldau.spark.fetch.rows import REPEATED_MAX, Rows
from moldau.spark.types import OffsetRange, ReadFailed, ReadSettings, topic_id_text
from moldau.wire.messages.fetch import AbortedTransaction, PartitionData
from tests.unit.spark.fake_cluster import KAFKA_2_0, TOPIC, Asked, FakeCluster, HangUp

NOT_LEADER = 6
OFFSET_OUT_OF_RANGE = 1
TOPIC_AUTHORIZATION_FAILED = 29


def batch(start: int, count: int = 5) -> bytes:
    builder = BatchBuilder(base_offset=start)
    for number in range(start, start + count):
        builder.append(None, b"%d" % number, timestamp=1000 + number)
    return builder.build()


def row(records: bytes | None, end: int = 100, **more: object) -> PartitionData:
    return PartitionData(records=records, high_watermark=end, last_stable_offset=end, **more)  # type: ignore[arg-type]


def log_of(size: int) -> object:
    """A log of batches of five, which gives one batch at a time."""

    def fetch(asked: Asked) -> PartitionData:
        return row(batch(asked.offset // 5 * 5) if asked.offset < size else b"", size)

    return fetch


def read(
    cluster: FakeCluster, *ranges: OffsetRange, timeout_ms: int = 5000, client: Mapping[str, str] | None = None
) -> list[tuple[int, int]]:
    with cluster.running() as bootstrap:
        client = {"default.api.timeout.ms": str(timeout_ms), **(client or {})}
        settings = ReadSettings(bootstrap, client, columns=("partition", "offset"))
        found = [tuple(line.values()) for part in read_ranges(settings, ranges) for line in part.to_pylist()]
    return found  # type: ignore[return-value]


def everything(end: int, partition: int = 0, start: int = 0) -> OffsetRange:
    return OffsetRange(TOPIC, topic_id_text(bytes(range(16))), partition, start, end)


def offsets(start: int, end: int, partition: int = 0) -> list[tuple[int, int]]:
    return [(partition, offset) for offset in range(start, end)]


def test_leaders_differ_and_are_asked_each_for_its_own() -> None:
    cluster = FakeCluster(log_of(50), leaders={0: 1, 1: 2, 2: 3}, nodes=3)  # type: ignore[arg-type]
    found = read(cluster, *(everything(33, partition, start=3) for partition in range(3)))
    assert sorted(found) == [pair for partition in range(3) for pair in offsets(3, 33, partition)]
    assert {(asked.node_id, asked.partition) for asked in cluster.asked} == {(1, 0), (2, 1), (3, 2)}
    assert {asked.version for asked in cluster.asked} == {13}


def test_a_leader_that_moves_is_followed() -> None:
    plain = log_of(50)

    def fetch(asked: Asked) -> PartitionData:
        if asked.offset >= 20 and asked.node_id == 1:
            cluster.leaders = {0: 2}
            return row(None, error_code=NOT_LEADER)
        return plain(asked)  # type: ignore[operator,no-any-return]

    cluster = FakeCluster(fetch, nodes=2)
    assert read(cluster, everything(40)) == offsets(0, 40)


@pytest.mark.parametrize("after_bytes", [0, 1000])
def test_a_connection_cut_inside_an_answer(after_bytes: int) -> None:
    plain = log_of(50)
    cut = []

    def fetch(asked: Asked) -> PartitionData:
        if asked.offset == 20 and len(cut) < 3:
            cut.append(asked)
            raise HangUp(after_bytes)
        return plain(asked)  # type: ignore[operator,no-any-return]

    assert read(FakeCluster(fetch), everything(40)) == offsets(0, 40)
    assert len(cut) == 3


def test_ranges_that_wait_for_their_turn_do_not_keep_the_processor_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """More partitions than fit into a fetch: the others wait until its answer is there."""
    looked: list[float] = []

    def counted(links: Sequence[BrokerLink], timeout_s: float) -> list[BrokerLink]:
        looked.append(timeout_s)
        return readable(links, timeout_s)

    plain = log_of(5)

    def fetch(asked: Asked) -> PartitionData:
        time.sleep(0.05)  # a broker far away
        return plain(asked)  # type: ignore[operator,no-any-return]

    monkeypatch.setattr("moldau.spark.fetch.read.readable", counted)
    cluster = FakeCluster(fetch, leaders=dict.fromkeys(range(10), 1))
    found = read(cluster, *(everything(5, partition) for partition in range(10)), client={"fetch.max.bytes": "1000"})
    assert len(found) == 50
    assert len(looked) <= 3 * 10


def test_what_is_kept_does_not_grow_with_the_partitions() -> None:
    rows = Rows(ReadSettings("", columns=("topic", "partition", "offset")))
    found = []
    for number in range(3 * REPEATED_MAX):
        part = OffsetRange(f"topic-{number}", None, number, 0, 5)
        found += [tuple(line.values()) for made in rows.add(part, 0, batch(0), []) for line in made.to_pylist()]
    found += [tuple(line.values()) for made in rows.rest() for line in made.to_pylist()]
    assert found == [(f"topic-{n}", n, offset) for n in range(3 * REPEATED_MAX) for offset in range(5)]
    assert len(rows._repeated) <= REPEATED_MAX


def test_brokers_of_old_are_asked_by_name() -> None:
    cluster = FakeCluster(log_of(50), versions=dict(KAFKA_2_0), topic_id=bytes(16))  # type: ignore[arg-type]
    assert read(cluster, everything(40, start=12)) == offsets(12, 40)
    assert {asked.version for asked in cluster.asked} == {8}


def test_a_batch_cut_at_the_end_of_an_answer_is_asked_for_again() -> None:
    def fetch(asked: Asked) -> PartitionData:
        start = asked.offset // 5 * 5
        return row(batch(start) + batch(start + 5)[:-9])

    assert read(FakeCluster(fetch), everything(40)) == offsets(0, 40)


def test_an_empty_row_beside_a_full_one_means_nothing() -> None:
    """The answer was full before that partition's turn came."""
    plain = log_of(10)

    def fetch(asked: Asked) -> PartitionData:
        if asked.partition == 1 and any(other.partition == 0 and other.offset < 10 for other in cluster.asked[-2:]):
            return row(b"", 10)
        return plain(asked)  # type: ignore[operator,no-any-return]

    cluster = FakeCluster(fetch, leaders={0: 1, 1: 1})
    found = read(cluster, everything(10, 0), everything(10, 1))
    assert sorted(found) == offsets(0, 10, 0) + offsets(0, 10, 1)


def test_a_log_whose_end_was_compacted_away_ends() -> None:
    def fetch(asked: Asked) -> PartitionData:
        return row(batch(0) if asked.offset < 5 else b"", 40)

    cluster = FakeCluster(fetch)
    assert read(cluster, everything(40)) == offsets(0, 5)
    assert [asked.max_wait_ms for asked in cluster.asked] == [0, 0, 250]


def test_storage_that_is_slow_once_loses_nothing() -> None:
    plain = log_of(40)

    def fetch(asked: Asked) -> PartitionData:
        return row(b"", 40) if asked.max_wait_ms == 0 else plain(asked)  # type: ignore[operator,no-any-return]

    assert read(FakeCluster(fetch), everything(12)) == offsets(0, 12)


def test_a_gap_in_the_middle_is_passed_over() -> None:
    def fetch(asked: Asked) -> PartitionData:
        return row(batch(0) if asked.offset < 5 else batch(30))

    assert read(FakeCluster(fetch), everything(32)) == [*offsets(0, 5), *offsets(30, 32)]
    cluster = FakeCluster(fetch)
    assert read(cluster, everything(25, start=6)) == []
    assert len(cluster.asked) <= 2


def test_an_aborted_transaction_that_began_before_the_range() -> None:
    def records(start: int) -> bytes:
        builder = BatchBuilder(
            base_offset=start, producer_id=7, producer_epoch=0, base_sequence=start, transactional=True
        )
        builder.append(None, b"x", timestamp=5)
        return builder.build()

    marker = build_end_marker(
        aborted=True, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=5, base_offset=2
    )
    data = records(1) + marker + records(3)
    aborted = [AbortedTransaction(producer_id=7, first_offset=0)]
    cluster = FakeCluster(lambda asked: row(data, 4, aborted_transactions=aborted))
    assert read(cluster, everything(4, start=1)) == [(0, 3)]


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_named(magic: int) -> None:
    message = (7).to_bytes(8, "big") + (30).to_bytes(4, "big") + bytes(4) + bytes([magic]) + bytes(25)
    cluster = FakeCluster(lambda asked: row(message))
    with pytest.raises(ReadFailed, match=f"offset 7 is stored in message format v{magic}"):
        read(cluster, everything(9, start=7))


def test_damaged_batches_are_named() -> None:
    damaged = bytearray(batch(0))
    damaged[-1] ^= 1
    cluster = FakeCluster(lambda asked: row(bytes(damaged)))
    with pytest.raises(ReadFailed, match="partition 0: the batch at or after offset 0 cannot be read: the checksum"):
        read(cluster, everything(5))


def test_what_is_forbidden_is_not_tried_again() -> None:
    cluster = FakeCluster(lambda asked: row(None, error_code=TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(ReadFailed, match="TOPIC_AUTHORIZATION_FAILED"):
        read(cluster, everything(5))
    assert len(cluster.asked) == 1


def test_no_progress_ends_with_the_reason() -> None:
    cluster = FakeCluster(lambda asked: row(None, error_code=NOT_LEADER))
    with pytest.raises(ReadFailed, match=r"offset 0: nothing came for 0\.4 s: NOT_LEADER"):
        read(cluster, everything(5), timeout_ms=400)


def held_back(asked: Asked) -> PartitionData:
    """Ten records, the last five in a transaction that is still open."""
    return PartitionData(records=batch(0) if asked.offset < 5 else b"", high_watermark=10, last_stable_offset=5)


def test_an_open_transaction_is_waited_for_told_and_given_up(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ReadFailed, match=r"transaction holds readers back from offset 5 on.*did not end within 0\.4 s"):
        read(FakeCluster(held_back), everything(10), timeout_ms=400)
    told = [line for line in caplog.messages if "waiting 0.4 s for its end" in line]
    assert len(told) == 1, "at once, and once"


def test_an_open_transaction_that_ends_in_time() -> None:
    def fetch(asked: Asked) -> PartitionData:
        ended = sum(one.offset == 5 for one in cluster.asked) > 2
        return row(batch(5), 10) if ended else held_back(asked)

    cluster = FakeCluster(fetch)
    assert read(cluster, everything(10)) == offsets(0, 10)


def test_times_that_spark_cannot_hold_are_told_once_a_task(caplog: pytest.LogCaptureFixture) -> None:
    builder = BatchBuilder()
    for timestamp in (1000, 1_700_000_000 * 10**9, 1_700_000_000 * 10**9):
        builder.append(None, b"v", timestamp=timestamp)
    rows = Rows(ReadSettings("", columns=("offset", "timestamp")))
    for position in (0, 0):
        list(rows.add(everything(3), position, builder.build(), []))
    (told,) = caplog.messages
    assert "topic 't' partition 0 offset 1 has a timestamp that Spark cannot hold" in told
    assert "nanoseconds" in told


def test_an_offset_that_is_out_of_range_for_a_moment() -> None:
    """A new leader may not know its own high watermark yet."""
    plain = log_of(40)
    refused = []

    def fetch(asked: Asked) -> PartitionData:
        if asked.offset == 10 and len(refused) < 4:
            refused.append(asked)
            cluster.bounds = (0, 8 if len(refused) < 3 else 40)
            return row(None, error_code=OFFSET_OUT_OF_RANGE)
        return plain(asked)  # type: ignore[operator,no-any-return]

    cluster = FakeCluster(fetch)
    assert read(cluster, everything(40)) == offsets(0, 40)


def test_many_partitions_are_asked_for_a_few_at_a_time() -> None:
    cluster = FakeCluster(log_of(10), leaders=dict.fromkeys(range(300), 1))  # type: ignore[arg-type]
    found = read(cluster, *(everything(10, partition) for partition in range(300)))
    assert sorted(found) == [pair for partition in range(300) for pair in offsets(0, 10, partition)]
    assert len(cluster.asked) < 3000, "every partition was named in every fetch"
