"""What a writing task must know about topics and brokers before it encodes."""

from __future__ import annotations

import logging
import time
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from moldau.client.admin import describe_configs
from moldau.client.cluster import Cluster
from moldau.client.failures import BrokerRefused
from moldau.model.errors import ErrorCode
from moldau.model.failures import MoldauError

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
FRESH_FOR_S: Final = 30.0
MESSAGE_BYTES_MAX: Final = 1_048_588
"""Kafka's default of max.message.bytes, for clusters that do not tell."""
TRANSACTION_TIMEOUT_MS_MAX: Final = 900_000
"""Kafka's default of transaction.max.timeout.ms."""

logger = logging.getLogger("moldau.spark")


class TopicMissing(MoldauError):
    """The topic is not there and nobody makes it."""


class TopicFacts(NamedTuple):
    partition_count: int
    message_bytes_max: int


_known: WeakKeyDictionary[Cluster, dict[str, tuple[float, TopicFacts]]] = WeakKeyDictionary()
"""What earlier tasks of this process learned, and when."""


async def topic_facts(cluster: Cluster, name: str) -> TopicFacts:
    """Not older than `FRESH_FOR_S`, so that new partitions come into use. Creates the topic where that is allowed."""
    known = _known.setdefault(cluster, {})
    now_s = time.monotonic()
    if name not in known or now_s - known[name][0] > FRESH_FOR_S:
        known[name] = (now_s, await _ask(cluster, name))
    return known[name][1]


def forget(cluster: Cluster) -> None:
    """After a failure, which may come from what is no longer so."""
    _known.pop(cluster, None)


async def _ask(cluster: Cluster, name: str) -> TopicFacts:
    cluster.topics.pop(name, None)
    try:
        view = await cluster.topic(name, auto_create=True)
    except BrokerRefused as refused:
        if refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise TopicMissing(
                f"topic '{name}' does not exist, and the cluster does not create topics by itself "
                f"(auto.create.topics.enable=false): moldau topic create {name}"
            ) from None
        if refused.code is ErrorCode.INVALID_TOPIC_EXCEPTION:
            raise TopicMissing(f"'{name}' cannot be the name of a topic") from None
        raise
    return TopicFacts(len(view.partitions), await _message_bytes_max(cluster, name))


async def _message_bytes_max(cluster: Cluster, name: str) -> int:
    try:
        rows = await describe_configs(cluster, TOPIC_RESOURCE, name, ["max.message.bytes"])
    except BrokerRefused as refused:
        # Not allowed to ask: batches stay below the default then, and the broker has the last word.
        logger.info("the largest message of topic %s is not known: %s", name, refused)
        return MESSAGE_BYTES_MAX
    return next((int(row.value) for row in rows if row.name == "max.message.bytes" and row.value), MESSAGE_BYTES_MAX)


async def transaction_timeout_ms_max(cluster: Cluster) -> int:
    await cluster.refresh([])
    node = min(cluster.brokers)
    rows = await describe_configs(cluster, BROKER_RESOURCE, str(node), ["transaction.max.timeout.ms"])
    return next((int(row.value) for row in rows if row.value), TRANSACTION_TIMEOUT_MS_MAX)
