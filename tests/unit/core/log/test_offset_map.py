"""The bounded key table of compaction."""

from __future__ import annotations

import hashlib

import pytest

from moldau.core.log import offset_map
from moldau.core.log.offset_map import SLOT_BYTES, OffsetMap


def test_the_newest_offset_wins() -> None:
    table = OffsetMap(100 * SLOT_BYTES)
    assert table.get(b"a") == -1
    assert table.put(b"a", 0)
    assert table.put(b"b", 1)
    assert table.put(b"a", 7)
    assert (table.get(b"a"), table.get(b"b"), table.get(b"c"), table.get(b"")) == (7, 1, -1, -1)
    assert (table.size, table.latest_offset) == (2, 7)


def test_memory_is_what_was_granted_and_not_more() -> None:
    table = OffsetMap(1000)
    assert table.slots == 1000 // SLOT_BYTES
    assert table.memory_bytes <= 1000


def test_a_known_number_of_keys_keeps_the_table_small() -> None:
    table = OffsetMap(128 << 20, keys_max=1000)
    assert table.memory_bytes < 50_000
    assert all(table.put(b"%d" % number, number) for number in range(1000))
    assert all(table.get(b"%d" % number) == number for number in range(1000))


def test_a_full_table_takes_no_more_and_forgets_nothing() -> None:
    table = OffsetMap(100 * SLOT_BYTES, load_factor=0.9)
    taken = [number for number in range(200) if table.put(b"%d" % number, number)]
    assert taken == list(range(90))
    assert table.is_full
    assert table.utilization == 0.9
    assert table.latest_offset == 89
    assert [table.get(b"%d" % number) for number in range(90)] == list(range(90))
    assert table.get(b"100") == -1


@pytest.mark.parametrize("slots", [2, 3])
def test_probing_ends_even_when_every_usable_slot_is_taken(slots: int) -> None:
    table = OffsetMap(slots * SLOT_BYTES, load_factor=1.0)
    for number in range(10):
        table.put(b"%d" % number, number)
    assert table.size == slots - 1
    assert table.get(b"absent") == -1


def test_clearing_keeps_the_memory_and_forgets_the_keys() -> None:
    table = OffsetMap(100 * SLOT_BYTES)
    table.put(b"a", 5)
    table.clear()
    assert (table.get(b"a"), table.size, table.latest_offset) == (-1, 0, -1)
    assert table.put(b"a", 6)


def test_the_digest_is_md5_from_either_module() -> None:
    assert offset_map._hashlib_md5(b"key").digest() == offset_map._md5(b"key").digest()
    assert offset_map._md5(b"key").digest() == hashlib.md5(b"key", usedforsecurity=False).digest()
