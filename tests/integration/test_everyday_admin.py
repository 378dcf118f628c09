"""Topics, settings, timestamps and deletion, and the errors Kafka gives, through every client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.integration.clients import CLIENTS, Client, Outgoing, Refusal

UNKNOWN_TOPIC_OR_PARTITION = 3
MESSAGE_TOO_LARGE = 10
OFFSET_OUT_OF_RANGE = 1
INVALID_TOPIC_EXCEPTION = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_CONFIG = 40
BASE_MS = 1_760_000_000_000


@pytest.fixture(params=CLIENTS, ids=lambda kind: kind.name)
def client(request: pytest.FixtureRequest, bootstrap: str) -> Iterator[Client]:
    made: Client = request.param(bootstrap)
    yield made
    made.close()


def numbered(count: int, *, step_ms: int = 1000) -> list[Outgoing]:
    return [Outgoing(0, b"k%d" % i, b"v%d" % i, BASE_MS + i * step_ms) for i in range(count)]


def eventually(holds: Callable[[], bool], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_topics_come_and_go(client: Client, unique: Callable[[], str]) -> None:
    topic = unique()
    client.create_topic(topic, 4)
    assert eventually(lambda: topic in client.topic_names())
    assert client.partition_count(topic) == 4
    client.grow_topic(topic, 6)
    assert eventually(lambda: client.partition_count(topic) == 6)
    client.delete_topic(topic)
    assert eventually(lambda: topic not in client.topic_names())


def test_a_topic_made_again_is_empty(client: Client, unique: Callable[[], str]) -> None:
    topic = unique()
    client.create_topic(topic)
    client.produce(topic, numbered(10))
    client.delete_topic(topic)
    assert eventually(lambda: topic not in client.topic_names())
    client.create_topic(topic)
    assert client.offset_range(topic, 0) == (0, 0)


def test_a_topic_that_exists_is_refused(client: Client, unique: Callable[[], str]) -> None:
    topic = unique()
    client.create_topic(topic)
    with pytest.raises(Refusal) as refused:
        client.create_topic(topic)
    assert refused.value.code == TOPIC_ALREADY_EXISTS


def test_a_bad_name_is_refused(client: Client) -> None:
    with pytest.raises(Refusal) as refused:
        client.create_topic("no spaces allowed")
    assert refused.value.code == INVALID_TOPIC_EXCEPTION


def test_a_topic_cannot_shrink(client: Client, unique: Callable[[], str]) -> None:
    topic = unique()
    client.create_topic(topic, 3)
    with pytest.raises(Refusal) as refused:
        client.grow_topic(topic, 2)
    assert refused.value.code == INVALID_PARTITIONS


def test_an_unknown_topic_is_named_so(client: Client, unique: Callable[[], str]) -> None:
    topic = unique()
    with pytest.raises(Refusal) as refused:
        client.partition_count(topic)
    assert refused.value.code == UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(Refusal) as refused:
        client.delete_topic(topic)
    assert refused.value.code == UNKNOWN_TOPIC_OR_PARTITION


def test_an_oversized_record_is_refused(client: Client, unique: Callable[[], str]) -> None:
    topic = unique()
    client.create_topic(topic, config={"max.message.bytes": "2000"})
    with pytest.raises(Refusal) as refused:
        client.produce(topic, [Outgoing(0, None, b"x" * 5000, BASE_MS)])
    assert refused.value.code == MESSAGE_TOO_LARGE
    client.produce(topic, [Outgoing(0, None, b"x" * 500, BASE_MS)])


def test_the_default_size_limit_is_kafkas(client: Client, unique: Callable[[], str]) -> None:
    topic = unique()
    client.create_topic(topic)
    with pytest.raises(Refusal) as refused:
        client.produce(topic, [Outgoing(0, None, b"x" * 1_100_000, BASE_MS)])
    assert refused.value.code == MESSAGE_TOO_LARGE
    client.produce(topic, [Outgoing(0, None, b"x" * 1_048_000, BASE_MS)])


def test_a_record_without_key_on_a_compacted_topic_is_refused(client: Client, unique: Callable[[], str]) -> None:
    topic = unique()
    client.create_topic(topic, config={"cleanup.policy": "compact"})
    with pytest.raises(Refusal) as refused:
        client.produce(topic, [Outgoing(0, None, b"no key", BASE_MS)])
    assert refused.value.code == client.invalid_record_code
    client.produce(topic, [Outgoing(0, b"key", b"value", BASE_MS)])


def test_offsets_by_timestamp_are_exact(client: Client, unique: Callable[[], str]) -> None:
    topic = unique()
    client.create_topic(topic)
    client.produce(topic, numbered(1000))
    assert client.offset_for_time(topic, 0, BASE_MS - 5) == 0
    assert client.offset_for_time(topic, 0, BASE_MS + 500_000) == 500
    assert client.offset_for_time(topic, 0, BASE_MS + 500_001) == 501
    assert client.offset_for_time(topic, 0, BASE_MS + 999_000) == 999
    offset = client.offset_for_time(topic, 0, BASE_MS + 123_400)
    assert offset == 124
    assert client.consume(topic, 0, offset, 1)[0].value == b"v124"


def test_no_offset_after_the_last_timestamp(client: Client, unique: Callable[[], str]) -> None:
    topic = unique()
    client.create_topic(topic)
    client.produce(topic, numbered(10))
    after = client.offset_for_time(topic, 0, BASE_MS + 10_000_000)
    # librdkafka turns "none" into the end of the partition; the protocol's answer is the same -1.
    assert after in (None, 10)


def test_records_are_deleted_up_to_an_offset(client: Client, unique: Callable[[], str]) -> None:
    topic = unique()
    client.create_topic(topic)
    client.produce(topic, numbered(100))
    assert client.delete_records(topic, 0, 40) == 40
    assert client.offset_range(topic, 0) == (40, 100)
    assert client.consume(topic, 0, 40, 60)[0].value == b"v40"
    assert client.delete_records(topic, 0, -1) == 100  # -1 means everything
    assert client.offset_range(topic, 0) == (100, 100)


def test_deleting_beyond_the_end_is_refused(client: Client, unique: Callable[[], str]) -> None:
    topic = unique()
    client.create_topic(topic)
    client.produce(topic, numbered(10))
    with pytest.raises((Refusal, Exception)) as refused:
        client.delete_records(topic, 0, 11)
    code = getattr(refused.value, "code", None) or getattr(refused.value, "errno", None)
    assert code == OFFSET_OUT_OF_RANGE
    assert client.offset_range(topic, 0) == (0, 10)


def test_topic_settings_can_be_altered(client: Client, unique: Callable[[], str]) -> None:
    topic = unique()
    client.create_topic(topic, config={"retention.ms": "3600000"})
    before = client.topic_config(topic)
    assert before["retention.ms"] == "3600000"
    assert before["cleanup.policy"] == "delete"
    assert before["max.message.bytes"] == "1048588"
    client.alter_topic_config(topic, "retention.ms", "7200000")
    assert eventually(lambda: client.topic_config(topic)["retention.ms"] == "7200000")


def test_a_nonsense_setting_is_refused(client: Client, unique: Callable[[], str]) -> None:
    topic = unique()
    client.create_topic(topic)
    with pytest.raises(Refusal) as refused:
        client.alter_topic_config(topic, "retention.ms", "soon")
    assert refused.value.code == INVALID_CONFIG
    with pytest.raises(Refusal) as refused:
        client.create_topic(unique(), config={"no.such.key": "1"})
    assert refused.value.code == INVALID_CONFIG


def test_a_setting_takes_effect_at_once(client: Client, unique: Callable[[], str]) -> None:
    topic = unique()
    client.create_topic(topic)
    client.produce(topic, [Outgoing(0, None, b"x" * 50_000, BASE_MS)])
    client.alter_topic_config(topic, "max.message.bytes", "1000")

    def refused() -> bool:
        try:
            client.produce(topic, [Outgoing(0, None, b"x" * 50_000, BASE_MS)])
        except Refusal as refusal:
            return refusal.code == MESSAGE_TOO_LARGE
        return False

    assert eventually(refused)


def test_log_append_time_is_the_brokers_clock(client: Client, unique: Callable[[], str]) -> None:
    topic = unique()
    client.create_topic(topic, config={"message.timestamp.type": "LogAppendTime"})
    before_ms = int(time.time() * 1000)
    client.produce(topic, numbered(5))
    after_ms = int(time.time() * 1000)
    found = client.consume(topic, 0, 0, 5)
    assert all(before_ms <= record.timestamp_ms <= after_ms for record in found)
