"""The second copy of the metadata: a file beside the logs that holds everything `metadata.db` does, in plain text.

`metadata.copy` is written a moment after every change and at every clean stop; the one before it stays as
`metadata.copy.previous`. A first line says what it is, a second one up to where it goes, then comes a record per line,
and a last line with the SHA-256 of all before it. Whoever has lost everything else can read it with an editor.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from moldau.model.failures import DiskFailed, StoreDamaged
from moldau.ports import Disk
from moldau.store.files import COPY_FILE, COPY_FILES, PREVIOUS_FILE

_FIRST_LINE: Final = b"moldau metadata copy 1\n"
_SUM_BYTES: Final = len("sha256 ") + 64 + 1


class Copy(NamedTuple):
    offset: int
    """Of the last record of the metadata log that it covers."""
    written_ms: int
    records: tuple[bytes, ...]


def encode_copy(copy: Copy) -> bytes:
    head = {"offset": copy.offset, "records": len(copy.records), "written_ms": copy.written_ms}
    lines = [_FIRST_LINE, json.dumps(head).encode() + b"\n", *(record + b"\n" for record in copy.records)]
    body = b"".join(lines)
    return body + f"sha256 {hashlib.sha256(body).hexdigest()}\n".encode()


def decode_copy(data: bytes) -> Copy:
    """Raises `StoreDamaged` unless every byte is as it was written."""
    body, tail = data[:-_SUM_BYTES], data[-_SUM_BYTES:]
    if not data.startswith(_FIRST_LINE):
        raise StoreDamaged("it does not begin as a copy of metadata does")
    if tail != f"sha256 {hashlib.sha256(body).hexdigest()}\n".encode():
        raise StoreDamaged("its checksum does not fit: it was cut or changed")
    _, head, *records, _ = body.split(b"\n")
    facts = json.loads(head)
    return Copy(facts["offset"], facts["written_ms"], tuple(records))


def read_copy(disk: Disk, path: str) -> Copy:
    """Raises FileNotFoundError, or `StoreDamaged` when the file is no sound copy."""
    try:
        return decode_copy(disk.read(path))
    except DiskFailed as problem:
        raise StoreDamaged(str(problem)) from problem


def newest_copy(disk: Disk, directories: Sequence[str], *, beyond: int = -1) -> tuple[str, Copy] | None:
    """The sound copy that goes farthest, and its path; None when none goes beyond an offset."""
    found: list[tuple[str, Copy]] = []
    for path in [f"{directory}/{name}" for directory in directories for name in COPY_FILES]:
        try:
            data = disk.read(path)
            if _offset_of(data) > beyond:
                found.append((path, decode_copy(data)))
        except (FileNotFoundError, DiskFailed, StoreDamaged):
            continue
    return max(found, key=lambda one: one[1].offset, default=None)


def _offset_of(data: bytes) -> int:
    """What the second line says, before anybody has looked whether it can be believed."""
    try:
        return int(json.loads(data.split(b"\n", 2)[1])["offset"])
    except (ValueError, KeyError, IndexError, TypeError):
        raise StoreDamaged("it does not say up to where it goes") from None


def write_copy(disk: Disk, directory: str, data: bytes) -> None:
    """At every moment one of the two names holds a whole copy, whatever happens in between."""
    if disk.exists(f"{directory}/{COPY_FILE}"):
        disk.rename(f"{directory}/{COPY_FILE}", f"{directory}/{PREVIOUS_FILE}")
    disk.replace(f"{directory}/{COPY_FILE}", data)
