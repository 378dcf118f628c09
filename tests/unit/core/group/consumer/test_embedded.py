from __future__ import annotations

import pytest

from moldau.core.group.consumer.embedded import (
    Malformed,
    read_assignment,
    read_subscription,
    read_version,
    write_assignment,
)
from moldau.wire.messages.consumer_protocol_assignment import (
    ConsumerProtocolAssignment,
    encode_consumer_protocol_assignment,
)
from moldau.wire.messages.consumer_protocol_assignment import TopicPartition as AssignedTopic
from moldau.wire.messages.consumer_protocol_subscription import (
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_consumer_protocol_subscription,
)
from moldau.wire.primitives import Writer


def subscription(version: int, *, said: int | None = None) -> bytes:
    writer = Writer()
    writer.i16(version if said is None else said)
    message = ConsumerProtocolSubscription(
        topics=["b", "a"],
        user_data=b"mine",
        owned_partitions=[TopicPartition(topic="a", partitions=[2, 0])],
        generation_id=7,
        rack_id="r1",
    )
    encode_consumer_protocol_subscription(message, writer, version)
    return writer.take_bytes()


@pytest.mark.parametrize("version", range(4))
def test_subscriptions_of_every_version_are_read(version: int) -> None:
    found = read_subscription(subscription(version))
    assert (found.version, found.topics) == (version, ("b", "a"))
    assert found.owned == ((("a", 2), ("a", 0)) if version >= 1 else ())
    assert found.rack_id == ("r1" if version >= 3 else None)


def test_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    data = subscription(3, said=9) + b"news"
    assert read_subscription(data).rack_id == "r1"
    assert read_version(data) == 3


@pytest.mark.parametrize("version", range(4))
def test_assignments_are_written_as_clients_write_them(version: int) -> None:
    writer = Writer()
    writer.i16(version)
    rows = [AssignedTopic(topic="a", partitions=[0, 2]), AssignedTopic(topic="b", partitions=[1])]
    encode_consumer_protocol_assignment(ConsumerProtocolAssignment(assigned_partitions=rows), writer, version)
    theirs = writer.take_bytes()
    parts = (("a", 0), ("a", 2), ("b", 1))
    assert write_assignment(reversed(parts), version) == theirs
    assert read_assignment(theirs) == parts


def test_no_bytes_are_no_partitions() -> None:
    assert read_assignment(b"") == ()


@pytest.mark.parametrize("version", range(4))
def test_torn_bytes_are_noticed(version: int) -> None:
    whole = subscription(version)
    for end in range(len(whole)):
        with pytest.raises(Malformed):
            read_subscription(whole[:end])


def test_an_absurd_count_is_not_believed() -> None:
    with pytest.raises(Malformed):
        read_subscription(b"\0\0\x7f\xff\xff\xff")
    with pytest.raises(Malformed):
        read_assignment(b"\xff\xff\0\0\0\0")
