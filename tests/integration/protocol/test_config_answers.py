"""Where settings say they come from. Every case holds for Kafka 4.3, too."""

from __future__ import annotations

from typing import Any

import pytest

from moldau.wire.apis import ApiKey
from moldau.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.integration.protocol.wire import Wire

TOPIC, BROKER, CLIENT_METRICS = 2, 4, 16
STATIC, DEFAULT, DYNAMIC_DEFAULT = 4, 5, 3
SET = 0
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_TOPIC_EXCEPTION = 17
INVALID_CONFIG = 40
INVALID_REQUEST = 42


def described(wire: Wire, kind: int, name: str, *keys: str) -> dict[str, Any]:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    asked = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    (result,) = wire.ask(ApiKey.DESCRIBE_CONFIGS, 4, asked).results
    assert result.error_code == 0
    return {row.name: row for row in result.configs}


def synonyms(row: Any) -> list[tuple[str, int]]:
    return [(synonym.name, synonym.source) for synonym in row.synonyms]


@pytest.mark.parametrize("key", ["retention.ms", "segment.ms", "segment.jitter.ms", "flush.ms"])
def test_weaker_broker_keys_are_no_synonyms_of_a_topics_key(wire: Wire, topic: str, key: str) -> None:
    row = described(wire, TOPIC, topic, key)[key]
    assert (synonyms(row), row.config_source) == ([], DEFAULT)


def test_the_least_in_sync_set_is_a_setting_of_the_cluster(wire: Wire, topic: str) -> None:
    key = "min.insync.replicas"
    for kind, name in ((TOPIC, topic), (BROKER, "1")):
        row = described(wire, kind, name, key)[key]
        assert (row.value, row.config_source, row.read_only) == ("1", DYNAMIC_DEFAULT, False)
        assert synonyms(row) == [(key, DYNAMIC_DEFAULT), (key, DEFAULT)]
    assert synonyms(described(wire, BROKER, "")[key]) == [(key, DYNAMIC_DEFAULT)]


def test_a_brokers_number_is_static_under_its_old_name(wire: Wire) -> None:
    row = described(wire, BROKER, "1", "broker.id")["broker.id"]
    assert (row.value, row.config_source, row.read_only) == ("1", STATIC, True)
    assert synonyms(row) == [("broker.id", STATIC), ("broker.id", DEFAULT)]


def test_listeners_can_be_changed_on_a_running_broker_and_advertised_ones_cannot(wire: Wire) -> None:
    keys = ("listeners", "listener.security.protocol.map", "advertised.listeners")
    found = described(wire, BROKER, "1", *keys)
    assert {key: found[key].read_only for key in keys} == {keys[0]: False, keys[1]: False, keys[2]: True}


@pytest.mark.parametrize(
    ("kind", "name", "key", "value", "code"),
    [
        (BROKER, "1", "min.insync.replicas", "1", INVALID_CONFIG),
        (BROKER, "", "min.insync.replicas", "1", 0),
        (BROKER, "", "listeners", "PLAINTEXT://:9092", INVALID_REQUEST),
        (BROKER, "1", "listeners", "NOBODY://:9092", INVALID_REQUEST),
        (TOPIC, "no spaces", "retention.ms", "1", INVALID_TOPIC_EXCEPTION),
        (TOPIC, "x" * 300, "retention.ms", "1", INVALID_TOPIC_EXCEPTION),
        (TOPIC, "nowhere", "retention.ms", "1", UNKNOWN_TOPIC_OR_PARTITION),
        (CLIENT_METRICS, "sub", "interval.ms", "ten", INVALID_CONFIG),
        (CLIENT_METRICS, "sub", "interval.ms", "1", INVALID_REQUEST),
    ],
)
def test_what_cannot_be_set_is_refused_with_kafkas_code(
    wire: Wire, kind: int, name: str, key: str, value: str, code: int
) -> None:
    edit = AlterableConfig(name=key, config_operation=SET, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[edit])
    asked = IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)
    (told,) = wire.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, asked).responses
    assert told.error_code == code
