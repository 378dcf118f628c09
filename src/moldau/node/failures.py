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


class DirectoryInUse(WorldError):
    """A log directory cannot be used: locked by another process, another node's, or not a directory at all."""

    def __init__(self, directory: str, why: str, *, locked: bool = False) -> None:
        super().__init__(f"{directory}: {why}")
        self.directory = directory
        self.why = why
        self.locked = locked
        """Whether stopping another broker would help."""
