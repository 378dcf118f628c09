"""Why a node could not start or go on, in a form the command line can explain."""

from __future__ import annotations

from moldau.model.failures import WorldError


class AddressInUse(WorldError):
    """A listener could not be bound: most often because another program listens there (`taken`)."""

    def __init__(self, address: str, why: str, *, taken: bool = True) -> None:
        super().__init__(f"cannot listen on {address}: {why}")
        self.address = address
        self.why = why
        self.taken = taken


class MetadataLost(WorldError):
    """Moldau wrote this directory, but what it knew about the topics in it is gone or cannot be trusted."""

    def __init__(self, directory: str, why: str, copies: str = "", copy_path: str = "") -> None:
        super().__init__(f"{directory}: {why}")
        self.directory = directory
        self.why = why
        self.copies = copies
        """What there is to restore it from, in words."""
        self.copy_path = copy_path


class UnknownLogs(WorldError):
    """There are records of topics that the metadata does not know. `directory` is where the metadata lie."""

    def __init__(self, directory: str, logs: tuple[tuple[str, int], ...]) -> None:
        names = ", ".join(name for name, _ in logs)
        super().__init__(f"{directory}: the metadata does not know {names}")
        self.directory = directory
        self.logs = logs
        """(partition, bytes) of each."""


class DirectoryInUse(WorldError):
    """A log directory cannot be used: locked by another process, another node's, or not a directory at all."""

    def __init__(self, directory: str, why: str, *, locked: bool = False) -> None:
        super().__init__(f"{directory}: {why}")
        self.directory = directory
        self.why = why
        self.locked = locked
        """Whether stopping another broker would help."""
