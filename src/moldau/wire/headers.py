"""Request and response headers. Hot: every request passes here, before anybody knows who sent it."""

from __future__ import annotations

from typing import ClassVar, Final

from mypy_extensions import i16, i32

from moldau.wire.api_table import FLEXIBLE_FROM
from moldau.wire.message import Message
from moldau.wire.primitives import Reader, Writer

_API_VERSIONS_KEY: Final = 18


class RequestHeader(Message):
    """What stands before every request (header versions 1 and 2)."""

    FIELDS: ClassVar[tuple[str, ...]] = ("api_key", "api_version", "correlation_id", "client_id")
    __slots__ = FIELDS

    def __init__(
        self, *, api_key: i16 = 0, api_version: i16 = 0, correlation_id: i32 = 0, client_id: str | None = None
    ) -> None:
        self.api_key: i16 = api_key
        self.api_version: i16 = api_version
        self.correlation_id: i32 = correlation_id
        self.client_id: str | None = client_id


def is_flexible(api_key: int, api_version: int) -> bool:
    """Whether this version of the API uses compact types and tagged fields. False for a key nobody knows."""
    if api_key < 0 or api_key >= len(FLEXIBLE_FROM):
        return False
    return api_version >= FLEXIBLE_FROM[api_key]


def decode_request_header(reader: Reader) -> RequestHeader:
    """Read a header of version 1 or 2, whichever the API's version calls for.

    An unknown key is read as version 1: enough to know what was asked and to say no. An unknown version of a known key
    follows the same rule as the known ones, so that ApiVersions of the future can be answered (KIP-511).
    """
    header = RequestHeader()
    header.api_key = reader.i16()
    header.api_version = reader.i16()
    header.correlation_id = reader.i32()
    header.client_id = reader.nullable_string()  # never compact, also in version 2 (KIP-482)
    if is_flexible(header.api_key, header.api_version):
        reader.skip_tagged_fields()
    return header


def encode_request_header(header: RequestHeader, writer: Writer) -> None:
    writer.i16(header.api_key)
    writer.i16(header.api_version)
    writer.i32(header.correlation_id)
    writer.nullable_string(header.client_id)
    if is_flexible(header.api_key, header.api_version):
        writer.no_tagged_fields()


def response_header_is_flexible(api_key: int, api_version: int) -> bool:
    """ApiVersions answers always with header version 0: the client cannot know yet what the broker speaks (KIP-511)."""
    return api_key != _API_VERSIONS_KEY and is_flexible(api_key, api_version)


def encode_response_header(writer: Writer, api_key: int, api_version: int, correlation_id: i32) -> None:
    writer.i32(correlation_id)
    if response_header_is_flexible(api_key, api_version):
        writer.no_tagged_fields()


def decode_response_header(reader: Reader, api_key: int, api_version: int) -> i32:
    """Read a response header and return the correlation id."""
    correlation_id = reader.i32()
    if response_header_is_flexible(api_key, api_version):
        reader.skip_tagged_fields()
    return correlation_id
