"""Codecs: both ways, both library sets, and every way to be hostile."""

from __future__ import annotations

import hashlib
import random
import tracemalloc
from collections.abc import Callable

import cramjam
import pytest

from moldau.model.failures import CorruptBatch, UnsupportedCodec
from moldau.model.limits import DECOMPRESSED_BYTES_MAX, DECOMPRESSION_ALLOWANCE_BYTES, DECOMPRESSION_RATIO_MAX
from moldau.records import compression
from moldau.records.compression import GZIP, LZ4, SNAPPY, ZSTD, codec_named, compress, decompress, output_limit
from moldau.records.frame_bounds import LZ4_MAGIC, ZSTD_MAGIC, lz4_output_bound, zstd_output_bound

TEXT = b"".join(b"line %d of some text that repeats itself\n" % (index % 50) for index in range(20_000))
INPUTS = (b"", b"a", TEXT, bytes(range(256)) * 300)
MIB = 1 << 20

Inflate = Callable[[bytes, int], bytes]


def inflaters() -> list[tuple[int, Inflate]]:
    """Every implementation, also those that the installed libraries would not pick."""
    found: list[tuple[int, Inflate]] = [
        (GZIP, compression._inflate_gzip),
        (SNAPPY, compression._inflate_snappy),
        (LZ4, compression._inflate_lz4_cramjam),
        (ZSTD, compression._inflate_zstd_cramjam),
    ]
    if compression._lz4_frame is not None:
        found.append((LZ4, compression._inflate_lz4))
    if compression._zstd is not None:
        found.append((ZSTD, compression._inflate_zstd))
    return found


def deflaters() -> list[tuple[int, Callable[[bytes, int | None], bytes]]]:
    found: list[tuple[int, Callable[[bytes, int | None], bytes]]] = [
        (GZIP, compression._deflate_gzip),
        (SNAPPY, compression._deflate_snappy),
        (LZ4, compression._deflate_lz4_cramjam),
        (ZSTD, compression._deflate_zstd_cramjam),
    ]
    if compression._lz4_frame is not None:
        found.append((LZ4, compression._deflate_lz4))
    if compression._zstd is not None:
        found.append((ZSTD, compression._deflate_zstd))
    return found


every_inflater = pytest.mark.parametrize(("codec", "inflate"), inflaters())
every_codec = pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])


@every_inflater
@pytest.mark.parametrize("data", INPUTS, ids=len)
def test_every_inflater_reads_every_deflater(codec: int, inflate: Inflate, data: bytes) -> None:
    for other, deflate in deflaters():
        if other == codec:
            for level in (None, 1):
                assert inflate(deflate(data, level), 64 * MIB) == data


@every_inflater
def test_the_limit_is_exact(codec: int, inflate: Inflate) -> None:
    packed = compress(codec, TEXT)
    assert inflate(packed, len(TEXT)) == TEXT
    with pytest.raises(CorruptBatch, match="more than"):
        inflate(packed, len(TEXT) - 1)


def bomb(codec: int, inflated_bytes: int) -> bytes:
    """Nothing but zeros, made piecewise so that making it needs no memory either."""
    if codec == SNAPPY:
        return compress(codec, bytes(inflated_bytes))
    chunk = compress(codec, bytes(MIB))
    return chunk * (inflated_bytes // MIB)


@every_inflater
def test_a_bomb_is_refused_within_the_limit(codec: int, inflate: Inflate) -> None:
    limit = 8 * MIB
    packed = bomb(codec, 64 * MIB)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch):
            inflate(packed, limit)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * limit


@pytest.mark.parametrize("codec", [GZIP, ZSTD])
def test_a_single_frame_of_more_than_a_thousand_to_one_is_bounded(codec: int) -> None:
    packed = compress(codec, bytes(48 * MIB))
    assert len(packed) * 900 < 48 * MIB
    with pytest.raises(CorruptBatch, match="more than"):
        decompress(codec, packed, ratio_max=100)


def test_the_limit_follows_ratio_allowance_and_absolute_cap() -> None:
    assert output_limit(1, DECOMPRESSED_BYTES_MAX, DECOMPRESSION_RATIO_MAX) == DECOMPRESSION_ALLOWANCE_BYTES
    assert output_limit(10_000, 256 * MIB, 2048) == 10_000 * 2048
    assert output_limit(100 * MIB, 256 * MIB, 2048) == 256 * MIB
    assert output_limit(100 * MIB, 1000, 2048) == 1000


@every_inflater
def test_cut_data_is_refused_at_every_length(codec: int, inflate: Inflate) -> None:
    packed = compress(codec, b"some text, some text, some text, some other text" * 3)
    for size in range(len(packed)):
        try:
            result = inflate(packed[:size], MIB)
        except Exception:  # the public function turns every one of these into CorruptBatch
            continue
        # What is not refused must be the prefix a block format legitimately holds.
        assert codec == SNAPPY or size == 0, (size, result)


@every_codec
def test_cut_data_raises_our_own_error(codec: int) -> None:
    packed = compress(codec, TEXT)
    for size in (1, 5, len(packed) // 2, len(packed) - 1):
        with pytest.raises(CorruptBatch):
            decompress(codec, packed[:size])


@every_codec
def test_trailing_garbage_is_refused(codec: int) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, compress(codec, TEXT) + b"garbage behind the frame")


@every_inflater
def test_concatenated_frames_are_one_stream(codec: int, inflate: Inflate) -> None:
    twice = compress(codec, TEXT) + compress(codec, b"the end")
    assert inflate(twice, 64 * MIB) == TEXT + b"the end"
    with pytest.raises(CorruptBatch):
        inflate(twice, len(TEXT) + 3)


@every_codec
def test_nested_compression_is_opened_once(codec: int) -> None:
    inner = compress(codec, TEXT)
    assert decompress(codec, compress(codec, inner)) == inner


@every_codec
@pytest.mark.parametrize("data", [b"\x01", b"not compressed at all", bytes(100), b"\xff" * 64])
def test_garbage_is_refused(codec: int, data: bytes) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, data)


@every_codec
def test_any_buffer_is_accepted(codec: int) -> None:
    packed = compress(codec, memoryview(TEXT))
    assert decompress(codec, memoryview(bytearray(packed))) == TEXT
    assert decompress(codec, bytearray(packed)) == TEXT


def test_codec_zero_is_the_identity() -> None:
    assert compress(0, b"abc") == b"abc"
    assert decompress(0, b"abc") == b"abc"


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_unknown_codecs_are_unsupported(codec: int) -> None:
    with pytest.raises(UnsupportedCodec):
        decompress(codec, b"x")
    with pytest.raises(UnsupportedCodec):
        compress(codec, b"x")


def test_codec_names() -> None:
    assert [codec_named(name) for name in ("uncompressed", "gzip", "snappy", "lz4", "zstd")] == [0, 1, 2, 3, 4]
    with pytest.raises(KeyError):
        codec_named("producer")


# --- snappy -----------------------------------------------------------------------------------------------------------


def test_raw_snappy_is_read_too() -> None:
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT


@pytest.mark.parametrize("announced", [b"\xff\xff\xff\x7f", b"\x80\x80\x80\x40", b"\xff\xff\xff\xff\x0f"])
def test_raw_snappy_that_announces_too_much_is_not_believed(announced: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CorruptBatch):
            decompress(SNAPPY, announced + b"\x00a")
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [0, -1, 2**31 - 1])
def test_a_xerial_block_length_is_checked(size: int) -> None:
    head = compress(SNAPPY, b"")
    with pytest.raises(CorruptBatch):
        decompress(SNAPPY, head + size.to_bytes(4, "big", signed=True) + b"abc")


# --- frames without a library that streams ---------------------------------------------------------------------------


@pytest.mark.parametrize("data", INPUTS, ids=len)
def test_bounds_are_never_below_what_comes_out(data: bytes) -> None:
    for codec, deflate in deflaters():
        if codec == LZ4:
            assert lz4_output_bound(deflate(data, None)) >= len(data)
        if codec == ZSTD:
            assert zstd_output_bound(deflate(data, None)) >= len(data)


def test_bounds_skip_skippable_frames() -> None:
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    assert zstd_output_bound(skippable + compress(ZSTD, TEXT)) >= len(TEXT)
    assert lz4_output_bound(compress(LZ4, TEXT) + skippable) >= len(TEXT)
    assert decompress(ZSTD, compress(ZSTD, TEXT)) == TEXT


@pytest.mark.parametrize(
    "frame",
    [
        LZ4_MAGIC,
        LZ4_MAGIC + b"\x60\x40\x82",
        LZ4_MAGIC + b"\x60\x40\x82" + (1 << 20).to_bytes(4, "little"),
        LZ4_MAGIC + b"\x00\x40\x82" + bytes(4),
        LZ4_MAGIC + b"\x60\x10\x82" + bytes(4),
        LZ4_MAGIC + b"\x64\x40\x82" + bytes(4),
        b"\x50\x2a\x4d\x18\xff\xff\xff\xff",
    ],
)
def test_malformed_lz4_frames_have_no_bound(frame: bytes) -> None:
    with pytest.raises(CorruptBatch):
        lz4_output_bound(frame)


@pytest.mark.parametrize(
    "frame",
    [
        ZSTD_MAGIC,
        ZSTD_MAGIC + b"\x00\x00",
        ZSTD_MAGIC + b"\x00\x00" + b"\x07\x00\x00",
        ZSTD_MAGIC + b"\x00\x00" + b"\x09\x00\x00",
        ZSTD_MAGIC + b"\x04\x00" + b"\x01\x00\x00",
    ],
)
def test_malformed_zstd_frames_have_no_bound(frame: bytes) -> None:
    with pytest.raises(CorruptBatch):
        zstd_output_bound(frame)


def test_our_own_lz4_frame_has_independent_blocks_and_stores_what_does_not_shrink() -> None:
    framed = compression._deflate_lz4_cramjam(TEXT, None)
    assert framed[4] & 0x20
    noise = hashlib.shake_128(b"noise").digest(5000)
    assert compression._deflate_lz4_cramjam(noise, None)[7:11] == (len(noise) | 0x80000000).to_bytes(4, "little")


# --- large lz4 frames in one go -------------------------------------------------------------------------------------


def test_large_lz4_frames_are_read_whole_and_bounded() -> None:
    raw = random.Random(2).randbytes(50_000)
    packed = compress(LZ4, raw)
    skippable = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"12345"
    assert decompress(LZ4, packed, bytes_max=50_000) == raw
    assert decompress(LZ4, packed + skippable + packed) == raw + raw
    with pytest.raises(CorruptBatch, match="more than the 49999 bytes"):
        decompress(LZ4, packed, bytes_max=49_999)
    for damaged in (packed[:-4], packed + b"junk", packed[:10_000]):
        with pytest.raises(CorruptBatch):
            decompress(LZ4, damaged)
