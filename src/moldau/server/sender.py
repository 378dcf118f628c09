"""What leaves one connection when part of it still lies in files. Compiled.

The kernel sends ranges of files straight from the page cache (`sendfile`), which halves the CPU of a large fetch: no
byte is copied into the socket. A transport cannot mix that with its own writes, so while ranges are queued everything
of the connection goes through here, directly on the socket, in order:

    transport empty -> send what the socket takes -> wait until it takes more -> ... -> all sent, the transport's turn

If the transport still holds bytes, they leave first. The socket is waited for through a duplicate of its descriptor,
because loops refuse `add_writer` on a transport's own. It lives as long as the connection, so a connection costs at
most two descriptors, plus the files that its queued ranges keep open.

Short ranges (a fetch over many partitions is full of them) cost less when they are read: a few are gathered with what
stands between them, offered to the socket, and forgotten again; what it did not take stays in the files.

Where the socket cannot be had (simulation, TLS, no descriptor left, systems without `sendfile`) the ranges are read as
the transport takes them.
"""

from __future__ import annotations

import os
import socket
from typing import Any, Final, Protocol

from mypy_extensions import i64

from moldau.model.failures import DiskFailed
from moldau.model.file_range import FileRange
from moldau.runtime.file_limit import current_shares

TURN_BYTES_MAX: Final = 2 * 1024 * 1024
"""What one connection may send before others have their turn."""

CALL_BYTES_MAX: Final = 1024 * 1024
GATHER_BYTES_MAX: Final = 256 * 1024
GATHER_PIECES_MAX: Final = 256
"""Linux takes at most 1024 in one call."""
SENDFILE_BYTES_MIN: Final = 64 * 1024
"""Shorter ranges are read: it costs less."""
SWEEP_PIECES: Final = 1024
_MORE: Final[int] = getattr(socket, "MSG_MORE", 0)
_CAN_SENDFILE: Final[bool] = hasattr(os, "sendfile")


def open_socket(transport: Any) -> Any:
    """A duplicate of a plain TCP transport's socket; None where there is none to be had."""
    its_socket = transport.get_extra_info("socket")
    if its_socket is None or not _CAN_SENDFILE or transport.get_extra_info("sslcontext") is not None:
        return None
    try:
        duplicate = its_socket.dup()
    except OSError:
        return None
    if duplicate.fileno() >= current_shares().ceiling:
        duplicate.close()  # a convenience; others may need the descriptor more
        return None
    duplicate.setblocking(False)
    return duplicate


class Owner(Protocol):
    """The connection, as its sender sees it."""

    def all_sent(self) -> None:
        """Nothing is left to send."""

    def drop(self, reason: str) -> None:
        """Close at once: nothing that follows could be understood."""


class Sender:
    """See the module's text. Made for a connection's first answer with ranges; `busy` while something is queued."""

    def __init__(self, owner: Owner, transport: Any, loop: Any, buffer_bytes_high: int) -> None:
        self.owner = owner
        self.transport: Any = transport
        self.loop: Any = loop
        self.buffer_bytes_high = buffer_bytes_high
        self.socket: Any = open_socket(transport)
        self.fd: int = -1 if self.socket is None else self.socket.fileno()
        self.queue: list[bytes | bytearray | memoryview | FileRange] = []
        self.first: i64 = 0
        """Where the unsent part of the queue begins: taking from the front of a long list would move all of it."""
        self.head_sent: i64 = 0
        """How much of the first in the queue is sent."""
        self.unsent: i64 = 0
        self.in_files: i64 = 0
        """How much of the unsent takes no memory."""
        self.draining: bool = False
        self.transport_full: bool = False
        self.watching: bool = False
        self.closed: bool = False

    @property
    def busy(self) -> bool:
        return len(self.queue) > 0

    def send(self, pieces: list[bytes | bytearray | memoryview | FileRange], size: i64) -> None:
        """Take over `pieces`, `size` bytes together; what the socket takes now is sent now."""
        if self.closed:
            return
        was_busy = len(self.queue) > 0
        self.queue.extend(pieces)
        self.unsent += size
        for piece in pieces:
            if isinstance(piece, FileRange):
                self.in_files += piece.size_bytes
        if was_busy:
            return
        if self.socket is None:
            self._send_by_transport()
        elif self.transport.get_write_buffer_size() > 0:
            # Limits of nothing make the transport report the moment when it holds nothing: `drained`.
            self.draining = True
            self.transport.set_write_buffer_limits(high=0, low=0)
        else:
            self.go_on()

    def in_memory(self) -> i64:
        """Bytes that wait here outside of their files."""
        return self.unsent - self.in_files

    def drained(self) -> None:
        """The transport has room again; while draining that means it is empty."""
        self.transport_full = False
        if self.socket is None:
            if self.queue and not self.closed:
                self._send_by_transport()
        elif self.draining:
            self.draining = False
            self.transport.set_write_buffer_limits(high=self.buffer_bytes_high)
            self.go_on()

    def go_on(self) -> None:
        """Send until the socket is full, the turn is over or nothing is left."""
        queue = self.queue
        left: i64 = TURN_BYTES_MAX
        try:
            while queue and left > 0:
                sent = self._send_some()
                if sent < 0:
                    break
                left -= sent
        except BlockingIOError:
            pass
        except OSError as error:
            self.owner.drop(f"sending failed: {error.strerror}")
            return
        if self.closed:
            return
        if queue:
            self._watch()
            return
        self._unwatch()
        self.owner.all_sent()

    def close(self) -> None:
        """Let go of everything at once, sent or not."""
        if not self.closed:
            self.closed = True
            self._unwatch()
            self.queue.clear()
            self.first = 0
            self.unsent = 0
            self.in_files = 0
            if self.socket is not None:
                self.socket.close()
                self.socket = None

    def _send_some(self) -> i64:
        """Send some of the queue's head. Returns how much, or -1 when the socket did not take all it was offered."""
        head = self.queue[self.first]
        wanted: i64
        sent: i64
        if isinstance(head, FileRange) and head.size_bytes >= SENDFILE_BYTES_MIN:
            wanted = head.size_bytes - self.head_sent
            if wanted > CALL_BYTES_MAX:
                wanted = CALL_BYTES_MAX
            sent = os.sendfile(self.fd, head.source.fd, head.position + self.head_sent, wanted)
            if sent == 0:
                # Only an outsider cuts a file that has live ranges. Nothing true can follow on this connection.
                self.owner.drop("a file was cut by somebody else while it was being sent")
                return -1
        else:
            try:
                parts = self._gather()
            except DiskFailed as error:
                self.owner.drop(str(error))
                return -1
            wanted = 0
            for part in parts:
                wanted += i64(len(part))
            more: int = _MORE if self.first + i64(len(parts)) < i64(len(self.queue)) else 0
            if len(parts) == 1:
                sent = self.socket.send(parts[0], more)
            else:
                sent = self.socket.sendmsg(parts, (), more)
        self._advance(sent)
        return sent if sent == wanted else -1

    def _gather(self) -> list[bytes | bytearray | memoryview]:
        """What comes next, up to a range that the kernel sends by itself; short ranges are read for the moment."""
        parts: list[bytes | bytearray | memoryview] = []
        size: i64 = 0
        done: i64 = self.head_sent
        at: i64 = self.first
        end: i64 = min(i64(len(self.queue)), at + GATHER_PIECES_MAX)
        while at < end and size < GATHER_BYTES_MAX:
            piece = self.queue[at]
            if isinstance(piece, FileRange):
                if piece.size_bytes >= SENDFILE_BYTES_MIN:
                    break
                part: bytes | bytearray | memoryview = bytes(piece)
            else:
                part = piece
            if done > 0:
                part = memoryview(part)[done:]
                done = 0
            parts.append(part)
            size += i64(len(part))
            at += 1
        return parts

    def _advance(self, sent: i64) -> None:
        """So much of the queue is gone."""
        self.unsent -= sent
        queue = self.queue
        while sent > 0:
            head = queue[self.first]
            left: i64 = i64(len(head)) - self.head_sent
            step: i64 = left if left < sent else sent
            if isinstance(head, FileRange):
                self.in_files -= step
            sent -= step
            if step < left:
                self.head_sent += step
                return
            self.head_sent = 0
            queue[self.first] = b""  # a range keeps its file open
            self.first += 1
        if self.first == i64(len(queue)):
            queue.clear()
            self.first = 0
        elif self.first >= SWEEP_PIECES:
            del queue[: self.first]
            self.first = 0

    def _send_by_transport(self) -> None:
        while self.queue and not self.transport_full:
            try:
                part = self._next_for_transport()
            except DiskFailed as error:
                self.owner.drop(str(error))
                return
            self._advance(i64(len(part)))
            self.transport.write(part)
        if not self.queue:
            self.owner.all_sent()

    def _next_for_transport(self) -> bytes | bytearray | memoryview:
        head = self.queue[self.first]
        if not isinstance(head, FileRange):
            return head
        size: i64 = min(head.size_bytes - self.head_sent, CALL_BYTES_MAX)
        return bytes(FileRange(head.source, head.position + self.head_sent, size))

    def _watch(self) -> None:
        if not self.watching:
            self.watching = True
            self.loop.add_writer(self.fd, self.go_on)

    def _unwatch(self) -> None:
        if self.watching:
            self.watching = False
            self.loop.remove_writer(self.fd)
