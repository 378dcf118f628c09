"""Batches that the tests of this room and of core/log build on."""

from __future__ import annotations

from moldau.records.batch import BatchHeader, parse_header
from moldau.records.builder import BatchBuilder

CODECS = (0, 1, 2, 3, 4)


def plain_batch(count: int = 3, *, codec: int = 0, key: bool = True, value_bytes: int = 10, **options: int) -> bytes:
    """`count` records with timestamps 1000, 1001, ..."""
    builder = BatchBuilder(codec=codec, **options)  # type: ignore[arg-type]
    for index in range(count):
        builder.append(b"k%d" % index if key else None, b"v" * value_bytes, (), 1000 + index)
    return builder.build()


def header_of(batch: bytes) -> BatchHeader:
    return parse_header(batch, 0)
