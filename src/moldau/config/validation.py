"""Judges configuration changes: `SettingsJudge` is the `core.metadata.rules.ConfigJudge` of a real node.

The words are Kafka's where Kafka has some, with a hint added: they reach the person through a foreign client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from moldau.config import catalog
from moldau.config.checks import broker_mistakes
from moldau.config.describe import MIN_ISR, default_text
from moldau.config.mistakes import nearest
from moldau.config.parsing import BadValue, parse, render
from moldau.config.settings import Settings
from moldau.config.tables.retired import TOPIC_RETIRED
from moldau.model.options import Kind, Option, ResourceType, Update, Value

VALUE_CHARACTERS_MAX: Final = 32767
"""Kafka's bound on one value."""

_THROTTLED: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_ONLY_PER_LISTENER: Final = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""A running broker takes new certificates for one listener at a time."""

_CLIENT_SELECTORS: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


class SettingsJudge:
    """Knows every key and what it accepts under the broker's current settings."""

    def __init__(self, current: Callable[[], Settings]) -> None:
        self._current = current

    def problem(self, resource_type: int, resource_name: str, values: Mapping[str, str]) -> str | None:
        """What is wrong with this complete set of overrides, or None."""
        judge = _JUDGES.get(resource_type)
        if judge is None:
            return f"Unknown resource type {resource_type}"
        for key, value in values.items():
            if len(value) > VALUE_CHARACTERS_MAX:
                return (
                    "The configuration value cannot be added because it exceeds the maximum value size of "
                    f"{VALUE_CHARACTERS_MAX} bytes: {key}"
                )
        try:
            return judge(self._current(), resource_name, values)
        except BadValue as problem:
            return str(problem)

    def is_list(self, resource_type: int, key: str) -> bool:
        """Whether APPEND and SUBTRACT make sense."""
        option = _option(resource_type, key)
        return option is not None and option.kind is Kind.LIST

    def default(self, resource_type: int, key: str) -> str | None:
        """The value in force while there is no override; APPEND starts from it."""
        option = _option(resource_type, key)
        if option is None or option.sensitive:
            return None
        if resource_type == ResourceType.TOPIC:
            return default_text(self._current(), option, key)
        if resource_type == ResourceType.BROKER:
            static = self._current().static.get(key)
            return render(option.kind, option.default) if static is None else static.text
        return render(option.kind, option.default)


def _option(resource_type: int, key: str) -> Option | None:
    if resource_type == ResourceType.BROKER:
        return catalog.broker_option(key)
    table = _TABLES.get(resource_type)
    return None if table is None else table.get(key)


# -- topics ----------------------------------------------------------------------------------------------------------


def topic_problem(settings: Settings, name: str, values: Mapping[str, str]) -> str | None:
    """What is wrong with a topic's overrides under this broker's defaults."""
    for key, text in values.items():
        option = catalog.TOPIC.get(key)
        if option is None:
            return f"Unknown topic config name: {key}" + _topic_hint(key)
        parse(option, text)
    for key in _THROTTLED:
        if key in values and not _is_replica_list(values[key]):
            return (
                f"Invalid value [{values[key]}] for configuration {key}: {key} must be the literal '*' or a list of "
                "replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
            )
    return _topic_conflict(settings.topic_values(values))


def _topic_conflict(merged: Mapping[str, Any]) -> str | None:
    least, most = merged["min.compaction.lag.ms"], merged["max.compaction.lag.ms"]
    if least > most:
        return f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
    if merged["remote.storage.enable"]:
        return (
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    return None


def _topic_hint(key: str) -> str:
    if key in TOPIC_RETIRED:
        return f" ({TOPIC_RETIRED[key]})"
    for topic_key, broker_keys in catalog.TOPIC_DEFAULTS.items():
        if any(key == broker_key for broker_key, _ in broker_keys):
            return f" (that is the broker's key; on a topic it is {topic_key})"
    meant = nearest(key, catalog.TOPIC)
    return "" if meant is None else f" (did you mean {meant}?)"


def _is_replica_list(text: str) -> bool:
    stripped = text.strip()
    if stripped in ("", "*"):
        return True
    pairs = (pair.strip().split(":") for pair in stripped.split(","))
    return all(len(pair) == 2 and all(part.isascii() and part.isdigit() for part in pair) for pair in pairs)


# -- brokers ---------------------------------------------------------------------------------------------------------


def broker_problem(settings: Settings, name: str, values: Mapping[str, str]) -> str | None:
    """What is wrong with dynamic settings of one broker, or of all of them (empty name)."""
    if name and MIN_ISR in values:
        return f"Broker-level {MIN_ISR} cannot be altered: it is a setting of the whole cluster."
    fixed, local, bare = [], [], []
    for key, text in values.items():
        option = catalog.broker_option(key)
        if option is None:
            meant = nearest(key, catalog.BROKER)
            return f"Unknown broker config name: {key}" + ("" if meant is None else f" (did you mean {meant}?)")
        if option.update is Update.READ_ONLY:
            fixed.append(key)
        elif key in _ONLY_PER_LISTENER:
            bare.append(key)
        elif option.update is Update.PER_BROKER and not name:
            local.append(key)
        parse(option, text)
    if fixed:
        return f"Cannot update these configs dynamically: [{', '.join(fixed)}] (set them in the file and restart)"
    if bare:
        names = ", ".join(bare)
        return (
            f"These security configs can be dynamically updated only per-listener using the listener prefix: [{names}]"
        )
    if local:
        return (
            f"Cannot update these configs at default cluster level, broker id must be specified: [{', '.join(local)}]"
        )
    return _broker_conflict(settings, name, values)


def _broker_conflict(settings: Settings, name: str, values: Mapping[str, str]) -> str | None:
    """Rules between keys, as they would hold on this broker. A mistake that is there already is not the change's."""
    before = {mistake.what for mistake in broker_mistakes(settings)}
    broker = {key: assigned.text for key, assigned in settings.dynamic_broker.items()}
    cluster = {key: assigned.text for key, assigned in settings.dynamic_cluster.items()}
    if name == "":
        after = settings.with_dynamic(broker, values)
    elif name == str(settings.node_id):
        after = settings.with_dynamic(values, cluster)
    else:
        return None
    return next((mistake.what for mistake in broker_mistakes(after) if mistake.what not in before), None)


# -- groups and client metrics ---------------------------------------------------------------------------------------


def group_problem(settings: Settings, name: str, values: Mapping[str, str]) -> str | None:
    """What is wrong with a group's settings: types, the broker's bounds, heartbeat against session."""
    parsed: dict[str, Value] = {}
    for key, text in values.items():
        option = catalog.GROUP.get(key)
        if option is None:
            meant = nearest(key, catalog.GROUP)
            return f"Unknown group config name: {key}" + ("" if meant is None else f" (did you mean {meant}?)")
        parsed[key] = parse(option, text)
    for key, value in parsed.items():
        outside = _outside_broker_bounds(settings, key, value)
        if outside:
            return outside
    for protocol in ("consumer", "share", "streams"):
        session, heartbeat = f"{protocol}.session.timeout.ms", f"{protocol}.heartbeat.interval.ms"
        if _group_number(settings, parsed, session) <= _group_number(settings, parsed, heartbeat):
            return f"{session} must be greater than {heartbeat}"
    reset = parsed.get("share.auto.offset.reset")
    if isinstance(reset, str) and reset not in ("latest", "earliest") and not reset.startswith("by_duration:P"):
        return (
            f"Invalid value {reset} for configuration share.auto.offset.reset: "
            "must be latest, earliest or by_duration:PnDTnHnMn.nS"
        )
    return None


def _outside_broker_bounds(settings: Settings, key: str, value: Value) -> str | None:
    """`consumer.session.timeout.ms` must lie within `group.consumer.min.session.timeout.ms` and `...max...`."""
    protocol, _, rest = key.partition(".")
    rest = "standby.replicas" if rest == "num.standby.replicas" else rest
    for word, phrase in (("min", "greater than or equal to"), ("max", "less than or equal to")):
        bound = f"group.{protocol}.{word}.{rest}"
        if bound in catalog.BROKER and isinstance(value, int):
            limit = settings.int(bound)
            if value < limit if word == "min" else value > limit:
                return f"{key} must be {phrase} {bound} ({limit})"
    return None


def _group_number(settings: Settings, parsed: Mapping[str, Value], key: str) -> int:
    value = parsed.get(key)
    return value if isinstance(value, int) else settings.int(catalog.GROUP_DEFAULTS[key])


def client_metrics_problem(settings: Settings, name: str, values: Mapping[str, str]) -> str | None:
    """What is wrong with a client metrics subscription."""
    if not name:
        return "Subscription name can't be empty"
    for key, text in values.items():
        option = catalog.CLIENT_METRICS.get(key)
        if option is None:
            return f"Unknown client metrics configuration: {key}"
        value = parse(option, text)
        if key == "interval.ms" and isinstance(value, int) and not 100 <= value <= 3_600_000:
            return f"Invalid value {text} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        if key == "match" and isinstance(value, tuple):
            for pattern in value:
                if not _is_client_pattern(pattern):
                    return f"Illegal client matching pattern: {pattern}"
    return None


def _is_client_pattern(pattern: str) -> bool:
    import re

    selector, separator, expression = pattern.partition("=")
    if not separator or selector.strip() not in _CLIENT_SELECTORS:
        return False
    try:
        re.compile(expression.strip())
    except re.error:
        return False
    return True


_TABLES: Final[Mapping[int, Mapping[str, Option]]] = {
    ResourceType.TOPIC: catalog.TOPIC,
    ResourceType.GROUP: catalog.GROUP,
    ResourceType.CLIENT_METRICS: catalog.CLIENT_METRICS,
}

_JUDGES: Final[Mapping[int, Callable[[Settings, str, Mapping[str, str]], str | None]]] = {
    ResourceType.TOPIC: topic_problem,
    ResourceType.BROKER: broker_problem,
    ResourceType.GROUP: group_problem,
    ResourceType.CLIENT_METRICS: client_metrics_problem,
}
