"""What generated classes promise: defaults, comparison, no stray attributes, nulls where they are allowed."""

from __future__ import annotations

import pytest

from moldau.model.failures import WireError
from moldau.wire.message import field_names
from moldau.wire.messages import fetch, metadata, produce
from moldau.wire.primitives import Reader, Writer


def test_defaults_are_kafkas() -> None:
    request = fetch.FetchRequest()
    assert (request.replica_id, request.session_epoch, request.max_bytes) == (-1, -1, 2**31 - 1)
    assert request.topics == []
    assert produce.PartitionProduceResponse().log_append_time_ms == -1


def test_lists_are_not_shared() -> None:
    first, second = fetch.FetchRequest(), fetch.FetchRequest()
    first.topics.append(fetch.FetchTopic())
    assert second.topics == []


def test_null_is_not_empty() -> None:
    assert metadata.MetadataRequest(topics=None) != metadata.MetadataRequest(topics=[])
    assert metadata.MetadataRequest().topics == []


def test_messages_compare_by_value_and_say_what_they_hold() -> None:
    message = produce.PartitionProduceData(index=3, records=b"x")
    assert message == produce.PartitionProduceData(index=3, records=b"x")
    assert message != produce.PartitionProduceData(index=4, records=b"x")
    assert message != produce.TopicProduceData()
    assert repr(message) == "PartitionProduceData(index=3, records=b'x')"
    assert field_names(message) == ("index", "records")
    with pytest.raises(TypeError):
        hash(message)


def test_a_misspelt_field_is_an_error() -> None:
    with pytest.raises(AttributeError):
        produce.PartitionProduceData().recordz = b""  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        produce.PartitionProduceData(recordz=b"")  # type: ignore[call-arg]


def test_null_is_refused_in_versions_without_it() -> None:
    everything = metadata.MetadataRequest(topics=None)
    for version in range(1, 14):
        writer = Writer()
        metadata.encode_metadata_request(everything, writer, version)
        assert metadata.decode_metadata_request(Reader(writer.take_bytes()), version).topics is None
    with pytest.raises(WireError):
        metadata.encode_metadata_request(everything, Writer(), 0)
    with pytest.raises(WireError):
        metadata.decode_metadata_request(Reader(b"\xff\xff\xff\xff"), 0)
    nameless = metadata.MetadataResponse(topics=[metadata.MetadataResponseTopic(name=None)])
    metadata.encode_metadata_response(nameless, Writer(), 12)
    with pytest.raises(WireError):
        metadata.encode_metadata_response(nameless, Writer(), 11)


def test_an_absent_tagged_struct_is_none_and_a_default_one_is_not_sent() -> None:
    absent = fetch.FetchRequest()
    default = fetch.FetchRequest(replica_state=fetch.ReplicaState())
    sent = [Writer(), Writer()]
    fetch.encode_fetch_request(absent, sent[0], 15)
    fetch.encode_fetch_request(default, sent[1], 15)
    data = sent[0].take_bytes()
    assert data == sent[1].take_bytes()
    assert fetch.decode_fetch_request(Reader(data), 15).replica_state is None


def test_fetch_records_travel_as_views() -> None:
    large = memoryview(bytearray(100_000))
    partition = fetch.PartitionData(records=[b"head", large])
    response = fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(topic="t", partitions=[partition])])
    writer = Writer()
    fetch.encode_fetch_response(response, writer, 12)
    pieces = writer.take()
    assert any(piece is large for piece in pieces)
    read = fetch.decode_fetch_response(Reader(b"".join(pieces)), 12)
    assert read.responses[0].partitions[0].records == b"head" + bytes(large)
