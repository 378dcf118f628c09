"""Settings from the environment, by the rules of the images people already use.

Apache's and Confluent's images: `KAFKA_` + the key in capitals with `.` as `_`, `_` as `__` and `-` as `___`.
Bitnami's: the same behind `KAFKA_CFG_`. wurstmeister's `KAFKA_CREATE_TOPICS` is handy and kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

_ALIASES: Final = {
    "CLUSTER_ID": "moldau.cluster.id",
    "KAFKA_CLUSTER_ID": "moldau.cluster.id",
    "KAFKA_KRAFT_CLUSTER_ID": "moldau.cluster.id",
    "KAFKA_CREATE_TOPICS": "moldau.create.topics",
}

_NOT_SETTINGS: Final = frozenset(
    {
        "KAFKA_VERSION",
        "KAFKA_HOME",
        "KAFKA_DEBUG",
        "KAFKA_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_CMD_OPTS",
        "KAFKA_JMX_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_ENABLE_KRAFT",
        "KAFKA_CONF_DIR",
        "KAFKA_CONF_FILE",
        "KAFKA_DATA_DIR",
        "KAFKA_VOLUME_DIR",
        "KAFKA_BASE_DIR",
        "KAFKA_LOG_DIR_PATH",
        "KAFKA_MOUNTED_CONF_DIR",
        "KAFKA_DAEMON_USER",
        "KAFKA_DAEMON_GROUP",
        "KAFKA_EXTRA_FLAGS",
        "KAFKA_SCALA_VERSION",
        "KAFKA_BOOTSTRAP_SERVERS",
        "KAFKA_BOOTSTRAP_SERVER",
        "KAFKA_BROKERS",
        "KAFKA_BROKER",
        "KAFKA_TOPIC",
        "KAFKA_GROUP_ID",
    }
)
"""Start scripts of Kafka and of its images read these, and applications name their own so."""


class Variable(NamedTuple):
    """One environment variable and the key it stands for."""

    variable: str
    key: str
    value: str


def key_of(name: str) -> str:
    """`NUM_PARTITIONS` -> `num.partitions`, `A__B` -> `a_b`, `A___B` -> `a-b`."""
    return name.lower().replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def settings_in(environment: Mapping[str, str]) -> Iterator[Variable]:
    """Variables that name a setting, known or not, sorted by name."""
    for name in sorted(environment):
        alias = _ALIASES.get(name)
        if alias is not None:
            yield Variable(name, alias, environment[name])
        elif name.startswith("KAFKA_CFG_"):
            yield Variable(name, key_of(name[10:]), environment[name])
        elif name.startswith("KAFKA_") and not _foreign(name, environment[name]):
            yield Variable(name, key_of(name[6:]), environment[name])


def _foreign(name: str, value: str) -> bool:
    """Whether this is not meant as a setting. Kubernetes adds KAFKA_PORT=tcp://... and more to every pod beside a
    service called `kafka`, and a broker that took it for the key `port` would not start."""
    if name in _NOT_SETTINGS or value.startswith("tcp://"):
        return True
    if name.endswith(("_SERVICE_HOST", "_SERVICE_PORT")) or "_SERVICE_PORT_" in name:
        return True
    return "_PORT_" in name and name.rpartition("_")[2] in ("TCP", "UDP", "PROTO", "PORT", "ADDR")


def derived_listeners(advertised: str) -> str:
    """`listeners` for somebody who gave only `advertised.listeners`: the same, on every address (Apache's image)."""
    parts = []
    for listener in advertised.split(","):
        name, separator, address = listener.strip().partition("://")
        parts.append(f"{name}{separator}0.0.0.0:{address.rpartition(':')[2]}")
    return ",".join(parts)
