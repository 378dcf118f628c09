"""Layers, topics' view of broker settings, and the rows of DescribeConfigs."""

from __future__ import annotations

import pytest

from moldau.config.live import LiveSettings
from moldau.config.rows import ConfigRow, Synonym
from moldau.config.settings import Settings
from moldau.core.log.settings import FOREVER, LogSettings
from moldau.model.checks import InvariantBroken
from moldau.model.options import ConfigSource, Kind


def row(rows: list[ConfigRow], name: str) -> ConfigRow:
    return next(entry for entry in rows if entry.name == name)


# -- typed access ----------------------------------------------------------------------------------------------------


def test_values_come_typed() -> None:
    settings = Settings()
    assert settings.int("num.partitions") == 1
    assert settings.bool("auto.create.topics.enable") is True
    assert settings.float("log.cleaner.min.cleanable.ratio") == 0.5
    assert settings.str("compression.type") == "producer"
    assert settings.list("group.consumer.assignors") == ("uniform", "range")
    assert settings.list("log.dirs") == ()
    assert settings.list("listener.security.protocol.map")[1] == "PLAINTEXT:PLAINTEXT"
    assert settings.optional_str("broker.rack") is None
    assert settings["log.retention.ms"] is None


@pytest.mark.parametrize("key", ["num.partitons", "retention.ms"])
def test_asking_for_a_key_that_does_not_exist_is_a_bug(key: str) -> None:
    with pytest.raises(InvariantBroken):
        Settings()[key]


def test_asking_for_the_wrong_type_is_a_bug() -> None:
    with pytest.raises(InvariantBroken):
        Settings().int("auto.create.topics.enable")
    with pytest.raises(InvariantBroken):
        Settings().str("num.partitions")


# -- topics ----------------------------------------------------------------------------------------------------------


def test_defaults_of_a_topic_are_those_of_log_settings() -> None:
    resolved, plain = Settings().log_settings(), LogSettings()
    fields = [name for name in dir(plain) if not name.startswith("_")]  # compiled, there is no __dict__
    assert "segment_bytes" in fields
    assert {name: getattr(resolved, name) for name in fields} == {name: getattr(plain, name) for name in fields}


@pytest.mark.parametrize(
    ("overrides", "retention_ms"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-7"}, -1),
    ],
)
def test_the_smallest_unit_of_retention_wins(overrides: dict[str, str], retention_ms: int) -> None:
    settings = Settings.from_sources(overrides=overrides)
    assert settings.log_settings().retention_ms == retention_ms
    assert settings.retention_ms() == retention_ms


def test_roll_and_jitter_and_flush_have_units_too() -> None:
    hours = Settings.from_sources(overrides={"log.roll.hours": "3", "log.roll.jitter.hours": "1"}).log_settings()
    assert (hours.segment_ms, hours.segment_jitter_ms) == (3 * 3_600_000, 3_600_000)
    ms = Settings.from_sources(overrides={"log.roll.hours": "3", "log.roll.ms": "7"}).log_settings()
    assert ms.segment_ms == 7
    assert Settings.from_sources(overrides={"log.flush.scheduler.interval.ms": "9"}).log_settings().flush_ms == 9
    assert Settings().log_settings().flush_ms == FOREVER


def test_a_topics_own_values_win_over_the_brokers() -> None:
    settings = Settings.from_sources(overrides={"log.retention.ms": "1000", "log.cleanup.policy": "compact"})
    log = settings.log_settings(
        {"retention.ms": "5", "cleanup.policy": "delete", "message.timestamp.type": "LogAppendTime"}
    )
    assert (log.retention_ms, log.compact, log.delete, log.timestamp_log_append) == (5, False, True, True)


def test_an_empty_cleanup_policy_keeps_everything() -> None:
    log = Settings().log_settings({"cleanup.policy": ""})
    assert (log.compact, log.delete) == (False, False)


def test_the_internal_segment_size_goes_below_the_public_bound() -> None:
    assert Settings().log_settings({"internal.segment.bytes": "4096"}).segment_bytes == 4096


def test_stored_overrides_that_no_longer_parse_are_passed_over() -> None:
    log = Settings().log_settings({"retention.ms": "soon", "from.the.future": "1"})
    assert log.retention_ms == LogSettings().retention_ms


# -- dynamic layers --------------------------------------------------------------------------------------------------


def test_dynamic_layers_win_over_static_ones() -> None:
    settings = Settings.from_sources(overrides={"log.segment.bytes": "2000000", "log.retention.hours": "1"})
    dynamic = settings.with_dynamic(
        {"log.retention.ms": "5"}, {"log.segment.bytes": "3000000", "log.retention.ms": "6"}
    )
    log = dynamic.log_settings()
    assert (log.segment_bytes, log.retention_ms) == (3_000_000, 5)
    assert dynamic.origin("log.retention.ms") == "dynamic setting of this broker"
    assert settings.log_settings().segment_bytes == 2_000_000


def test_dynamic_values_that_do_not_parse_are_left_out_and_told() -> None:
    dynamic = Settings().with_dynamic({"num.io.threads": "many", "from.the.future": "1"})
    assert dynamic.int("num.io.threads") == 8
    assert len(dynamic.notices) == 2


def test_subscribers_hear_only_of_their_keys_and_see_the_new_settings() -> None:
    live = LiveSettings(Settings())
    heard: list[tuple[str, frozenset[str]]] = []
    live.subscribe(
        lambda settings, keys: heard.append((f"limit {settings.int('max.connections')}", keys)), "max.connections"
    )
    live.subscribe(lambda settings, keys: heard.append(("any", keys)))
    assert live.apply_dynamic({"message.max.bytes": "5"}, {}) == {"message.max.bytes"}
    assert live.apply_dynamic({"message.max.bytes": "5"}, {"max.connections": "7"}) == {"max.connections"}
    assert live.apply_dynamic({"message.max.bytes": "5"}, {"max.connections": "7"}) == frozenset()
    assert live.apply_dynamic({}, {}) == {"message.max.bytes", "max.connections"}
    both = frozenset({"message.max.bytes", "max.connections"})
    assert heard == [
        ("any", frozenset({"message.max.bytes"})),
        ("limit 7", frozenset({"max.connections"})),
        ("any", frozenset({"max.connections"})),
        ("limit 2147483647", both),
        ("any", both),
    ]
    assert live.current.int("max.connections") == 2147483647


# -- rows ------------------------------------------------------------------------------------------------------------


def test_a_broker_row_lists_its_sources_strongest_first() -> None:
    settings = Settings.from_sources(overrides={"log.segment.bytes": "2000000"})
    rows = settings.with_dynamic({"log.segment.bytes": "4000000"}, {"log.segment.bytes": "3000000"}).describe_broker()
    found = row(rows, "log.segment.bytes")
    assert (found.value, found.source, found.read_only, found.kind) == (
        "4000000",
        ConfigSource.DYNAMIC_BROKER,
        False,
        Kind.INT,
    )
    assert found.synonyms == (
        Synonym("log.segment.bytes", "4000000", ConfigSource.DYNAMIC_BROKER),
        Synonym("log.segment.bytes", "3000000", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        Synonym("log.segment.bytes", "2000000", ConfigSource.STATIC_BROKER),
        Synonym("log.segment.bytes", "1073741824", ConfigSource.DEFAULT),
    )


def test_every_public_key_of_a_broker_is_described_once() -> None:
    rows = Settings().describe_broker()
    names = [entry.name for entry in rows]
    assert len(names) == len(set(names)) > 330
    assert "unstable.api.versions.enable" not in names  # internal
    assert "leader.replication.throttled.rate" not in names  # only once it is set
    assert all(entry.doc for entry in rows)
    assert row(rows, "num.partitions").read_only


def test_what_was_set_shows_even_if_it_is_not_listed_otherwise() -> None:
    settings = Settings.from_sources(overrides={"log.initial.task.delay.ms": "5"})
    rows = settings.with_dynamic({"listener.name.ext.ssl.client.auth": "none"}).describe_broker()
    assert row(rows, "log.initial.task.delay.ms").value == "5"
    assert row(rows, "listener.name.ext.ssl.client.auth").source is ConfigSource.DYNAMIC_BROKER


def test_a_broker_has_one_number_under_two_names() -> None:
    found = row(Settings.from_sources(overrides={"node.id": "7"}).describe_broker(), "broker.id")
    assert (found.value, found.source, found.read_only) == ("7", ConfigSource.STATIC_BROKER, True)
    assert found.synonyms == (
        Synonym("broker.id", "7", ConfigSource.STATIC_BROKER),
        Synonym("broker.id", "-1", ConfigSource.DEFAULT),
    )


def test_secrets_are_never_shown() -> None:
    settings = Settings.from_sources(overrides={"ssl.key.password": "hunter2"})
    dynamic = settings.with_dynamic({}, {"listener.name.ext.ssl.key.password": "hunter2"})
    for rows in (dynamic.describe_broker(), dynamic.describe_cluster_default()):
        assert "hunter2" not in repr(rows)
    found = row(dynamic.describe_broker(), "ssl.key.password")
    assert (found.value, found.sensitive, found.source) == (None, True, ConfigSource.STATIC_BROKER)


def test_the_clusters_defaults_show_what_was_set_and_the_least_in_sync_set() -> None:
    dynamic = Settings().with_dynamic({"message.max.bytes": "7"}, {"message.max.bytes": "6"})
    found, least = dynamic.describe_cluster_default()
    assert (least.name, least.value, least.source) == ("min.insync.replicas", "1", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    assert (found.value, found.source) == ("6", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    assert found.synonyms == (Synonym("message.max.bytes", "6", ConfigSource.DYNAMIC_DEFAULT_BROKER),)


@pytest.mark.parametrize(
    ("topic_key", "weak_key", "text", "value"),
    [
        ("retention.ms", "log.retention.hours", "2", "7200000"),
        ("retention.ms", "log.retention.minutes", "2", "120000"),
        ("segment.ms", "log.roll.hours", "1", "3600000"),
        ("segment.jitter.ms", "log.roll.jitter.hours", "1", "3600000"),
        ("flush.ms", "log.flush.scheduler.interval.ms", "7", "7"),
    ],
)
def test_under_a_weaker_broker_key_alone_a_topics_value_counts_as_a_default(
    topic_key: str, weak_key: str, text: str, value: str
) -> None:
    settings = Settings.from_sources(overrides={weak_key: text})
    found = row(settings.describe_topic({}), topic_key)
    assert (found.value, found.source, found.synonyms) == (value, ConfigSource.DEFAULT, ())
    created = row(settings.describe_new_topic({}), topic_key)
    assert (created.value, created.source) == (value, ConfigSource.STATIC_BROKER)
    overridden = row(settings.describe_new_topic({topic_key: "5"}), topic_key)
    assert (overridden.value, overridden.source) == ("5", ConfigSource.TOPIC)


def test_a_topic_row_shows_the_broker_keys_behind_it() -> None:
    settings = Settings.from_sources(overrides={"log.retention.hours": "2"}).with_dynamic({"log.retention.ms": "9"})
    found = row(settings.describe_topic({}), "retention.ms")
    assert (found.value, found.source) == ("9", ConfigSource.DYNAMIC_BROKER)
    assert found.synonyms == (
        Synonym("log.retention.ms", "9", ConfigSource.DYNAMIC_BROKER),
        Synonym("log.retention.hours", "2", ConfigSource.STATIC_BROKER),
        Synonym("log.retention.hours", "168", ConfigSource.DEFAULT),
    )
    overridden = row(settings.describe_topic({"retention.ms": "5"}), "retention.ms")
    assert overridden.synonyms[0] == Synonym("retention.ms", "5", ConfigSource.TOPIC)
    assert overridden.source is ConfigSource.TOPIC


def test_topics_list_every_public_key_and_hide_the_internal_one() -> None:
    names = [entry.name for entry in Settings().describe_topic({})]
    assert len(names) == 33
    assert "internal.segment.bytes" not in names
    assert "internal.segment.bytes" in [
        entry.name for entry in Settings().describe_topic({"internal.segment.bytes": "9"})
    ]


def test_groups_take_their_defaults_from_the_broker() -> None:
    settings = Settings.from_sources(overrides={"group.consumer.session.timeout.ms": "50000"})
    found = row(settings.describe_group({}), "consumer.session.timeout.ms")
    assert (found.value, found.source) == ("50000", ConfigSource.STATIC_BROKER)
    own = row(settings.describe_group({"share.isolation.level": "read_committed"}), "share.isolation.level")
    assert [synonym.source for synonym in own.synonyms] == [ConfigSource.GROUP, ConfigSource.DEFAULT]


def test_client_metrics_rows_know_set_and_default() -> None:
    rows = Settings().describe_client_metrics({"interval.ms": "1000"})
    assert (row(rows, "interval.ms").source, row(rows, "metrics").source) == (
        ConfigSource.CLIENT_METRICS,
        ConfigSource.DEFAULT,
    )


def test_documentation_says_when_a_key_does_nothing() -> None:
    rows = Settings().describe_broker()
    assert "nothing that it could steer" in row(rows, "num.io.threads").doc
    assert "not there yet" in row(rows, "sasl.enabled.mechanisms").doc
    assert "Accepted" not in row(rows, "num.partitions").doc
