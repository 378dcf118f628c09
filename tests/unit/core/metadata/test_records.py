from __future__ import annotations

import json

import pytest

from moldau.core.metadata import records as r

EXAMPLES: list[r.Record] = [
    r.ClusterNamed("abc"),
    r.FeatureFinalised("metadata.version", 30),
    r.BrokerRegistered(
        1, 7, b"i" * 16, "rack-a", (r.Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT"),), (b"d" * 16,), True
    ),
    r.BrokerUnregistered(1, 7),
    r.TopicCreated(b"t" * 16, "orders"),
    r.PartitionAdded(b"t" * 16, 0, (1, 2), (1,), 1, 0, 0, (b"d" * 16, b"e" * 16), adding=(3,)),
    r.PartitionChanged(b"t" * 16, 0, leader=-1, new_leader_epoch=True, isr=(), directories=(b"d" * 16,)),
    r.TopicRemoved(b"t" * 16),
    r.TopicBuried(b"t" * 16),
    r.ConfigChanged(2, "orders", "retention.ms", None),
    r.ProducerIdsAllocated(1, 7, 2000),
]


@pytest.mark.parametrize("record", EXAMPLES, ids=lambda record: type(record).__name__)
def test_a_record_reads_back_as_what_was_written(record: r.Record) -> None:
    again = r.decode_record(r.encode_record(record))
    assert again == record
    assert type(again) is type(record)


def test_every_kind_of_record_has_an_example() -> None:
    assert {type(record).__name__ for record in EXAMPLES} == set(r._SHAPES)


def test_the_encoding_is_the_one_that_lies_on_disks() -> None:
    assert r.encode_record(r.TopicCreated(bytes(range(16)), "orders")) == (
        b'["TopicCreated",0,{"topic_id":"000102030405060708090a0b0c0d0e0f","name":"orders"}]'
    )


def test_a_field_that_is_not_known_yet_is_passed_over() -> None:
    data = json.dumps(["ClusterNamed", 0, {"cluster_id": "abc", "colour": "blue"}]).encode()
    assert r.decode_record(data) == r.ClusterNamed("abc")


def test_a_record_from_before_a_field_existed_reads_with_its_default() -> None:
    old = json.loads(r.encode_record(EXAMPLES[2]))
    del old[2]["fenced"]
    again = r.decode_record(json.dumps(old).encode())
    assert isinstance(again, r.BrokerRegistered)
    assert again.fenced is False


@pytest.mark.parametrize(
    "data",
    [b'["TopicDreamt",0,{}]', b'["ClusterNamed",9,{"cluster_id":"x"}]', b'["ClusterNamed",0,{}]', b"\xff", b"[]", b"7"],
)
def test_what_cannot_be_read_stops_the_reader(data: bytes) -> None:
    with pytest.raises(r.UnreadableRecord):
        r.decode_record(data)
