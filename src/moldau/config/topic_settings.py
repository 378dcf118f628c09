"""From broker settings and a topic's overrides to what its logs need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from moldau.config import catalog
from moldau.config.parsing import BadValue, parse
from moldau.core.log.settings import LogSettings
from moldau.model.options import Value


class BrokerValues(Protocol):
    """Settings as seen from here."""

    def __getitem__(self, key: str) -> Value: ...


def broker_default(settings: BrokerValues, topic_key: str) -> Value:
    """What a topic key is worth where the topic does not say: the first broker key that is set, in its unit."""
    value: Value = catalog.TOPIC[topic_key].default
    for key, unit in catalog.TOPIC_DEFAULTS.get(topic_key, ()):
        value = settings[key]
        if value is not None:
            return _in_unit(topic_key, value, unit)
    return value


def _in_unit(topic_key: str, value: Value, unit: int) -> Value:
    if topic_key == "retention.ms" and isinstance(value, int) and value < 0:
        return -1  # any negative number of hours, minutes or milliseconds is "for ever"
    return value * unit if unit != 1 and isinstance(value, int) else value


def defaults(settings: BrokerValues) -> dict[str, Value]:
    """Every topic key as this broker defaults it."""
    return {key: broker_default(settings, key) for key in catalog.TOPIC}


def merged(base: Mapping[str, Value], overrides: Mapping[str, str]) -> dict[str, Value]:
    """Defaults under the overrides of one topic. What does not parse is passed over."""
    values = dict(base)
    for key, text in overrides.items():
        option = catalog.TOPIC.get(key)
        if option is None:
            continue
        try:
            values[key] = parse(option, text)
        except BadValue:
            continue
    return values


def log_settings(values: Mapping[str, Any]) -> LogSettings:
    """The typed settings of one topic's logs."""
    policies = values["cleanup.policy"]
    internal_segment_bytes = values["internal.segment.bytes"]
    return LogSettings(
        segment_bytes=values["segment.bytes"] if internal_segment_bytes is None else internal_segment_bytes,
        segment_ms=values["segment.ms"],
        segment_jitter_ms=values["segment.jitter.ms"],
        index_bytes_max=values["segment.index.bytes"],
        index_interval_bytes=values["index.interval.bytes"],
        flush_messages=values["flush.messages"],
        flush_ms=values["flush.ms"],
        retention_bytes=values["retention.bytes"],
        retention_ms=values["retention.ms"],
        message_bytes_max=values["max.message.bytes"],
        timestamp_log_append=values["message.timestamp.type"] == "LogAppendTime",
        timestamp_before_max_ms=values["message.timestamp.before.max.ms"],
        timestamp_after_max_ms=values["message.timestamp.after.max.ms"],
        compression_type=values["compression.type"],
        compact="compact" in policies,
        delete="delete" in policies,
        delete_retention_ms=values["delete.retention.ms"],
        compaction_lag_min_ms=values["min.compaction.lag.ms"],
        compaction_lag_max_ms=values["max.compaction.lag.ms"],
        cleanable_dirty_ratio_min=values["min.cleanable.dirty.ratio"],
        file_delete_delay_ms=values["file.delete.delay.ms"],
        preallocate=values["preallocate"],
        insync_replicas_min=values["min.insync.replicas"],
        unclean_leader_election=values["unclean.leader.election.enable"],
        held=values["moldau.retention.hold"],
    )
