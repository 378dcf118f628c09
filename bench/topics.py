"""Create and delete the benchmark's topics, with the same client and settings for every peer."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Mapping

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from bench.peers.base import Peer

READY_SECONDS_MAX = 60.0
_numbers = itertools.count(1)
_admins: dict[str, AdminClient] = {}


def create(peer: Peer, prefix: str, partitions: int, config: Mapping[str, str] | None = None) -> str:
    """A new topic with a name no round has used before, once its leaders serve it."""
    topic = f"{prefix}-{next(_numbers):04d}"
    admin = _admin(peer)
    wanted = NewTopic(topic, partitions, 1, config=dict(config or {}))
    admin.create_topics([wanted], operation_timeout=60)[topic].result(120)
    deadline = time.monotonic() + READY_SECONDS_MAX
    while not _is_served(admin, topic, partitions):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{peer.name} does not serve {topic}")
        time.sleep(0.05)
    return topic


def delete(peer: Peer, topic: str) -> None:
    admin = _admin(peer)
    admin.delete_topics([topic], operation_timeout=60)[topic].result(120)


def _is_served(admin: AdminClient, topic: str, partitions: int) -> bool:
    """True when every leader answers for its partition; Metadata may name a leader that does not know it yet.

    The topic is asked for by name first: a client that once heard "unknown topic" keeps that answer for half a minute
    and longer where it is asked again, and `list_offsets` would be judged by it.
    """
    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}  # type: ignore[no-untyped-call]
    try:
        admin.list_topics(topic, timeout=10)
        answers = admin.list_offsets(wanted, request_timeout=10)
        return all(answer.result().offset >= 0 for answer in answers.values())
    except KafkaException:
        return False


def _admin(peer: Peer) -> AdminClient:
    """One per life of the broker, which ends with it and not after it."""
    admin = _admins.get(peer.bootstrap)
    if admin is None:
        admin = _admins[peer.bootstrap] = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
        peer.before_stop.append(lambda: _forget(peer.bootstrap))
    return admin


def _forget(bootstrap: str) -> None:
    _admins.pop(bootstrap, None)
    gc.collect()  # a client ends with its last reference, and its futures refer to it and to each other
