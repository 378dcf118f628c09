"""The check of one large batch in steps, none of which takes long. Compiled.

Checksum and walk are steps for the event loop. Inflating is a step for a thread beside it: `inflate_some` touches
nothing but this object, and the libraries free the interpreter meanwhile. Only snappy is ever whole in memory inflated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mypy_extensions import i64

from moldau.model.errors import ErrorCode
from moldau.model.failures import CorruptBatch, UnsupportedCodec
from moldau.records.batch import CHECKSUM_START, HEADER_BYTES, BatchHeader
from moldau.records.checksum import crc32c
from moldau.records.compression import inflate_pieces
from moldau.records.validate import (
    WINDOW_BYTES,
    RecordCheck,
    ValidationProblem,
    ValidationRules,
    Windows,
    header_problem,
    problem_of,
)

STEP_BYTES: Final = 1 << 20
"""What one step goes through: about a millisecond, whatever the records are like."""

_CORRUPT_MESSAGE: Final = int(ErrorCode.CORRUPT_MESSAGE)


class GradualCheck:
    """`check_sum` until it answers True; then `walk_some`, before which `inflate_some` where `inflates`, until True.

    What it found is in `problem`. The header's `observed_max_timestamp` is set as by `validate_batch`.
    """

    def __init__(self, records: bytes | memoryview, header: BatchHeader, rules: ValidationRules, now_ms: i64) -> None:
        self.records = records
        self.header = header
        self.rules = rules
        """A log whose rules are no longer these has to look again."""
        self.problem: ValidationProblem | None = header_problem(header, True)
        self.inflates: bool = header.codec != 0
        self.walk = RecordCheck(header, rules, now_ms)
        self.windows = Windows(self.walk)
        self.summed: i64 = CHECKSUM_START
        self.crc: int = 0
        self.position: i64 = HEADER_BYTES
        self.tail: bytes = b""
        self.pieces: list[bytes] = []
        self.source: Iterator[bytes] | None = None
        self.inflated = False

    def check_sum(self) -> bool:
        """Sum the next part; True when all of it is summed, or the batch is refused already."""
        if self.problem is not None:
            return True
        end: i64 = min(self.summed + STEP_BYTES, self.header.size_bytes)
        self.crc = crc32c(memoryview(self.records)[self.summed : end], self.crc)
        self.summed = end
        if end < self.header.size_bytes:
            return False
        if self.crc != self.header.crc:
            self.problem = ValidationProblem(
                _CORRUPT_MESSAGE, f"the batch fails its checksum (stored {self.header.crc:#010x})"
            )
        return True

    def inflate_some(self) -> None:
        """For a thread: inflate what the next `walk_some` will walk through."""
        source = self.source
        if source is None:
            packed = memoryview(self.records)[HEADER_BYTES : self.header.size_bytes]
            source = inflate_pieces(int(self.header.codec), packed, bytes_max=int(self.rules.decompressed_bytes_max))
            self.source = source
        have: i64 = 0
        try:
            while have < STEP_BYTES:
                piece = next(source, b"")
                if not piece:
                    self.inflated = True
                    return
                self.pieces.append(piece)
                have += len(piece)
        except (CorruptBatch, UnsupportedCodec) as broken:
            self.problem = problem_of(broken, self.walk)

    def walk_some(self) -> bool:
        """Walk through the next part; True when that was the last, or the batch is refused."""
        if self.problem is not None:
            return True
        try:
            if self.inflates:
                self.walk_pieces()
            else:
                self.walk_view()
        except (CorruptBatch, IndexError) as broken:
            self.problem = problem_of(broken, self.walk)
            return True
        if not self.windows.done:
            return False
        self.header.observed_max_timestamp = self.walk.max_timestamp
        if self.walk.errors is not None:
            self.problem = self.walk.refusal()
        return True

    def walk_pieces(self) -> None:
        windows = self.windows
        pieces = self.pieces
        self.pieces = []
        for piece in pieces:
            skipped: i64 = windows.take_skip(len(piece))
            if skipped == len(piece):
                continue
            window = self.tail + piece[skipped:]
            used: i64 = windows.walk(window, False)
            self.tail = window[used:]
        if self.inflated:
            windows.walk(self.tail, True)

    def walk_view(self) -> None:
        windows = self.windows
        size: i64 = self.header.size_bytes
        stop: i64 = min(self.position + STEP_BYTES, size)
        while not windows.done and self.position <= stop:
            end: i64 = min(self.position + WINDOW_BYTES, size)
            window = bytes(self.records[self.position : end])
            self.position += windows.walk(window, end == size)
            self.position += windows.take_skip(size - self.position)
