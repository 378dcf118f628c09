"""The world a node runs in, as one value, and the real one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from moldau.ports import Clock, Disk, Entropy, MetadataStore, Network

StoreFactory = Callable[[str, Clock], MetadataStore | Awaitable[MetadataStore]]
"""Path of the embedded store's file, and the clock -> the store."""


class Ports(NamedTuple):
    clock: Clock
    entropy: Entropy
    disk: Disk
    network: Network
    store_factory: StoreFactory | None = None
    """None means the embedded store: one SQLite file beside the logs."""


def real_ports(settings: object = None, *, clock: Clock | None = None) -> Ports:
    """The operating system's clock, chance, disk and network. Tests bring a clock that can be advanced."""
    from moldau.runtime.clock import WallClock
    from moldau.runtime.disk import RealDisk
    from moldau.runtime.entropy import SystemEntropy
    from moldau.runtime.net import RealNetwork

    return Ports(clock or WallClock(), SystemEntropy(), RealDisk(), RealNetwork())
