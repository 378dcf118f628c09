"""What a group shard knows of the cluster's topics. The shell hands in a new view with every metadata image."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

_NOTHING: Final[Mapping[str, str]] = {}


class TopicFacts(NamedTuple):
    name: str
    topic_id: bytes
    partition_count: int
    racks: tuple[tuple[str, ...], ...] = ()
    """Of each partition, the racks of its replicas, sorted; empty when no broker has one."""

    def fingerprint(self) -> bytes:
        """Changes with everything an assignment may depend on."""
        digest = hashlib.blake2b(self.topic_id, digest_size=8)
        digest.update(f"{self.name}\0{self.partition_count}\0".encode())
        for racks in self.racks:
            digest.update("\0".join((str(len(racks)), *racks, "")).encode())
        return digest.digest()


class Topics(Protocol):
    @property
    def version(self) -> int:
        """Rises with every change of the metadata."""
        ...

    @property
    def names_version(self) -> int:
        """The version at which a topic last came or went."""
        ...

    def get(self, name: str) -> TopicFacts | None: ...
    def name_of(self, topic_id: bytes) -> str | None: ...
    def matchable_names(self) -> Iterable[str]:
        """What a regular expression may choose from. The cluster's own topics are not among them: who subscribes to
        everything does not mean the coordinator's books, which grow with every commit made for reading them."""
        ...

    def group_overrides(self, group_id: str) -> Mapping[str, str]:
        """The group's own settings, by Kafka's keys."""
        ...


class NoTopics:
    version = 0
    names_version = 0

    def get(self, name: str) -> TopicFacts | None:
        return None

    def name_of(self, topic_id: bytes) -> str | None:
        return None

    def matchable_names(self) -> Iterable[str]:
        return ()

    def group_overrides(self, group_id: str) -> Mapping[str, str]:
        return _NOTHING


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """One number for the subscribed topics that exist; 0 if there are none. A signed 64-bit integer, as stored.

    The number is our own: Kafka's would differ, and a coordinator that finds another than its own shares out anew.
    """
    found = [facts for name in sorted(names) if (facts := topics.get(name)) is not None]
    if not found:
        return 0
    digest = hashlib.blake2b(digest_size=8)
    for facts in found:
        digest.update(facts.fingerprint())
    (value,) = struct.unpack(">q", digest.digest())
    return int(value)
