"""Encode the requests that the load generator replays.

Written apart from `moldau.wire` on purpose: a benchmark that shares the codec of the program it measures could hide a
mistake in it. Versions are fixed (Produce 12, Fetch 12, Metadata 12, OffsetCommit 8) and name topics by name, so that
the same bytes go to every peer.
"""

from __future__ import annotations

import gzip
import random
import struct
import time
from collections.abc import Callable
from typing import Final

import cramjam
from fastcrc import crc32

CLIENT_ID: Final = b"moldau-bench"
PRODUCE_VERSION: Final = 12
FETCH_VERSION: Final = 12
METADATA_VERSION: Final = 12
OFFSET_COMMIT_VERSION: Final = 8
NO_PRODUCER: Final = -1


PACK: Final[dict[str, Callable[[bytes], bytes]]] = {
    "none": bytes,
    "gzip": lambda data: gzip.compress(data, 6),
    "snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)),
    "lz4": lambda data: bytes(cramjam.lz4.compress(data)),
    "zstd": lambda data: bytes(cramjam.zstd.compress(data, level=3)),
}
"""By name, in the order of their ids."""


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    return uvarint((value << 1) ^ (value >> 63))


def compact_string(text: str) -> bytes:
    data = text.encode()
    return uvarint(len(data) + 1) + data


def record(offset_delta: int, value: bytes) -> bytes:
    body = b"\0" + varint(0) + varint(offset_delta) + varint(-1) + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def batch(values: list[bytes], timestamp_ms: int, codec: str = "none") -> bytes:
    """A v2 batch without a producer id."""
    records = PACK[codec](b"".join(record(delta, value) for delta, value in enumerate(values)))
    attributes, last = list(PACK).index(codec), len(values) - 1
    tail = struct.pack(">hiqqqhii", attributes, last, timestamp_ms, timestamp_ms, NO_PRODUCER, -1, -1, len(values))
    tail += records
    return struct.pack(">qiibI", 0, len(tail) + 9, -1, 2, crc32.iscsi(tail)) + tail


def batch_of_size(size_bytes: int, value_bytes: int) -> tuple[bytes, int]:
    """A batch of at most `size_bytes`, made of values of `value_bytes`; also how many records it holds."""
    count = (size_bytes - 61) // len(record(size_bytes // value_bytes, bytes(value_bytes)))
    value = bytes(i * 31 % 251 for i in range(value_bytes))
    return batch([value] * count, int(time.time() * 1000)), count


def packed_batch(inflated_bytes: int, value_bytes: int, codec: str) -> bytes:
    """A compressed batch of so many bytes when inflated; a quarter of each value does not compress."""
    chance = random.Random(inflated_bytes)
    values = [
        chance.randbytes(value_bytes // 4) + bytes(i % 7 for i in range(value_bytes - value_bytes // 4))
        for _ in range(inflated_bytes // (value_bytes + 10))
    ]
    return batch(values, int(time.time() * 1000), codec)


def framed(api_key: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", api_key, version, 0, len(CLIENT_ID)) + CLIENT_ID + b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


def produce(topic: str, partition: int, records: bytes, *, acks: int = 1) -> bytes:
    body = b"\0" + struct.pack(">hi", acks, 30_000)
    body += uvarint(2) + compact_string(topic)
    body += uvarint(2) + struct.pack(">i", partition) + uvarint(len(records) + 1) + records
    return framed(0, PRODUCE_VERSION, body + b"\0\0\0")


def fetch(topic: str, partition: int, *, size_bytes_max: int) -> tuple[bytes, int]:
    """A sessionless fetch, and where in the frame the fetch offset stands."""
    body = struct.pack(">iiiibii", -1, 500, 1, size_bytes_max, 0, 0, -1)
    body += uvarint(2) + compact_string(topic) + uvarint(2) + struct.pack(">ii", partition, -1)
    offset_at = len(body)
    body += struct.pack(">qiqi", 0, -1, -1, size_bytes_max) + b"\0\0"
    body += uvarint(1) + compact_string("") + b"\0"
    frame = framed(1, FETCH_VERSION, body)
    return frame, len(frame) - len(body) + offset_at


def metadata(topic: str | None) -> bytes:
    """Metadata for one topic, or for no topic at all (just the brokers)."""
    if topic is None:
        topics = uvarint(1)
    else:
        topics = uvarint(2) + bytes(16) + compact_string(topic) + b"\0"
    return framed(3, METADATA_VERSION, topics + b"\0\0\0")


def offset_commit(group: str, topic: str, partition: int, offset: int) -> bytes:
    """One offset of a consumer that assigned itself, so without a generation."""
    body = compact_string(group) + struct.pack(">i", -1) + compact_string("") + b"\0"
    body += uvarint(2) + compact_string(topic)
    body += uvarint(2) + struct.pack(">iqi", partition, offset, -1) + compact_string("") + b"\0"
    return framed(8, OFFSET_COMMIT_VERSION, body + b"\0\0")
