"""What a crash may leave in a partition's folder, and how loading settles it.

Compaction replaces segments in four steps: write `.cleaned` files and sync them; rename them to `.swap`, the `.log`
last; rename the replaced segments to `.deleted`; rename `.swap` to the final names. Whatever the moment of the crash:

* a `.cleaned` file means the second step was not finished: it and every `.swap` at or above it are dropped, the old
  segments are still there;
* otherwise a `.swap` file is complete: the segments it replaces are removed and it takes its final name.
"""

from __future__ import annotations

from mypy_extensions import i64

from moldau.ports import Disk
from moldau.storage.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_of,
)
from moldau.storage.scan import BatchScanner


def settle(disk: Disk, path: str) -> bool:
    """Finish or undo what was under way; drop index files without a log. Whether a compaction was finished."""
    names = disk.list(path)
    changed = False
    cleaned = [offset for name in names if name.endswith(CLEANED_SUFFIX) for offset in [offset_of(name)]]
    incomplete_from = min((offset for offset in cleaned if offset is not None), default=2**63)
    for name in names:
        offset = offset_of(name)
        dead = name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX))
        if dead or (name.endswith(SWAP_SUFFIX) and (offset is None or offset >= incomplete_from)):
            disk.remove(f"{path}/{name}")
            changed = True
    swaps = [name for name in disk.list(path) if name.endswith(SWAP_SUFFIX)]
    for name in swaps:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            _remove_replaced(disk, path, name)
    for name in swaps:
        disk.rename(f"{path}/{name}", f"{path}/{name.removesuffix(SWAP_SUFFIX)}")
    if changed or swaps:
        disk.sync_dir(path)
    _remove_orphans(disk, path)
    return bool(swaps)


def _remove_replaced(disk: Disk, path: str, swap_name: str) -> None:
    """Remove the segments whose offsets the swapped one covers, in one pass over names."""
    base = offset_of(swap_name)
    if base is None:
        return
    end = max(base + 1, end_of_batches(disk, f"{path}/{swap_name}"))
    for name in disk.list(path):
        offset = offset_of(name)
        if offset is not None and base <= offset < end and name.endswith(SEGMENT_SUFFIXES):
            disk.remove(f"{path}/{name}")


def end_of_batches(disk: Disk, path: str) -> int:
    """One past the last offset in a `.log` file; 0 when it holds no batch."""
    file = disk.open(path)
    try:
        end: i64 = 0
        scanner = BatchScanner(file, 0, file.size_bytes(), window_bytes=1 << 16)
        while True:
            header = scanner.next()
            if header is None:
                return int(end)
            end = header.next_offset
    finally:
        file.close()


def _remove_orphans(disk: Disk, path: str) -> None:
    names = disk.list(path)
    logs = {offset_of(name) for name in names if name.endswith(LOG_SUFFIX)}
    for name in names:
        if name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)) and offset_of(name) not in logs:
            disk.remove(f"{path}/{name}")


def segment_bases(disk: Disk, path: str) -> list[int]:
    """Base offsets of the segments in a folder, rising."""
    found = [offset_of(name) for name in disk.list(path) if name.endswith(LOG_SUFFIX)]
    return sorted(offset for offset in found if offset is not None)
