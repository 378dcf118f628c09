"""All option tables put together, and the names that are derived from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from moldau.config.tables import (
    client_metrics,
    cluster,
    group_resources,
    groups,
    log,
    moldau_own,
    network,
    observability,
    quotas,
    replication,
    sasl,
    share,
    tiered,
    tls,
    topics,
    transactions,
)
from moldau.model.options import Option

FAMILIES: Final = (
    cluster,
    network,
    log,
    replication,
    groups,
    share,
    transactions,
    quotas,
    tls,
    sasl,
    tiered,
    observability,
    moldau_own,
)
"""Broker families, in the order in which the reference page shows them."""


def _by_name(options: Iterable[Option]) -> dict[str, Option]:
    return {option.name: option for option in options}


BROKER: Final[Mapping[str, Option]] = _by_name(option for family in FAMILIES for option in family.OPTIONS)
TOPIC: Final[Mapping[str, Option]] = _by_name(topics.OPTIONS)
GROUP: Final[Mapping[str, Option]] = _by_name(group_resources.OPTIONS)
CLIENT_METRICS: Final[Mapping[str, Option]] = _by_name(client_metrics.OPTIONS)

TOPIC_DEFAULTS: Final[Mapping[str, tuple[tuple[str, int], ...]]] = dict(topics.DEFAULTS)
"""Topic key -> broker keys it takes its default from (first one set wins), with the worth of one unit."""

GROUP_DEFAULTS: Final[Mapping[str, str]] = group_resources.DEFAULTS

DYNAMIC_ONLY: Final = frozenset(
    {
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Broker keys that Kafka takes only over the wire, never from the file, and lists only once they are set."""

LISTENER_PREFIX: Final = "listener.name."
_PER_LISTENER: Final = frozenset(option.name for family in (tls, sasl) for option in family.OPTIONS) | {
    "connections.max.reauth.ms",
    "max.connections",
    "max.connection.creation.rate",
    "num.network.threads",
    "connections.max.idle.ms",
}
_PLUGIN_PREFIXES: Final = ("rlmm.config.", "rsm.config.", "config.providers.")

PROTECTION: Final = frozenset(option.name for family in (tls, sasl, quotas) for option in family.OPTIONS)
"""Keys that keep somebody out or hold somebody back: that they do nothing yet is worth a warning."""

_SYNONYM_GROUPS: Final[dict[str, tuple[str, ...]]] = {
    name: tuple(key for key, _ in keys) for keys in TOPIC_DEFAULTS.values() if len(keys) > 1 for name, _ in keys
}


def synonyms(name: str) -> tuple[str, ...]:
    """Broker keys that answer for `name`, strongest first: `log.retention.ms`, then minutes, then hours."""
    group = _SYNONYM_GROUPS.get(name)
    if group is not None:
        return group[group.index(name) :]
    option = broker_option(name) if name.startswith(LISTENER_PREFIX) else None
    return (name,) if option is None else (name, per_listener_base(name))


def broker_option(name: str) -> Option | None:
    """The declaration of a broker key, also behind `listener.name.<listener>.` and a SASL mechanism."""
    option = BROKER.get(name)
    if option is not None or not name.startswith(LISTENER_PREFIX):
        return option
    base = per_listener_base(name)
    return BROKER[base]._replace(name=name) if base else None


def per_listener_base(name: str) -> str:
    """`listener.name.x.ssl.client.auth` -> `ssl.client.auth`; empty when there is no such setting."""
    tail = name[len(LISTENER_PREFIX) :].partition(".")[2]
    return next((key for key in (tail, tail.partition(".")[2]) if key in _PER_LISTENER), "")


def is_plugin_key(name: str) -> bool:
    """Keys that Kafka hands to a plug-in without looking at them."""
    return name.startswith(_PLUGIN_PREFIXES) and name not in BROKER
