"""Request and response headers, and the rules that decide their version."""

from __future__ import annotations

import io

import pytest
from kafka.protocol.api_header import RequestHeader as KafkaPythonHeader

from moldau.model.failures import WireError
from moldau.wire.apis import API_SPECS, ApiKey
from moldau.wire.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)
from moldau.wire.primitives import Reader, Writer

EVERY_VERSION = [(spec.key, version) for spec in API_SPECS.values() for version in range(spec.max_version + 2)]


def encoded(header: RequestHeader) -> bytes:
    writer = Writer()
    encode_request_header(header, writer)
    return writer.take_bytes()


def test_request_headers_come_back_for_every_version() -> None:
    for key, version in EVERY_VERSION:
        header = RequestHeader(api_key=key, api_version=version, correlation_id=-5, client_id="grün")
        reader = Reader(encoded(header))
        assert decode_request_header(reader) == header
        reader.finish()


def test_kafka_python_reads_the_headers() -> None:
    for key, version in EVERY_VERSION:
        header = RequestHeader(api_key=key, api_version=version, correlation_id=77, client_id="me")
        theirs = KafkaPythonHeader.decode(io.BytesIO(encoded(header)), flexible=API_SPECS[key].is_flexible(version))
        assert (theirs.request_api_key, theirs.request_api_version) == (key, version)
        assert (theirs.correlation_id, theirs.client_id) == (77, "me")


def test_the_client_id_is_never_compact_and_may_be_null() -> None:
    flexible = RequestHeader(api_key=ApiKey.PRODUCE, api_version=9, correlation_id=1, client_id="ab")
    assert encoded(flexible) == b"\x00\x00\x00\x09\x00\x00\x00\x01\x00\x02ab\x00"
    assert encoded(RequestHeader(api_key=ApiKey.PRODUCE, api_version=8, correlation_id=1)).endswith(b"\xff\xff")


def test_an_unknown_key_is_read_without_tagged_fields() -> None:
    reader = Reader(b"\x27\x10\x00\x63\x00\x00\x00\x01\xff\xff\x07")
    header = decode_request_header(reader)
    assert (header.api_key, header.api_version, header.correlation_id) == (10000, 99, 1)
    assert reader.remaining == 1
    negative = Reader(b"\xff\xff\x00\x09\x00\x00\x00\x01\xff\xff")
    assert decode_request_header(negative).api_key == -1


def test_api_versions_of_the_future_has_a_flexible_request_header() -> None:
    reader = Reader(b"\x00\x12\x00\x63\x00\x00\x00\x01\xff\xff\x01\x00\x02hi!")
    assert decode_request_header(reader).api_version == 99
    assert reader.i8() == ord("!")


def test_a_million_tagged_fields_before_authentication_are_refused_at_once() -> None:
    """CVE-2026-111115: two bytes each, parsed before anybody is authenticated."""
    start = b"\x00\x12\x00\x03\x00\x00\x00\x01\xff\xff"
    reader = Reader(start + b"\xc0\x84\x3d" + bytes(2_000_000))
    with pytest.raises(WireError):
        decode_request_header(reader)
    assert reader.position == len(start) + 3


def test_response_headers_follow_the_version_except_for_api_versions() -> None:
    for key, version in EVERY_VERSION:
        writer = Writer()
        encode_response_header(writer, key, version, 12)
        data = writer.take_bytes()
        tagged = key != ApiKey.API_VERSIONS and API_SPECS[key].is_flexible(version)
        assert data == b"\x00\x00\x00\x0c" + (b"\x00" if tagged else b"")
        assert len(data) - 4 == API_SPECS[key].response_header_version(version)
        reader = Reader(data)
        assert decode_response_header(reader, key, version) == 12
        reader.finish()
