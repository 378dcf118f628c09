"""Our codecs against the libraries that Kafka's Python clients use, and the stand-alone ones."""

from __future__ import annotations

import gzip
import importlib
import zlib
from collections.abc import Callable
from typing import Any

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.records.compression import GZIP, LZ4, SNAPPY, ZSTD, compress, decompress

NAMES = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
TEXT = b"".join(b"some line %d, and so on\n" % (index % 1000) for index in range(10_000))
CONTENTS = (b"", b"x", TEXT, bytes(200_000))

Code = Callable[[bytes], bytes]


def client_codecs() -> list[Any]:
    """(codec, encode, decode) of kafka-python and aiokafka."""
    found = []
    for module_name in ("kafka.codec", "aiokafka.codec"):
        module = pytest.importorskip(module_name)
        for codec, name in NAMES.items():
            if getattr(module, f"has_{name}")():
                pair = (codec, getattr(module, f"{name}_encode"), getattr(module, f"{name}_decode"))
                found.append(pytest.param(*pair, id=f"{module_name}-{name}"))
    return found


def library_codecs() -> list[Any]:
    """(codec, encode, decode) of the codecs' own libraries."""
    found = [
        pytest.param(GZIP, gzip.compress, gzip.decompress, id="gzip"),
        pytest.param(GZIP, lambda data: gzip.compress(data, 9), lambda data: zlib.decompress(data, 31), id="zlib"),
        pytest.param(LZ4, cramjam.lz4.compress, cramjam.lz4.decompress, id="cramjam-lz4"),
        pytest.param(ZSTD, cramjam.zstd.compress, cramjam.zstd.decompress, id="cramjam-zstd"),
    ]
    for codec, module_name in ((LZ4, "lz4.frame"), (ZSTD, "backports.zstd"), (ZSTD, "compression.zstd")):
        try:
            module: Any = importlib.import_module(module_name)
        except ImportError:
            continue
        found.append(pytest.param(codec, module.compress, module.decompress, id=module_name))
    return found


@pytest.mark.parametrize(("codec", "encode", "decode"), client_codecs() + library_codecs())
@pytest.mark.parametrize("data", CONTENTS, ids=len)
def test_each_reads_the_other(codec: int, encode: Code, decode: Code, data: bytes) -> None:
    assert decompress(codec, bytes(encode(data))) == data
    if data or codec != SNAPPY:  # an empty xerial stream has no block, which python readers do not expect
        assert bytes(decode(compress(codec, data))) == data


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_each_reads_the_other_whatever_the_content(data: st.DataObject) -> None:
    codec, encode, decode = data.draw(st.sampled_from([one.values for one in client_codecs()]))
    content = data.draw(st.binary(min_size=1, max_size=500))
    assert decompress(codec, bytes(encode(content))) == content
    assert bytes(decode(compress(codec, content))) == content


@pytest.mark.parametrize("options", [{"block_linked": True}, {"store_size": False}, {"content_checksum": True}])
@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
def test_lz4_frames_of_every_shape_are_read(options: dict[str, bool], block_size: int) -> None:
    lz4_frame = pytest.importorskip("lz4.frame")
    data = TEXT * 3
    framed = lz4_frame.compress(data, block_size=block_size, block_checksum=True, **options)
    assert decompress(LZ4, framed) == data
    from moldau.records.compression import _inflate_lz4_cramjam

    assert _inflate_lz4_cramjam(framed, 1 << 30) == data


def test_flushed_streams_without_content_size_are_read() -> None:
    """librdkafka and Java write frames block by block, so the size is not in the header."""
    zstd: Any = pytest.importorskip("backports.zstd")
    from moldau.records.compression import _inflate_zstd_cramjam

    stream = zstd.ZstdCompressor()
    framed = b""
    for start in range(0, len(TEXT), 1000):
        framed += stream.compress(TEXT[start : start + 1000], mode=zstd.ZstdCompressor.FLUSH_BLOCK)
    framed += stream.flush()
    assert decompress(ZSTD, framed) == TEXT
    assert _inflate_zstd_cramjam(framed, 1 << 30) == TEXT
