"""One record that does not lie whole in a window of its batch, checked as its bytes come by. Compiled.

Only the few bytes at which lengths stand are looked at; keys and values are stepped over, wherever they end.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from moldau.model.failures import CorruptBatch
from moldau.records.varint import read_varint, read_varlong

HEAD_BYTES_MAX: Final = 40
"""Length, attributes, timestamp, offset delta and key length take no more."""

_VARINT_BYTES_MAX: Final = 5

_HEAD: Final = 0
_VALUE: Final = 1
_HEADER_COUNT: Final = 2
_HEADER_KEY: Final = 3
_HEADER_VALUE: Final = 4
_OVER: Final = 5


class LargeRecord:
    """`feed` it windows until `done`; what lies before `skip` need not be fed at all."""

    def __init__(self, index: i64, base_timestamp: i64) -> None:
        self.index: i64 = index
        self.base_timestamp: i64 = base_timestamp
        self.timestamp: i64 = 0
        self.key_size: i64 = -1
        self.left: i64 = HEAD_BYTES_MAX
        """Bytes of the record that were not stepped over yet."""
        self.skip: i64 = 0
        """How many of them come before the next that matters."""
        self.headers_left: i64 = 0
        self.phase: i64 = _HEAD
        self.done = False

    def feed(self, window: bytes, position: i64, final: bool) -> i64:
        """Go on at `position`; answers how far it came. Anything behind that has to be fed again, with more."""
        size: i64 = i64(len(window))
        while not self.done:
            if self.skip > 0:
                step: i64 = min(self.skip, size - position)
                self.skip -= step
                position += step
                if self.skip > 0:
                    return position
            if self.phase == _OVER:
                self.done = True
                return position
            wanted: i64 = HEAD_BYTES_MAX if self.phase == _HEAD else min(self.left, _VARINT_BYTES_MAX)
            if size - position < wanted and not final:
                return position
            if self.phase == _HEAD:
                position = self.read_head(window, position)
            else:
                position = self.read_length(window, position)
        return position

    def read_head(self, window: bytes, position: i64) -> i64:
        length, position = read_varint(window, position)
        start: i64 = position
        timestamp, position = read_varlong(window, position + 1)
        self.timestamp = self.base_timestamp + timestamp
        delta, position = read_varint(window, position)
        if delta != self.index:
            raise CorruptBatch(f"record {self.index} has offset delta {delta}")
        self.key_size, position = read_varint(window, position)
        self.left = length - (position - start)
        self.step_over(self.key_size, "key", -1)
        self.phase = _VALUE
        return position

    def read_length(self, window: bytes, position: i64) -> i64:
        start: i64 = position
        number, position = read_varint(window, position)
        self.left -= position - start
        if self.phase == _VALUE:
            self.step_over(number, "value", -1)
            self.phase = _HEADER_COUNT
        elif self.phase == _HEADER_COUNT:
            if number < 0 or number * 2 > self.left:
                raise CorruptBatch(f"record {self.index} announces {number} headers")
            self.headers_left = number
            self.phase = _HEADER_KEY
            self.end_if_over()
        elif self.phase == _HEADER_KEY:
            self.step_over(number, "header key", 0)
            self.phase = _HEADER_VALUE
        else:
            self.step_over(number, "header value", -1)
            self.headers_left -= 1
            self.phase = _HEADER_KEY
            self.end_if_over()
        return position

    def step_over(self, size: i64, what: str, size_min: i64) -> None:
        if size < size_min or size > self.left:
            raise CorruptBatch(f"record {self.index} has a {what} of {size} bytes where {self.left} are left")
        self.skip = max(size, 0)
        self.left -= self.skip

    def end_if_over(self) -> None:
        if self.headers_left == 0:
            if self.left != 0:
                raise CorruptBatch(f"record {self.index} is not as long as it announces")
            self.phase = _OVER
