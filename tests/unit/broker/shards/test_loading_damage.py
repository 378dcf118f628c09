"""What a coordinator believes of its log."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moldau.broker.shards.loading import LoadFailed, _apply_slice, _Replayer
from moldau.records.builder import BatchBuilder


class Kept:
    """A core and a codec that keep what they are given."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []

    def decode(self, key: bytes, value: bytes | None) -> Any:
        return key, value

    def apply(self, record: Any, producer_id: int) -> None:
        self.records.append(record)


def batches() -> bytes:
    made = b""
    for offset in range(3):
        builder = BatchBuilder(base_offset=offset)
        builder.append(b"group", b"offset-%d" % offset, timestamp=0)
        made += builder.build()
    return made


def load(data: bytes, kept: Any) -> int:
    return asyncio.run(_apply_slice(data, 0, _Replayer(kept, kept), lambda: True))


def test_whole_batches_are_applied() -> None:
    kept = Kept()
    assert load(batches(), kept) == 3
    assert [value for _, value in kept.records] == [b"offset-0", b"offset-1", b"offset-2"]


def test_one_wrong_bit_is_not_believed() -> None:
    data = bytearray(batches())
    data[data.index(b"offset-1") + 7] ^= 1  # offset-0, as far as anybody could tell from the record
    kept = Kept()
    with pytest.raises(LoadFailed, match="offset 1: the checksum of the batch is wrong"):
        load(bytes(data), kept)
    assert [value for _, value in kept.records] == [b"offset-0"]
