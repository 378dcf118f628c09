"""Ways to spoil a frame or a record batch."""

from __future__ import annotations

import random
import struct
import time
import zlib

import cramjam
from fastcrc import crc32

EXTREMES = tuple(
    struct.pack(">i", value) for value in (-1, -2, 0, 1, 127, 128, 2**16, 2**24, 2**31 - 1, -(2**31), 100 * 2**20)
)
VARINTS = (
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\xff" * 10,
    b"\x80" * 9 + b"\x01",
)


def flip_bits(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def put_extreme(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    data[at : at + 4] = rng.choice(EXTREMES)


def put_varint(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    data[at : at + 1] = rng.choice(VARINTS)


def cut(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data)) :]


def insert_noise(data: bytearray, rng: random.Random) -> None:
    at = rng.randrange(len(data))
    data[at:at] = rng.randbytes(rng.choice((1, 4, 16, 200)))


def repeat_slice(data: bytearray, rng: random.Random) -> None:
    a = rng.randrange(len(data))
    data[a:a] = data[a : a + rng.randrange(64)] * rng.choice((2, 8, 64))


MUTATORS = (flip_bits, put_extreme, put_varint, cut, insert_noise, repeat_slice)
# The first eight bytes of a header choose the API; most mutations should happen behind them.
HEADER_BYTES = 8


def spoil_frame(frame: bytes, rng: random.Random) -> bytes:
    """A mutated frame with its size in front; now and then the size lies, too."""
    body = bytearray(frame if rng.random() < 0.1 else frame[HEADER_BYTES:])
    head = b"" if len(body) == len(frame) else frame[:HEADER_BYTES]
    if body:
        rng.choice(MUTATORS)(body, rng)
    data = head + bytes(body)
    size = len(data)
    if rng.random() < 0.01:
        size = rng.choice((0, -1, size + 5, size - 3, 2**31 - 1, 101 * 2**20, 1195725856))
    return struct.pack(">i", size) + data


def zigzag(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def valid_batch(rng: random.Random) -> tuple[int, bytes]:
    """Codec and plain records of a small batch."""
    records = b""
    for delta in range(count := rng.choice((1, 1, 3, 20))):
        value = rng.randbytes(rng.choice((0, 10, 100)))
        body = b"\0" + zigzag(delta) + zigzag(delta) + zigzag(-1) + zigzag(len(value)) + value + zigzag(0)
        records += zigzag(len(body)) + body
    return count, records


def spoil_batch(rng: random.Random) -> bytes:
    """A batch with a mistake somewhere: in the records, in their compressed form, or in the header.

    The checksum is put right most of the time, so that the mistake is met by the code behind the checksum.
    """
    count, records = valid_batch(rng)
    codec = rng.randrange(5)
    where = rng.random()
    plain = bytearray(records)
    if where < 0.4:
        rng.choice(MUTATORS)(plain, rng)
    packed = bytearray(compress(codec, bytes(plain), rng))
    if 0.4 <= where < 0.7 and packed:
        rng.choice(MUTATORS)(packed, rng)
    now_ms = int(time.time() * 1000)
    head = bytearray(struct.pack(">hiqqqhii", codec, count - 1, now_ms, now_ms, -1, -1, -1, count))
    if where >= 0.7:
        flip_bits(head, rng)
    tail = bytes(head) + bytes(packed)
    checksum = crc32.iscsi(tail) if rng.random() < 0.9 else rng.getrandbits(32)
    size = len(tail) + 9 if rng.random() < 0.95 else rng.choice((0, -1, 48, 2**31 - 1, len(tail) + 10))
    return struct.pack(">qiibI", rng.choice((0, 0, 5, -1)), size, 0, rng.choice((2, 2, 2, 2, 1, 3)), checksum) + tail


def compress(codec: int, data: bytes, rng: random.Random) -> bytes:
    """One of Kafka's codecs; now and then a bomb: a megabyte of zeros in a few bytes."""
    if rng.random() < 0.02:
        data = bytes(2**20)
    if codec == 1:
        packer = zlib.compressobj(wbits=31)
        return packer.compress(data) + packer.flush()
    if codec == 2:
        return bytes(cramjam.snappy.compress_raw(data))
    if codec == 3:
        return bytes(cramjam.lz4.compress(data, level=1))
    if codec == 4:
        return bytes(cramjam.zstd.compress(data))
    return data


def produce_frame(batch: bytes, version: int, topic: bytes = b"fuzz") -> bytes:
    """Produce, version 3 to 8 or 9 to 12, framed."""
    header = struct.pack(">hhih", 0, version, 7, 6) + b"fuzzer"
    if version < 9:
        body = struct.pack(">hhi", -1, 1, 1000) + struct.pack(">ih", 1, len(topic)) + topic
        body += struct.pack(">iii", 1, 0, len(batch)) + batch
    else:
        header += b"\0"
        body = b"\0" + struct.pack(">hi", 1, 1000) + b"\x02" + bytes([len(topic) + 1]) + topic
        body += b"\x02" + struct.pack(">i", 0) + _uvarint(len(batch) + 1) + batch + b"\0\0\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
