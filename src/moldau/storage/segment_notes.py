"""What the files of a log were like when they were last written: `moldau.segments` in the partition's folder.

Names and sizes show what nothing inside the files does: a segment that is gone, a segment or an index that ends between
two of its entries. Kept with a checksum, written when a segment is sealed or removed and at a clean stop, and never
synced: where it is lost or behind, the ends of the segments are looked at instead. Kafka passes it over.

Holes that were found are kept in it too: they are told at every start, and recovery does not cut the log there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from moldau.model.failures import DiskFailed, DiskFull, DiskHungry
from moldau.records.checksum import crc32c
from moldau.storage.checkpoints import write_unsynced
from moldau.storage.names import INDEX_SUFFIX, SEGMENT_NOTES, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from moldau.storage.segment import Segment

if TYPE_CHECKING:
    from moldau.storage.log_state import LogState

VERSION: Final = "0"


class SegmentNote(NamedTuple):
    """Sizes; -1 for an index that is not there."""

    log_bytes: int
    index_bytes: int
    time_index_bytes: int
    txn_index_bytes: int
    """Also 0 where there is no such file."""
    txn_index_crc: int
    """Nothing else vouches for the entries, and a wrong one shows aborted records."""


class Notes(NamedTuple):
    segments: dict[int, SegmentNote]
    holes: list[tuple[int, int]]
    """(first offset, end offset) of what is known to be gone."""


def encode_notes(notes: Notes) -> bytes:
    lines = [f"segment {base} {' '.join(map(str, note))}\n" for base, note in sorted(notes.segments.items())]
    lines += [f"hole {first} {end}\n" for first, end in notes.holes]
    body = "".join(lines).encode()
    return f"{VERSION} {crc32c(body, 0):08x}\n".encode() + body


def decode_notes(data: bytes) -> Notes | None:
    """None when the file is damaged."""
    head, _, body = data.partition(b"\n")
    if head != f"{VERSION} {crc32c(body, 0):08x}".encode():
        return None
    notes = Notes({}, [])
    for line in body.decode().splitlines():
        kind, *numbers = line.split(" ")
        values = [int(number) for number in numbers]
        if kind == "segment":
            notes.segments[values[0]] = SegmentNote(*values[1:])
        else:
            notes.holes.append((values[0], values[1]))
    return notes


def note_of(segment: Segment) -> SegmentNote:
    """The segment's files as they are."""
    sizes = size_of(segment, INDEX_SUFFIX), size_of(segment, TIME_INDEX_SUFFIX)
    entries = txn_index(segment)
    return SegmentNote(int(segment.size_bytes), *sizes, len(entries), crc32c(entries, 0))


def txn_index(segment: Segment) -> bytes:
    try:
        return segment.disk.read(segment.path(TXN_INDEX_SUFFIX))
    except FileNotFoundError:
        return b""


def aborted_as_noted(log: LogState, segment: Segment) -> bool | None:
    """Whether a segment's transaction index is what it was when it was noted; None when it was not, or grew since."""
    note = log.notes.get(int(segment.base_offset))
    if note is None or note.log_bytes != segment.size_bytes:
        return None
    entries = txn_index(segment)
    return len(entries) == note.txn_index_bytes and crc32c(entries, 0) == note.txn_index_crc


def size_of(segment: Segment, kind: str) -> int:
    try:
        return segment.disk.size_bytes(segment.path(kind))
    except FileNotFoundError:
        return -1


def read_notes(log: LogState) -> Notes | None:
    try:
        return decode_notes(log.disk.read(f"{log.path}/{SEGMENT_NOTES}"))
    except FileNotFoundError:
        return None


def write_notes(log: LogState, with_active: bool = False) -> None:
    """Note the sealed segments; the active one too when it does not grow any more. Those noted before stay as noted.
    Older notes are better than a log that cannot go on: hunger is passed over. Where there is no room for them,
    there are none: retention must be able to give some back."""
    try:
        _write_notes(log, with_active)
    except DiskHungry as hunger:
        log.home.failed(hunger)
    except DiskFull:
        for name in (f"{SEGMENT_NOTES}.tmp", SEGMENT_NOTES):
            if log.disk.exists(f"{log.path}/{name}"):
                log.disk.remove(f"{log.path}/{name}")
    except DiskFailed as failure:
        log.home.failed(failure)
        raise


def _write_notes(log: LogState, with_active: bool) -> None:
    noted: dict[int, SegmentNote] = {}
    for segment in log.segments:
        base = int(segment.base_offset)
        if segment is log.active:
            if with_active:
                noted[base] = note_of(segment)
        else:
            noted[base] = log.notes.get(base) or note_of(segment)
    log.notes = noted
    _write(log, encode_notes(Notes(noted, log.holes)))


def _write(log: LogState, data: bytes) -> None:
    path = f"{log.path}/{SEGMENT_NOTES}"
    write_unsynced(log.disk, f"{path}.tmp", data)
    log.disk.rename(f"{path}.tmp", path)
