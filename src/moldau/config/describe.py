"""Rows for DescribeConfigs and for `moldau config`: every key, its value, where that comes from, what else could have
given it. The order of synonyms is Kafka's: this broker's dynamic value, the cluster's, static, default.

Non-obvious, and Kafka's:

- For a topic the chain begins with the first broker key of its group. Under a weaker one alone (`retention.ms` under
  `log.retention.hours`) the value counts as a default; only the answer to CreateTopics tells where it comes from.
- `min.insync.replicas` is a dynamic setting of the cluster, whether anybody set it or not, and cannot be set for one
  broker (KIP-966). In moldau the static value stands there until somebody sets another.
- `broker.id` is the node's number under its old name, and static.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import dropwhile
from typing import TYPE_CHECKING, Final

from moldau.config import catalog, topic_settings
from moldau.config.parsing import BadValue, parse, render
from moldau.config.rows import ConfigRow, Synonym
from moldau.model.options import ConfigSource, Effect, Option, Update, Value

if TYPE_CHECKING:
    from moldau.config.settings import Settings

MIN_ISR: Final = "min.insync.replicas"
BROKER_ID: Final = "broker.id"


def documentation(option: Option) -> str:
    """What DescribeConfigs tells about a key."""
    if option.effect is Effect.ACTS:
        return option.doc
    return f"{option.doc} ({option.effect.value[0].upper()}{option.effect.value[1:]}.)"


def broker_rows(settings: Settings) -> list[ConfigRow]:
    """Every public key of this broker, and the others that somebody set."""
    return [_broker_row(settings, name) for name in _broker_names(settings)]


def cluster_default_rows(settings: Settings) -> list[ConfigRow]:
    """Dynamic defaults of all brokers."""
    rows = []
    for name in dict.fromkeys([*settings.dynamic_cluster, MIN_ISR]):
        row = _broker_row(settings, name)
        chain = tuple(synonym for synonym in row.synonyms if synonym.source is ConfigSource.DYNAMIC_DEFAULT_BROKER)
        rows.append(row._replace(value=chain[0].value, source=ConfigSource.DYNAMIC_DEFAULT_BROKER, synonyms=chain))
    return rows


def topic_rows(settings: Settings, overrides: Mapping[str, str]) -> list[ConfigRow]:
    """Every public topic key under the topic's overrides."""
    values = settings.topic_values(overrides)
    return [
        _override_row(option, values[option.name], overrides, ConfigSource.TOPIC, _topic_chain(settings, option.name))
        for option in catalog.TOPIC.values()
        if not option.internal or option.name in overrides
    ]


def new_topic_rows(settings: Settings, overrides: Mapping[str, str]) -> list[ConfigRow]:
    """The same for the answer to CreateTopics, which tells the source of the value in force."""
    rows = topic_rows(settings, overrides)
    return [row if row.name in overrides else row._replace(source=_source_in_force(settings, row)) for row in rows]


def _source_in_force(settings: Settings, row: ConfigRow) -> ConfigSource:
    keys = catalog.TOPIC_DEFAULTS.get(row.name)
    if keys is None:
        return row.source
    in_force = _in_force(settings, tuple(key for key, _ in keys))
    found = (synonym.source for synonym in _chain(settings, keys[0][0]) if synonym.name == in_force)
    return next(found, row.source)


def group_rows(settings: Settings, overrides: Mapping[str, str]) -> list[ConfigRow]:
    """Every key of a group; most have a broker key as their default."""
    rows = []
    for option in catalog.GROUP.values():
        broker_key = catalog.GROUP_DEFAULTS.get(option.name)
        default = option.default if broker_key is None else settings[broker_key]
        if broker_key is None:
            chain = [Synonym(option.name, render(option.kind, default), ConfigSource.DEFAULT)]
        else:
            chain = list(_chain(settings, broker_key))
        value = _overridden(option, overrides, default)
        rows.append(_override_row(option, value, overrides, ConfigSource.GROUP, chain))
    return rows


def client_metrics_rows(overrides: Mapping[str, str]) -> list[ConfigRow]:
    """Every key of a client metrics subscription."""
    return [
        _override_row(
            option, _overridden(option, overrides, option.default), overrides, ConfigSource.CLIENT_METRICS, []
        )
        for option in catalog.CLIENT_METRICS.values()
    ]


def _broker_names(settings: Settings) -> list[str]:
    names = [
        option.name
        for option in catalog.BROKER.values()
        if settings.is_set(option.name) or not (option.internal or option.name in catalog.DYNAMIC_ONLY)
    ]
    layers = (settings.static, settings.dynamic_cluster, settings.dynamic_broker)
    per_listener = {name for layer in layers for name in layer if name not in catalog.BROKER}
    return sorted([*names, *per_listener])


def _broker_row(settings: Settings, name: str) -> ConfigRow:
    option = catalog.broker_option(name)
    assert option is not None
    # Kafka: synonyms in front of the key itself do not count as its source.
    chain = list(dropwhile(lambda synonym: synonym.name != name, _chain(settings, name)))
    value = None if option.sensitive else render(option.kind, settings[name])
    if name == BROKER_ID and not settings.is_set(name):
        value = str(settings.node_id)  # one number under two names
    source = chain[0].source if chain else ConfigSource.DEFAULT
    read_only = option.update is Update.READ_ONLY
    return ConfigRow(name, value, source, read_only, option.sensitive, option.kind, documentation(option), tuple(chain))


def _chain(settings: Settings, name: str) -> Iterator[Synonym]:
    names = catalog.synonyms(name)
    for layer, source in (
        (settings.dynamic_broker, ConfigSource.DYNAMIC_BROKER),
        (settings.dynamic_cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (settings.static, ConfigSource.STATIC_BROKER),
    ):
        for key in names:
            if key in layer:
                yield Synonym(key, _shown(key, layer[key].text), source)
            elif key == MIN_ISR and source is ConfigSource.DYNAMIC_DEFAULT_BROKER:
                yield Synonym(key, _static_text(settings, key), source)
            elif key == BROKER_ID and source is ConfigSource.STATIC_BROKER:
                yield Synonym(key, str(settings.node_id), source)
    for key in names:
        option = catalog.broker_option(key)
        if option is not None and option.default is not None:
            yield Synonym(key, _shown(key, render(option.kind, option.default)), ConfigSource.DEFAULT)


def _static_text(settings: Settings, key: str) -> str | None:
    if key in settings.static:
        return settings.static[key].text
    option = catalog.BROKER[key]
    return render(option.kind, option.default)


def _shown(key: str, text: str | None) -> str | None:
    option = catalog.broker_option(key)
    return None if option is None or option.sensitive else text


def _topic_chain(settings: Settings, topic_key: str) -> list[Synonym]:
    keys = catalog.TOPIC_DEFAULTS.get(topic_key)
    if keys is None:
        return []
    first = keys[0][0]
    return list(dropwhile(lambda synonym: synonym.name != first, _chain(settings, first)))


def _in_force(settings: Settings, keys: tuple[str, ...]) -> str:
    return next((key for key in keys if settings[key] is not None), keys[0])


def _override_row(
    option: Option, value: Value, overrides: Mapping[str, str], source: ConfigSource, chain: list[Synonym]
) -> ConfigRow:
    text = render(option.kind, value)
    if option.name in overrides:
        chain = [Synonym(option.name, text, source), *chain]
    effective = chain[0].source if chain else ConfigSource.DEFAULT
    return ConfigRow(option.name, text, effective, False, False, option.kind, documentation(option), tuple(chain))


def _overridden(option: Option, overrides: Mapping[str, str], default: Value) -> Value:
    text = overrides.get(option.name)
    if text is None:
        return default
    try:
        return parse(option, text)
    except BadValue:
        return default


def default_text(settings: Settings, option: Option, topic_key: str) -> str | None:
    """What a topic key is worth on this broker without an override, as text."""
    return render(option.kind, topic_settings.broker_default(settings, topic_key))
