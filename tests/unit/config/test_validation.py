"""Changes to configurations are judged with Kafka's words and a hint."""

from __future__ import annotations

import pytest

from moldau.config.explain import explain, explanations
from moldau.config.settings import Settings
from moldau.config.validation import SettingsJudge
from moldau.core.metadata.rules import ConfigJudge
from moldau.model.options import ResourceType

TOPIC, BROKER, GROUP, METRICS = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.GROUP,
    ResourceType.CLIENT_METRICS,
)


def judge(**overrides: str) -> ConfigJudge:
    settings = Settings.from_sources(overrides={key.replace("_", "."): value for key, value in overrides.items()})
    return SettingsJudge(lambda: settings)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"retention.mss": "1"}, "Unknown topic config name: retention.mss (did you mean retention.ms?)"),
        ({"log.retention.hours": "1"}, "on a topic it is retention.ms"),
        ({"message.format.version": "2.0"}, "one record format since 4.0"),
        ({"retention.ms": "-2"}, "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ({"segment.bytes": "1048575"}, "Value must be at least 1048576"),
        ({"cleanup.policy": "compact,shred"}, "String must be one of: compact, delete"),
        (
            {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"},
            "min.compaction.lag.ms (9) > max.compaction.lag.ms (8)",
        ),
        ({"remote.storage.enable": "true"}, "Tiered Storage functionality is disabled in the broker"),
        ({"leader.replication.throttled.replicas": "0:1,x"}, "must be the literal '*'"),
        ({"compression.type": "a" * 40_000}, "exceeds the maximum value size"),
    ],
)
def test_a_bad_topic_setting_is_refused(values: dict[str, str], words: str) -> None:
    problem = judge().problem(TOPIC, "t", values)
    assert problem is not None
    assert words in problem


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"cleanup.policy": ""},
        {"cleanup.policy": "compact,delete", "min.compaction.lag.ms": "5"},
        {"internal.segment.bytes": "100"},
        {"leader.replication.throttled.replicas": "*"},
        {"follower.replication.throttled.replicas": "0:1, 1:2"},
        {"retention.ms": "-1", "retention.bytes": "-1"},
    ],
)
def test_a_good_topic_setting_passes(values: dict[str, str]) -> None:
    assert judge().problem(TOPIC, "t", values) is None


def test_a_topics_lag_is_checked_against_the_brokers_default() -> None:
    strict = judge(log_cleaner_max_compaction_lag_ms="10")
    problem = strict.problem(TOPIC, "t", {"min.compaction.lag.ms": "11"})
    assert problem is not None
    assert "(11) > max.compaction.lag.ms (10)" in problem


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("1", {"num.partitions": "3"}, "Cannot update these configs dynamically: [num.partitions]"),
        ("", {"cordoned.log.dirs": "/a"}, "Cannot update these configs at default cluster level"),
        ("1", {"ssl.keystore.location": "/k"}, "only per-listener using the listener prefix: [ssl.keystore.location]"),
        ("1", {"log.cleaner.thread": "3"}, "did you mean log.cleaner.threads?"),
        ("1", {"message.max.bytes": "-1"}, "Value must be at least 0"),
        ("1", {"log.retention.ms": "0"}, "a retention of 0"),
        ("", {"log.cleaner.dedupe.buffer.size": "1"}, "at least 1 MiB"),
    ],
)
def test_a_bad_broker_setting_is_refused(name: str, values: dict[str, str], words: str) -> None:
    problem = judge().problem(BROKER, name, values)
    assert problem is not None
    assert words in problem


def test_good_broker_settings_pass_for_one_and_for_all() -> None:
    values = {"message.max.bytes": "2000", "log.retention.ms": "5", "leader.replication.throttled.rate": "7"}
    assert judge().problem(BROKER, "1", values) is None
    assert judge().problem(BROKER, "", values) is None
    assert judge().problem(BROKER, "99", {"cordoned.log.dirs": "/a"}) is None
    assert judge().problem(BROKER, "1", {"listener.name.ext.ssl.keystore.location": "/k"}) is None


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"consumer.session.timeout.ms": "44999"},
            "must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            {"consumer.session.timeout.ms": "60001"},
            "must be less than or equal to group.consumer.max.session.timeout.ms",
        ),
        ({"streams.num.standby.replicas": "3"}, "group.streams.max.standby.replicas"),
        ({"consumer.sesion.timeout.ms": "1"}, "Unknown group config name"),
        ({"share.auto.offset.reset": "yesterday"}, "by_duration"),
        ({"share.isolation.level": "dirty"}, "String must be one of"),
    ],
)
def test_a_bad_group_setting_is_refused(values: dict[str, str], words: str) -> None:
    problem = judge().problem(GROUP, "g", values)
    assert problem is not None
    assert words in problem


def test_a_heartbeat_must_be_shorter_than_the_session() -> None:
    loose = judge(group_consumer_min_session_timeout_ms="1000")
    problem = loose.problem(GROUP, "g", {"consumer.session.timeout.ms": "5000"})
    assert problem == "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
    assert judge().problem(GROUP, "g", {"share.auto.offset.reset": "by_duration:PT1H"}) is None


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"interval.ms": "99"}, "between 100 and 3600000"),
        ({"intervall": "1"}, "Unknown client metrics configuration"),
        ({"match": "client_id=[a"}, "Illegal client matching pattern"),
        ({"match": "colour=red"}, "Illegal client matching pattern"),
    ],
)
def test_a_bad_client_metrics_setting_is_refused(values: dict[str, str], words: str) -> None:
    problem = judge().problem(METRICS, "m", values)
    assert problem is not None
    assert words in problem
    assert judge().problem(METRICS, "m", {"match": "client_id=a.*", "interval.ms": "100", "metrics": "*"}) is None


def test_unknown_kinds_of_resources_are_refused() -> None:
    assert judge().problem(77, "x", {}) == "Unknown resource type 77"


def test_only_lists_can_be_appended_to_and_start_from_what_is_in_force() -> None:
    own = judge(log_cleanup_policy="compact")
    assert own.is_list(TOPIC, "cleanup.policy")
    assert not own.is_list(TOPIC, "retention.ms")
    assert not own.is_list(TOPIC, "no.such.key")
    assert own.is_list(BROKER, "log.cleanup.policy")
    assert own.default(TOPIC, "cleanup.policy") == "compact"
    assert own.default(BROKER, "log.cleanup.policy") == "compact"
    assert own.default(BROKER, "group.consumer.assignors") == "uniform,range"
    assert own.default(BROKER, "ssl.key.password") is None
    assert own.default(METRICS, "interval.ms") == "300000"


def test_a_key_is_explained_with_all_its_facts() -> None:
    facts = explain("log.retention.hours")
    assert facts["default"] == "168"
    assert facts["scope"] == "broker"
    assert facts["changeable"] == "read-only"
    assert facts["related"] == "default of the topic key retention.ms"
    assert [entry.scope for entry in explanations("min.insync.replicas")] == ["broker", "topic"]
    assert explain("segment.bytes")["allowed"] == "at least 1048576"


@pytest.mark.parametrize(
    ("key", "words"),
    [("port", "listeners"), ("num.partitons", "did you mean num.partitions?"), ("qqq", "no setting qqq")],
)
def test_an_unknown_key_is_explained_by_what_was_meant(key: str, words: str) -> None:
    with pytest.raises(KeyError) as unknown:
        explain(key)
    assert words in unknown.value.args[0]
