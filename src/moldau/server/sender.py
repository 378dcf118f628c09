"""What leaves one connection when part of it still lies in files. Compiled.

The kernel sends ranges of files straight from the page cache (`sendfile`), which halves the CPU of a large fetch: no
byte is copied into the socket. A transport cannot mix that with its own writes, so while ranges are queued everything
of the connection goes through here, directly on the socket, in order:

    transport empty -> send what the socket takes -> wait until it takes more -> ... -> all sent, the transport's turn

If the transport still holds bytes, they leave first. The socket is waited for through a duplicate of its descriptor,
because loops refuse `add_writer` on a transport's own. It lives as long as the connection, so a connection costs at
most two descriptors, plus the files that its queued ranges keep open.

Where the socket cannot be had (simulation, TLS, systems without `sendfile`) the ranges are read and go through the
transport.
"""

from __future__ import annotations

import os
import socket
from typing import Any, Final, Protocol

from mypy_extensions import i64

from moldau.model.failures import DiskFailed
from moldau.model.file_range import FileRange

TURN_BYTES_MAX: Final = 2 * 1024 * 1024
"""What one connection may send before others have their turn."""

CALL_BYTES_MAX: Final = 1024 * 1024
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
        self.head_sent: i64 = 0
        """How much of the first in the queue is sent."""
        self.unsent: i64 = 0
        self.draining: bool = False
        self.watching: bool = False
        self.closed: bool = False

    @property
    def busy(self) -> bool:
        return len(self.queue) > 0

    def send(self, pieces: list[bytes | bytearray | memoryview | FileRange], size: i64) -> None:
        """Take over `pieces`, `size` bytes together; what the socket takes now is sent now."""
        if self.closed:
            return
        if self.socket is None:
            self._send_by_transport(pieces)
            return
        was_busy = len(self.queue) > 0
        self.queue.extend(pieces)
        self.unsent += size
        if was_busy:
            return
        if self.transport.get_write_buffer_size() > 0:
            # Limits of nothing make the transport report the moment when it holds nothing: `drained`.
            self.draining = True
            self.transport.set_write_buffer_limits(high=0, low=0)
        else:
            self.go_on()

    def drained(self) -> None:
        """The transport has room again; while draining that means it is empty."""
        if self.draining:
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
            self.unsent = 0
            if self.socket is not None:
                self.socket.close()
                self.socket = None

    def _send_some(self) -> i64:
        """Send some of the queue's head. Returns how much, or -1 when the socket did not take all it was offered."""
        head = self.queue[0]
        done: i64 = self.head_sent
        wanted: i64
        sent: i64
        if isinstance(head, FileRange):
            wanted = head.size_bytes - done
            if wanted > CALL_BYTES_MAX:
                wanted = CALL_BYTES_MAX
            sent = os.sendfile(self.fd, head.source.fd, head.position + done, wanted)
            if sent == 0:
                # Only an outsider cuts a file that has live ranges. Nothing true can follow on this connection.
                self.owner.drop("a file was cut by somebody else while it was being sent")
                return -1
            size = head.size_bytes
        else:
            view = memoryview(head)
            size = view.nbytes
            wanted = size - done
            sent = self.socket.send(view[done:] if done > 0 else head, _MORE if len(self.queue) > 1 else 0)
        self.unsent -= sent
        if done + sent < size:
            self.head_sent = done + sent
        else:
            self.head_sent = 0
            self.queue.pop(0)
        return sent if sent == wanted else -1

    def _send_by_transport(self, pieces: list[bytes | bytearray | memoryview | FileRange]) -> None:
        try:
            buffers = [bytes(piece) if isinstance(piece, FileRange) else piece for piece in pieces]
        except DiskFailed as error:
            self.owner.drop(str(error))
            return
        self.transport.writelines(buffers)

    def _watch(self) -> None:
        if not self.watching:
            self.watching = True
            self.loop.add_writer(self.fd, self.go_on)

    def _unwatch(self) -> None:
        if self.watching:
            self.watching = False
            self.loop.remove_writer(self.fd)
