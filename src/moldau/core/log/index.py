"""Arithmetic of Kafka's index files, on their packed big-endian bytes. Compiled.

`.index`      8-byte entries: offset relative to the segment's base i32, position in the `.log` file i32
`.timeindex` 12-byte entries: largest timestamp so far i64, relative offset of the batch that holds it i32
`.txnindex`  34-byte entries: version i16, producer id i64, first offset i64, last offset i64, last stable offset i64

Searches answer entry numbers (slots): the last entry not beyond the target, or -1. Files may end in zero padding when
a broker preallocated them; callers hand in only the used part (see `used_entries`).
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be, write_i16_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12
TXN_ENTRY_BYTES: Final = 34
TXN_ENTRY_VERSION: Final = 0
RELATIVE_MAX: Final = 2**31 - 1


def fits_relative(base_offset: i64, offset: i64) -> bool:
    """Whether `offset` can be stored relative to `base_offset`; if not, the segment must roll."""
    relative: i64 = offset - base_offset
    return 0 <= relative <= RELATIVE_MAX


# --- offset index ---------------------------------------------------------------------------------------------------


def encode_offset_entry(relative_offset: i64, position: i64) -> bytes:
    writer = BytesWriter()
    write_offset_entry(writer, relative_offset, position)
    return writer.getvalue()


def write_offset_entry(writer: BytesWriter, relative_offset: i64, position: i64) -> None:
    write_i32_be(writer, i32(relative_offset))
    write_i32_be(writer, i32(position))


def offset_at(entries: bytes, slot: i64) -> i64:
    """Relative offset of an entry."""
    return i64(read_i32_be(entries, slot * OFFSET_ENTRY_BYTES))


def position_at(entries: bytes, slot: i64) -> i64:
    """File position of an entry."""
    return i64(read_i32_be(entries, slot * OFFSET_ENTRY_BYTES + 4))


def find_offset(entries: bytes, relative_offset: i64) -> i64:
    """Slot of the last entry whose relative offset is <= the target, or -1."""
    low: i64 = 0
    high: i64 = i64(len(entries)) // OFFSET_ENTRY_BYTES
    while low < high:
        middle: i64 = (low + high) >> 1
        if i64(read_i32_be(entries, middle * OFFSET_ENTRY_BYTES)) <= relative_offset:
            low = middle + 1
        else:
            high = middle
    return low - 1


def find_position(entries: bytes, relative_offset: i64) -> i64:
    """Where in the `.log` file to start looking for an offset: at most its batch's position, 0 when unknown."""
    slot: i64 = find_offset(entries, relative_offset)
    if slot < 0:
        return 0
    return position_at(entries, slot)


def find_slot_of_position(entries: bytes, position: i64) -> i64:
    """Slot of the last entry whose file position is <= the target, or -1."""
    low: i64 = 0
    high: i64 = i64(len(entries)) // OFFSET_ENTRY_BYTES
    while low < high:
        middle: i64 = (low + high) >> 1
        if i64(read_i32_be(entries, middle * OFFSET_ENTRY_BYTES + 4)) <= position:
            low = middle + 1
        else:
            high = middle
    return low - 1


def offset_index_problem(entries: bytes, log_size_bytes: i64) -> str | None:
    """What makes an offset index unusable (it is then rebuilt), or None."""
    if len(entries) % OFFSET_ENTRY_BYTES != 0:
        return f"{len(entries)} bytes are not a whole number of {OFFSET_ENTRY_BYTES}-byte entries"
    count: i64 = i64(len(entries)) // OFFSET_ENTRY_BYTES
    last_offset: i64 = -1
    last_position: i64 = -1
    slot: i64 = 0
    while slot < count:
        offset: i64 = offset_at(entries, slot)
        position: i64 = position_at(entries, slot)
        if offset <= last_offset or position <= last_position:
            return f"entry {slot} ({offset}, {position}) does not follow ({last_offset}, {last_position})"
        last_offset = offset
        last_position = position
        slot += 1
    if last_position >= log_size_bytes:
        return f"last entry points to {last_position}, beyond the log's {log_size_bytes} bytes"
    return None


# --- time index -----------------------------------------------------------------------------------------------------


def encode_time_entry(timestamp: i64, relative_offset: i64) -> bytes:
    writer = BytesWriter()
    write_time_entry(writer, timestamp, relative_offset)
    return writer.getvalue()


def write_time_entry(writer: BytesWriter, timestamp: i64, relative_offset: i64) -> None:
    write_i64_be(writer, timestamp)
    write_i32_be(writer, i32(relative_offset))


def timestamp_at(entries: bytes, slot: i64) -> i64:
    return read_i64_be(entries, slot * TIME_ENTRY_BYTES)


def time_offset_at(entries: bytes, slot: i64) -> i64:
    """Relative offset of a time index entry."""
    return i64(read_i32_be(entries, slot * TIME_ENTRY_BYTES + 8))


def find_timestamp(entries: bytes, timestamp: i64) -> i64:
    """Slot of the last entry whose timestamp is <= the target, or -1."""
    low: i64 = 0
    high: i64 = i64(len(entries)) // TIME_ENTRY_BYTES
    while low < high:
        middle: i64 = (low + high) >> 1
        if read_i64_be(entries, middle * TIME_ENTRY_BYTES) <= timestamp:
            low = middle + 1
        else:
            high = middle
    return low - 1


def find_time_offset(entries: bytes, relative_offset: i64) -> i64:
    """Slot of the last time entry whose relative offset is <= the target, or -1 (for truncation)."""
    low: i64 = 0
    high: i64 = i64(len(entries)) // TIME_ENTRY_BYTES
    while low < high:
        middle: i64 = (low + high) >> 1
        if i64(read_i32_be(entries, middle * TIME_ENTRY_BYTES + 8)) <= relative_offset:
            low = middle + 1
        else:
            high = middle
    return low - 1


def time_index_problem(entries: bytes, next_relative_offset: i64) -> str | None:
    """What makes a time index unusable (it is then rebuilt), or None."""
    if len(entries) % TIME_ENTRY_BYTES != 0:
        return f"{len(entries)} bytes are not a whole number of {TIME_ENTRY_BYTES}-byte entries"
    count: i64 = i64(len(entries)) // TIME_ENTRY_BYTES
    if count == 0:
        return None
    last_timestamp: i64 = timestamp_at(entries, 0)
    last_offset: i64 = time_offset_at(entries, 0)
    if last_offset < 0:
        return f"entry 0 has the negative offset {last_offset}"
    slot: i64 = 1
    while slot < count:
        timestamp: i64 = timestamp_at(entries, slot)
        offset: i64 = time_offset_at(entries, slot)
        if timestamp <= last_timestamp or offset < last_offset:
            return f"entry {slot} ({timestamp}, {offset}) does not follow ({last_timestamp}, {last_offset})"
        last_timestamp = timestamp
        last_offset = offset
        slot += 1
    if last_offset >= next_relative_offset:
        return f"last entry names offset {last_offset}, beyond the log's {next_relative_offset}"
    return None


def used_offset_entries(entries: bytes) -> bytes:
    """Cut zero padding that a preallocating broker left: after the first entry both fields only grow."""
    count: i64 = i64(len(entries)) // OFFSET_ENTRY_BYTES
    while count > 0 and offset_at(entries, count - 1) == 0 and position_at(entries, count - 1) == 0:
        count -= 1
    return entries[: count * OFFSET_ENTRY_BYTES]


def used_time_entries(entries: bytes) -> bytes:
    """Cut zero padding that a preallocating broker left behind the time entries."""
    count: i64 = i64(len(entries)) // TIME_ENTRY_BYTES
    while count > 0 and timestamp_at(entries, count - 1) == 0 and time_offset_at(entries, count - 1) == 0:
        count -= 1
    return entries[: count * TIME_ENTRY_BYTES]


# --- transaction index ----------------------------------------------------------------------------------------------


class AbortedTxn:
    """One aborted transaction: its range, and the last stable offset once its marker was written."""

    def __init__(self, producer_id: i64, first_offset: i64, last_offset: i64, last_stable_offset: i64) -> None:
        self.producer_id: i64 = producer_id
        self.first_offset: i64 = first_offset
        self.last_offset: i64 = last_offset
        self.last_stable_offset: i64 = last_stable_offset

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AbortedTxn):
            return NotImplemented
        return (
            self.producer_id == other.producer_id
            and self.first_offset == other.first_offset
            and self.last_offset == other.last_offset
            and self.last_stable_offset == other.last_stable_offset
        )

    def __hash__(self) -> int:
        return hash((self.producer_id, self.first_offset, self.last_offset, self.last_stable_offset))

    def __repr__(self) -> str:
        return (
            f"AbortedTxn(producer_id={self.producer_id}, first_offset={self.first_offset}, "
            f"last_offset={self.last_offset}, last_stable_offset={self.last_stable_offset})"
        )


def encode_txn_entry(txn: AbortedTxn) -> bytes:
    writer = BytesWriter()
    write_i16_be(writer, TXN_ENTRY_VERSION)
    write_i64_be(writer, txn.producer_id)
    write_i64_be(writer, txn.first_offset)
    write_i64_be(writer, txn.last_offset)
    write_i64_be(writer, txn.last_stable_offset)
    return writer.getvalue()


def txn_at(entries: bytes, slot: i64) -> AbortedTxn:
    start: i64 = slot * TXN_ENTRY_BYTES
    return AbortedTxn(
        read_i64_be(entries, start + 2),
        read_i64_be(entries, start + 10),
        read_i64_be(entries, start + 18),
        read_i64_be(entries, start + 26),
    )


def decode_txn_entries(entries: bytes) -> list[AbortedTxn]:
    """All whole entries, in file order (by last offset, since they are appended as markers arrive)."""
    return [txn_at(entries, slot) for slot in range(len(entries) // TXN_ENTRY_BYTES)]


def txn_index_problem(entries: bytes, base_offset: i64) -> str | None:
    """What makes a transaction index unusable (it is then rebuilt from the log), or None."""
    if len(entries) % TXN_ENTRY_BYTES != 0:
        return f"{len(entries)} bytes are not a whole number of {TXN_ENTRY_BYTES}-byte entries"
    for slot in range(len(entries) // TXN_ENTRY_BYTES):
        version: i64 = i64(read_i16_be(entries, slot * TXN_ENTRY_BYTES))
        if version > TXN_ENTRY_VERSION:
            return f"entry {slot} has version {version}; the newest known is {TXN_ENTRY_VERSION}"
        txn = txn_at(entries, slot)
        if txn.last_offset < base_offset:
            return f"entry {slot} ends at {txn.last_offset}, before the segment's base {base_offset}"
    return None


def aborted_in_range(txns: list[AbortedTxn], fetch_offset: i64, end_offset: i64) -> tuple[list[AbortedTxn], bool]:
    """Aborted transactions that overlap [fetch_offset, end_offset) in one segment's index, and whether the search
    is complete: once an entry's last stable offset reaches the end, no later one can reach back into the range."""
    found: list[AbortedTxn] = []
    for txn in txns:
        if txn.last_offset >= fetch_offset and txn.first_offset < end_offset:
            found.append(txn)
        if txn.last_stable_offset >= end_offset:
            return found, True
    return found, False
