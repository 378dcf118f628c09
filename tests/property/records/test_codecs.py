"""Codecs: everything round trips; anything else is refused within its limit."""

from __future__ import annotations

import contextlib

import cramjam
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.model.failures import CorruptBatch
from moldau.records import compression
from moldau.records.compression import compress, decompress

from .strategies import damages

real_codecs = st.integers(1, 4)
contents = st.one_of(
    st.binary(max_size=300),
    st.tuples(st.binary(min_size=1, max_size=20), st.integers(1, 20_000)).map(lambda pair: pair[0] * pair[1]),
)
BARE = {
    3: (compression._inflate_lz4_cramjam, compression._deflate_lz4_cramjam),
    4: (compression._inflate_zstd_cramjam, compression._deflate_zstd_cramjam),
}


@settings(max_examples=150, deadline=None)
@given(real_codecs, contents)
def test_contents_round_trip(codec: int, data: bytes) -> None:
    assert decompress(codec, compress(codec, data)) == data


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([3, 4]), contents)
def test_a_bare_install_and_a_fast_one_read_each_other(codec: int, data: bytes) -> None:
    inflate, deflate = BARE[codec]
    assert inflate(compress(codec, data), 1 << 30) == data
    assert decompress(codec, deflate(data, None)) == data


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_data_is_refused_or_stays_within_the_limit(data: st.DataObject) -> None:
    codec = data.draw(real_codecs)
    damaged = data.draw(damages(compress(codec, data.draw(contents))))
    limit = data.draw(st.integers(0, 5000))
    with contextlib.suppress(CorruptBatch):
        assert len(decompress(codec, damaged, bytes_max=limit)) <= limit
    if codec in BARE:
        # `decompress` would turn these into CorruptBatch; anything else is our own mistake and fails the test.
        with contextlib.suppress(CorruptBatch, cramjam.DecompressionError):
            assert len(BARE[codec][0](damaged, limit)) <= limit
