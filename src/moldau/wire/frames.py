"""Cut a byte stream into frames: a 4-byte size, then that many bytes. Without I/O, for clients and simple users."""

from __future__ import annotations

from moldau.model.failures import WireError
from moldau.model.limits import REQUEST_BYTES_MAX

SIZE_BYTES = 4


class FrameSplitter:
    """Feed it what the socket gave; it hands back whole frames, without their size."""

    def __init__(self, *, frame_bytes_max: int = REQUEST_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._chunks: list[bytes] = []
        self._buffered_bytes = 0
        self._wanted_bytes = SIZE_BYTES  # until then nothing can be cut

    @property
    def buffered_bytes(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return self._buffered_bytes

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes and return the frames they complete. Raise WireError if a frame announces an absurd size."""
        self._chunks.append(data)
        self._buffered_bytes += len(data)
        if self._buffered_bytes < self._wanted_bytes:
            return []
        return self._cut(b"".join(self._chunks))

    def _cut(self, buffer: bytes) -> list[bytes]:
        frames: list[bytes] = []
        start, end = 0, len(buffer)
        self._wanted_bytes = SIZE_BYTES
        while end - start >= SIZE_BYTES:
            size = self._checked_size(buffer, start)
            if end - start - SIZE_BYTES < size:
                self._wanted_bytes = SIZE_BYTES + size
                break
            start += SIZE_BYTES
            frames.append(buffer[start : start + size])
            start += size
        rest = buffer[start:]
        self._chunks = [rest] if rest else []
        self._buffered_bytes = len(rest)
        return frames

    def _checked_size(self, buffer: bytes, start: int) -> int:
        size = int.from_bytes(buffer[start : start + SIZE_BYTES], "big", signed=True)
        if size < 0 or size > self._frame_bytes_max:
            raise WireError(f"a frame announces {size} bytes, at most {self._frame_bytes_max} are allowed")
        return size
