"""Exceptions by whose fault it is: the peer's bytes, or the world's. Refusals are values (`errors.Refused`)."""

from __future__ import annotations


class MoldauError(Exception):
    """Root of what moldau raises on purpose."""


class WireError(MoldauError):
    """Bad peer: the bytes violate the protocol. The connection closes, counts, logs once."""


class CorruptBatch(MoldauError):
    """A record batch that does not parse, fails its checksum, or exceeds a cap."""


class LogDamaged(MoldauError):
    """A log cannot be opened without throwing away what was safe on disk. It stays offline, the others serve."""


class InflatedTooFar(CorruptBatch):
    """Compressed data that becomes larger than it may."""


class UnsupportedCodec(MoldauError):
    """A compression codec id that no library here can read."""


class WorldError(MoldauError):
    """Broken world: disk failed, peer gone, deadline passed. The owning loop retries, isolates or resigns."""


class DiskFailed(WorldError):
    """The disk refused an operation. After a failed sync this is final for that directory."""


class DirectoryLocked(DiskFailed):
    """Another broker holds the lock of the directory. Nothing is broken: this one has no business there."""

    def __init__(self, text: str, directory: str) -> None:
        super().__init__(text)
        self.directory = directory


class DiskFull(DiskFailed):
    """No space left where the file lives."""


class DiskHungry(DiskFailed):
    """The process or the machine has no descriptor or no memory left for it. The disk is well, and nothing was done:
    it may be tried again."""


class PeerGone(WorldError):
    """The other side of a connection went away."""


class StoreFailed(WorldError):
    """The metadata store did not take or give what was asked."""


class StoreDamaged(StoreFailed):
    """What the store holds is not what was written to it."""


class Fenced(StoreFailed):
    """Another controller holds a newer fence; whoever sees this is no longer the controller."""
