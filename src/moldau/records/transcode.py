"""Changing the codec of a batch, for topics whose `compression.type` is not "producer"."""

from __future__ import annotations

from moldau.records.batch import CODEC_MASK, HEADER_BYTES, BatchHeader, seal
from moldau.records.compression import codec_named, compress, decompress

PRODUCER = "producer"
"""The `compression.type` that keeps whatever codec the producer chose."""


def target_codec(compression_type: str, header: BatchHeader) -> int:
    """The codec a batch gets in a topic of this `compression.type`. Control batches stay as they are."""
    if compression_type == PRODUCER or header.is_control:
        return header.codec
    return codec_named(compression_type)


def recompress(records: bytes | memoryview, header: BatchHeader, codec: int, level: int | None = None) -> bytes:
    """The same batch with another codec. `header` is brought up to date (size, attributes, checksum)."""
    body = decompress(header.codec, records[HEADER_BYTES : header.size_bytes])
    header.attributes = (header.attributes & ~CODEC_MASK) | codec
    return seal(header, compress(codec, body, level))
