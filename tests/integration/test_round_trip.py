"""Records go in with every client and codec and come out the same, whoever reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.integration.clients import CLIENTS, CODECS, Client, Outgoing, Read

PARTITIONS = 3
RECORDS = 20_000  # times five codecs: 100,000 records through each client
FIRST_TIMESTAMP_MS = 1_760_000_000_000


@pytest.fixture(params=CLIENTS, ids=lambda kind: kind.name)
def client(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[Client]:
    made: Client = request.param(bootstrap)
    yield made
    made.close()


def varied_records(count: int) -> list[Outgoing]:
    """Keys and values present, empty and absent; headers none, one, several, repeated and empty."""
    headers = (
        (),
        (("trace", b"abc"),),
        (("a", b"1"), ("a", b"2"), ("empty", b"")),
        (("k", b"\x00\xff"), ("ключ", "значение".encode())),
    )
    return [
        Outgoing(
            partition=i % PARTITIONS,
            key=None if i % 7 == 0 else b"key-%d" % (i % 1000),
            value=None if i % 11 == 3 and i % 7 else b"" if i % 13 == 5 else b"value-%d-" % i * (1 + i % 5),
            timestamp_ms=FIRST_TIMESTAMP_MS + i,
            headers=headers[i % 4],
        )
        for i in range(count)
    ]


def expected_of(records: list[Outgoing], partition: int) -> list[Read]:
    mine = [record for record in records if record.partition == partition]
    return [Read(offset, r.key, r.value, r.timestamp_ms, r.headers) for offset, r in enumerate(mine)]


@pytest.mark.parametrize("codec", CODECS)
def test_what_goes_in_comes_out(client: Client, codec: str, unique: Callable[[], str]) -> None:
    topic = unique()
    client.create_topic(topic, PARTITIONS)
    records = varied_records(RECORDS)
    offsets = client.produce(topic, records, codec=codec)
    for partition in range(PARTITIONS):
        expected = expected_of(records, partition)
        assert [o for o, r in zip(offsets, records, strict=True) if r.partition == partition] == list(
            range(len(expected))
        )
        assert client.consume(topic, partition, 0, len(expected)) == expected


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement(client: Client, acks: str, unique: Callable[[], str]) -> None:
    topic = unique()
    client.create_topic(topic, PARTITIONS)
    records = varied_records(300)
    offsets = client.produce(topic, records, acks=acks)
    if acks != "0":  # nothing is answered without acknowledgement, so no offset is known
        assert sorted(offsets) == sorted(list(range(100)) * PARTITIONS)
    assert client.consume(topic, 1, 0, 100) == expected_of(records, 1)


def test_idempotent_producer(client: Client, unique: Callable[[], str]) -> None:
    topic = unique()
    client.create_topic(topic, PARTITIONS)
    records = varied_records(3000)
    client.produce(topic, records, idempotent=True)
    client.produce(topic, records, idempotent=True)  # another producer id: these are new records
    once = expected_of(records, 2)
    again = [Read(r.offset + len(once), r.key, r.value, r.timestamp_ms, r.headers) for r in once]
    assert client.consume(topic, 2, 0, 2 * len(once)) == once + again


def test_reading_starts_in_the_middle_of_a_batch(client: Client, unique: Callable[[], str]) -> None:
    topic = unique()
    client.create_topic(topic)
    records = [Outgoing(0, None, b"v%d" % i, FIRST_TIMESTAMP_MS + i) for i in range(500)]
    client.produce(topic, records, codec="zstd")
    for start in (1, 250, 499):
        assert client.consume(topic, 0, start, 1)[0].offset == start


@pytest.mark.parametrize("reader", CLIENTS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("writer", CLIENTS, ids=lambda kind: kind.name)
def test_one_client_reads_what_another_wrote(
    bootstrap: str, writer: type[Client], reader: type[Client], unique: Callable[[], str]
) -> None:
    writing, reading = writer(bootstrap), reader(bootstrap)
    try:
        topic = unique()
        writing.create_topic(topic, PARTITIONS)
        for codec in CODECS:
            writing.produce(topic, varied_records(300), codec=codec)
        once = expected_of(varied_records(300), 0)
        found = reading.consume(topic, 0, 0, len(once) * len(CODECS))
        assert [(r.key, r.value, r.headers) for r in found] == [(r.key, r.value, r.headers) for r in once] * len(CODECS)
        assert [r.offset for r in found] == list(range(len(found)))
    finally:
        writing.close()
        reading.close()
