"""Frames are cut the same however the stream is sliced, and absurd sizes are refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.model.failures import WireError
from moldau.wire.frames import FrameSplitter


def framed(frames: list[bytes]) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


@given(st.lists(st.binary(max_size=50), max_size=8), st.lists(st.integers(1, 20), min_size=1, max_size=20))
@settings(max_examples=150, deadline=None)
def test_frames_come_back_whatever_the_slices(frames: list[bytes], sizes: list[int]) -> None:
    splitter, stream, found = FrameSplitter(), framed(frames), []
    position, turn = 0, 0
    while position < len(stream):
        size = sizes[turn % len(sizes)]
        found += splitter.feed(stream[position : position + size])
        position, turn = position + size, turn + 1
    assert found == frames
    assert splitter.buffered_bytes == 0


def test_an_unfinished_frame_waits() -> None:
    splitter = FrameSplitter()
    assert splitter.feed(b"\x00\x00\x00\x03ab") == []
    assert splitter.buffered_bytes == 6
    assert splitter.feed(b"c\x00") == [b"abc"]
    assert splitter.buffered_bytes == 1


@pytest.mark.parametrize("size", [b"\x00\x00\x00\x0b", b"\xff\xff\xff\xff", b"GET "])
def test_a_frame_beyond_the_cap_is_refused_before_it_arrives(size: bytes) -> None:
    with pytest.raises(WireError):
        FrameSplitter(frame_bytes_max=10).feed(size)
