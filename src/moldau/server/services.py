"""Everything handlers may touch. Filled once by the composition root (`node/compose.py`); handlers reach it through
`context.services`. Other rooms' objects are named here by the small part of them that handlers use.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from moldau.broker.partitions import PartitionTable
from moldau.core.partition.fetch_sessions import FetchSessionCache
from moldau.ports import Clock, Disk, Entropy
from moldau.server.aside import Aside
from moldau.server.parking import Parking
from moldau.server.reading_line import ReadingLine

ENCODED_ANSWERS_MAX: Final = 256
FETCH_BYTES_MAX: Final = 55 * 1024 * 1024


class Images(Protocol):
    """Holder of the newest metadata image (`core.metadata.image.MetadataImage`); the holder's `image` is replaced,
    the image itself never changes."""

    @property
    def image(self) -> Any: ...


class Controller(Protocol):
    """The serial command loop: a command in, its reply or a `Refused` out, after the records are stored and this
    node has applied them."""

    async def submit(self, command: Any) -> Any: ...


class ProducerIds(Protocol):
    """Producer ids from blocks that the metadata log hands out; never given twice."""

    async def next_producer_id(self) -> int: ...


class Advertised(Protocol):
    """`server.listeners.Listeners` as handlers see it."""

    def advertised(self, listener: str, dialled_host: str, dialled_port: int) -> tuple[str, int]: ...


class Services:
    """Plain attributes, set once. Optional ones are None until their room is there (tests, early start-up)."""

    def __init__(
        self,
        *,
        clock: Clock,
        entropy: Entropy,
        settings: Any,
        node_id: int,
        cluster_id: str,
        partitions: PartitionTable,
        listeners: Advertised,
        images: Any = None,
        controller: Any = None,
        log_dirs: Any = None,
        producer_ids: Any = None,
        disk: Disk | None = None,
        parking: Parking | None = None,
        fetch_sessions: FetchSessionCache | None = None,
        fetch_bytes_max: int = FETCH_BYTES_MAX,
    ) -> None:
        self.clock = clock
        self.entropy = entropy
        self.settings: Any = settings
        """`config.settings.Settings`."""
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.partitions = partitions
        self.listeners = listeners
        self.images: Any = images
        """`Images`."""
        self.controller: Any = controller
        """`Controller`."""
        self.log_dirs: Any = log_dirs
        """`storage.log_dirs.LogDirs`."""
        self.host: Any = None
        """`broker.host.PartitionHost`, for moving replicas between log directories."""
        self.producer_ids: Any = producer_ids
        """`ProducerIds`."""
        self.group_shards: Any = None
        """`broker.shards.directory.ShardDirectory` of `__consumer_offsets`: the group coordinator."""
        self.transaction_shards: Any = None
        """The same of `__transaction_state`; None on a node without a transaction coordinator."""
        self.transactions: Any = None
        """`broker.transactions.coordinator.TransactionCoordinator`."""
        self.steady_clock: Any = None
        """`SteadyClock`: asks clients' timestamps while the wall clock is in doubt."""
        self.disk = disk
        self.parking = parking if parking is not None else Parking()
        """The one waiting room for requests that are answered later."""
        self.reading = ReadingLine()
        """Where long fetches wait for their turn."""
        self.aside = Aside()
        """For what would hold up the loop."""
        if fetch_sessions is None:
            fetch_sessions = FetchSessionCache(entropy.stream("fetch-sessions").randrange)
        self.fetch_sessions = fetch_sessions
        self.fetch_bytes_max: int = fetch_bytes_max
        """`fetch.max.bytes`: the most one Fetch answer carries, whatever was asked."""
        self.encoded: dict[Any, bytes] = {}
        """Encoded answers that depend only on the metadata image, e.g. Metadata by (version, topics, endpoint).
        Use through `cached_answer`; emptied whenever the image changes."""
        self.encoded_for: Any = None

    def cached_answer(self, key: Any) -> bytes | None:
        """A body encoded earlier for the image that is current now, or None. Return it as `replies.Encoded`."""
        image = self.images.image
        if self.encoded_for is not image:
            self.encoded.clear()
            self.encoded_for = image
            return None
        return self.encoded.get(key)

    def remember_answer(self, key: Any, body: bytes) -> None:
        """Keep a body for the current image. Bounded: the cache starts anew when it is full."""
        image = self.images.image
        if self.encoded_for is not image or len(self.encoded) >= ENCODED_ANSWERS_MAX:
            self.encoded.clear()
            self.encoded_for = image
        self.encoded[key] = body
