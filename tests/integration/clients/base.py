"""What every client library can do, under one name each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True)
class Outgoing:
    """A record to send to a given partition."""

    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers = ()


@dataclass(frozen=True)
class Read:
    """A record as it came back."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers


class Refusal(Exception):
    """The broker refused: carries the protocol's error code, whatever the library calls it."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Client(ABC):
    """One client library against one broker. Consumers read by assignment; no group is involved."""

    name: str
    invalid_record_code = 87  # as this library reports it

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @abstractmethod
    def create_topic(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None: ...

    @abstractmethod
    def delete_topic(self, topic: str) -> None: ...

    @abstractmethod
    def grow_topic(self, topic: str, partitions: int) -> None: ...

    @abstractmethod
    def topic_names(self) -> set[str]: ...

    @abstractmethod
    def partition_count(self, topic: str) -> int:
        """Raise `Refusal` when there is no such topic. Must not create it."""

    @abstractmethod
    def produce(
        self,
        topic: str,
        records: Sequence[Outgoing],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[int]:
        """Send all records; return their offsets in the same order (-1 where none was told)."""

    @abstractmethod
    def consume(self, topic: str, partition: int, start_offset: int, count: int) -> list[Read]: ...

    @abstractmethod
    def offset_range(self, topic: str, partition: int) -> tuple[int, int]:
        """Start offset and end offset."""

    @abstractmethod
    def offset_for_time(self, topic: str, partition: int, timestamp_ms: int) -> int | None: ...

    @abstractmethod
    def delete_records(self, topic: str, partition: int, before_offset: int) -> int:
        """Return the new start offset."""

    @abstractmethod
    def alter_topic_config(self, topic: str, key: str, value: str) -> None: ...

    @abstractmethod
    def topic_config(self, topic: str) -> dict[str, str | None]: ...

    def close(self) -> None:  # noqa: B027 - most libraries need nothing here
        """Let go of sockets and threads."""
