"""Walking the batches of a segment file, with constant memory. Compiled.

Nothing a damaged file says is believed: a length is used only after it was found to fit into the file, and a batch
larger than the window is checked piece by piece.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from moldau.model.failures import CorruptBatch
from moldau.ports import ReadableFile
from moldau.records.batch import CHECKSUM_START, HEADER_BYTES, BatchHeader, batch_crc_ok, parse_header
from moldau.records.checksum import crc32c

WALK_WINDOW_BYTES: Final = 8 * 1024
SCAN_WINDOW_BYTES: Final = 1024 * 1024
_SPARSE_READ_BYTES: Final = 256
"""Enough for one header when batches are larger than the window and the rest would be thrown away."""


class BatchScanner:
    """Reads one header after another from `position` up to `end`.

    `next()` answers None at the end and at the first thing that is not a whole batch; `problem` tells which, and
    `next_position` is where whole batches end.
    """

    def __init__(
        self,
        file: ReadableFile,
        position: i64,
        end: i64,
        *,
        window_bytes: i64 = WALK_WINDOW_BYTES,
        verify: bool = False,
    ) -> None:
        self.file = file
        self.position: i64 = position
        self.next_position: i64 = position
        self.end: i64 = end
        self.window_bytes: i64 = window_bytes
        self.verify = verify
        self.problem: str | None = None
        self.torn = False
        """Whether the problem is that the file ends inside a batch."""
        self.window = b""
        self.window_start: i64 = position
        self.last_size: i64 = 0

    def next(self) -> BatchHeader | None:
        position: i64 = self.next_position
        remaining: i64 = self.end - position
        if remaining < HEADER_BYTES:
            if remaining > 0:
                self.problem = f"{remaining} bytes at {position} are too few for a batch"
                self.torn = True
            return None
        at: i64 = position - self.window_start
        if at + HEADER_BYTES > i64(len(self.window)):
            self.refill(position)
            at = 0
        try:
            header = parse_header(self.window, at)
        except CorruptBatch as error:
            self.problem = f"no batch at {position}: {error}"
            return None
        if header.size_bytes > remaining:
            self.problem = f"the batch at {position} announces {header.size_bytes} bytes, only {remaining} are left"
            self.torn = True
            return None
        if self.verify and not self.crc_ok(header, position):
            self.problem = f"the batch at {position} fails its checksum"
            return None
        self.position = position
        self.next_position = position + header.size_bytes
        self.last_size = header.size_bytes
        return header

    def refill(self, position: i64) -> None:
        size: i64 = self.window_bytes
        if not self.verify and self.last_size > size:
            size = _SPARSE_READ_BYTES
        if size > self.end - position:
            size = self.end - position
        self.window = self.file.read_at(position, size)
        self.window_start = position

    def crc_ok(self, header: BatchHeader, position: i64) -> bool:
        size: i64 = header.size_bytes
        if position - self.window_start + size > i64(len(self.window)):
            if size > self.window_bytes:
                return self.crc_ok_in_pieces(header, position)
            self.refill(position)
        return batch_crc_ok(self.window, header, position - self.window_start)

    def crc_ok_in_pieces(self, header: BatchHeader, position: i64) -> bool:
        end: i64 = position + header.size_bytes
        at: i64 = position + CHECKSUM_START
        crc: i64 = 0
        while at < end:
            size: i64 = self.window_bytes if end - at > self.window_bytes else end - at
            piece = self.file.read_at(at, size)
            if i64(len(piece)) < size:
                return False
            crc = crc32c(piece, crc)
            at += size
        return crc == header.crc
