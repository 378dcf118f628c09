"""Storing batches with the topic's `compression.type` instead of the producer's."""

from __future__ import annotations

from mypy_extensions import i64

from moldau.records.batch import CODEC_MASK, BatchHeader, seal
from moldau.records.compression import compress
from moldau.records.reader import batch_body


def recompress(records: bytes | memoryview, header: BatchHeader, codec: i64) -> bytes:
    """The same records under another codec. `header` is brought up to date (size, checksum, attributes)."""
    body = batch_body(bytes(records), 0, header)
    plain = body.data[body.start : body.end]
    header.attributes = (header.attributes & ~CODEC_MASK) | codec
    return seal(header, plain if codec == 0 else compress(int(codec), plain))
