"""Who leads what, and connections to them, kept for the whole life of a Python worker.

Workers are forked from a daemon and reused by many tasks: pools belong to the process that made them, and a read takes
connections out of the pool while it runs, so that two reads in one process never share one.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moldau.client.cluster import parse_bootstrap
from moldau.client.failures import AnswerTimedOut, BrokerRefused, NoBrokerAnswers
from moldau.model.errors import RETRIABLE, ErrorCode
from moldau.model.failures import PeerGone, WireError
from moldau.model.ids import NO_TOPIC_ID, TopicPartition
from moldau.spark.fetch.link import BrokerLink
from moldau.wire.apis import ApiKey
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

REQUEST_TIMEOUT_MS: Final = 30_000
CONNECT_TIMEOUT_MS: Final = 10_000
_METADATA_FRESH_S: Final = 300.0
_CONNECTION_LOST: Final = (PeerGone, AnswerTimedOut, NoBrokerAnswers, WireError)


@dataclass(frozen=True, slots=True)
class TopicLeaders:
    """A topic as the metadata has it. Partitions without a leader are left out of `leaders`."""

    topic_id: bytes
    leaders: Mapping[int, int]
    partitions: frozenset[int]
    read_at_s: float


class LinkPool:
    """One cluster seen from one process."""

    def __init__(self, bootstrap: str, client: Mapping[str, str]) -> None:
        self.bootstrap = bootstrap
        self.bytes_per_offset: dict[TopicPartition, float] = {}
        """What records of a partition weighed lately, to ask for about as much as is wanted."""
        self._seeds = parse_bootstrap(bootstrap)
        self._client_id = client.get("client.id", "moldau-spark")
        self._timeout_s = int(client.get("request.timeout.ms", REQUEST_TIMEOUT_MS)) / 1000
        self._connect_timeout_s = int(client.get("socket.connection.setup.timeout.ms", CONNECT_TIMEOUT_MS)) / 1000
        self._brokers: dict[int, tuple[str, int]] = {}
        self._topics: dict[str, TopicLeaders] = {}
        self._idle: dict[tuple[str, int], list[BrokerLink]] = {}

    def topic(self, name: str) -> TopicLeaders | None:
        """What is known and not too old."""
        known = self._topics.get(name)
        if known is None or time.monotonic() - known.read_at_s > _METADATA_FRESH_S:
            return None
        return known

    def refresh(self, topics: Iterable[str]) -> None:
        """Ask any broker about `topics`; those it does not know are forgotten. `NoBrokerAnswers` when none does."""
        wanted = sorted(set(topics))
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in wanted], allow_auto_topic_creation=False
        )
        response = self._ask_anyone(request)
        self._brokers = {row.node_id: (row.host, row.port) for row in response.brokers}
        now_s = time.monotonic()
        for name in wanted:
            self._topics.pop(name, None)
        for row in response.topics:
            if row.error_code == 0 and row.name is not None:
                leaders = {part.partition_index: part.leader_id for part in row.partitions if part.leader_id >= 0}
                indexes = frozenset(part.partition_index for part in row.partitions)
                self._topics[row.name] = TopicLeaders(row.topic_id or NO_TOPIC_ID, leaders, indexes, now_s)
            elif (code := ErrorCode(row.error_code)) not in RETRIABLE:
                raise BrokerRefused(code, subject=row.name or "")

    def take(self, node_id: int) -> BrokerLink:
        """A connection of one's own to a broker."""
        address = self._brokers.get(node_id)
        if address is None:
            raise NoBrokerAnswers(f"broker {node_id}", "it is not in the cluster's metadata")
        return self._take(address)

    def give_back(self, link: BrokerLink) -> None:
        """Keep a connection for the next reader, unless something is still under way on it."""
        if link.is_idle:
            host, _, port = link.address.rpartition(":")
            self._idle.setdefault((host, int(port)), []).append(link)
        else:
            link.close()

    def close(self) -> None:
        for links in self._idle.values():
            for link in links:
                link.close()
        self._idle.clear()

    def _take(self, address: tuple[str, int]) -> BrokerLink:
        idle = self._idle.get(address, [])
        while idle:
            link = idle.pop()
            if link.is_idle:
                return link
            link.close()
        return BrokerLink(
            *address,
            client_id=self._client_id,
            connect_timeout_s=self._connect_timeout_s,
            timeout_s=self._timeout_s,
        )

    def _ask_anyone(self, request: MetadataRequest) -> Any:
        reasons = []
        for address in [*self._brokers.values(), *self._seeds]:
            try:
                link = self._take(address)
            except NoBrokerAnswers as failure:
                reasons.append(str(failure))
                continue
            try:
                response = link.request(ApiKey.METADATA, request)
            except _CONNECTION_LOST as failure:
                link.close()
                reasons.append(str(failure))
                continue
            self.give_back(link)
            return response
        raise NoBrokerAnswers(self.bootstrap, "; ".join(dict.fromkeys(reasons)))


_pools: dict[tuple[str, tuple[tuple[str, str], ...]], LinkPool] = {}
_owner_pid = os.getpid()


def pool_for(bootstrap: str, client: Mapping[str, str]) -> LinkPool:
    """The pool of this process for a cluster. What a parent process opened stays the parent's."""
    global _owner_pid
    if _owner_pid != os.getpid():
        for pool in _pools.values():
            with contextlib.suppress(OSError):
                pool.close()  # only this process's copies of the descriptors
        _pools.clear()
        _owner_pid = os.getpid()
    key = (bootstrap, tuple(sorted(client.items())))
    if key not in _pools:
        _pools[key] = LinkPool(bootstrap, client)
    return _pools[key]
