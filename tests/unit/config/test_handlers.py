"""The four config APIs over the real deciders, image and codecs; only the controller's loop is left out."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.config.live import LiveSettings
from moldau.config.settings import Settings
from moldau.config.validation import SettingsJudge
from moldau.core.metadata.commands import CreateTopics, NewTopic, RegisterBroker
from moldau.core.metadata.decide import decide
from moldau.core.metadata.delta import MetadataDelta
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.rules import MetadataRules
from moldau.model.errors import ErrorCode, Refused
from moldau.model.options import ConfigSource, ResourceType
from moldau.runtime.logs import logger_levels
from moldau.server.handlers import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from moldau.wire.apis import API_SPECS, ApiKey, decode_response, encode_response
from moldau.wire.messages import alter_configs as legacy
from moldau.wire.messages import describe_configs as describing
from moldau.wire.messages import incremental_alter_configs as incremental
from moldau.wire.messages.list_config_resources import ListConfigResourcesRequest
from moldau.wire.primitives import Reader, Writer

NODE_ID = 1
SET, DELETE, APPEND, SUBTRACT = range(4)


class Cluster:
    """One broker and one topic `t`; commands are decided and applied at once."""

    def __init__(self, **overrides: str) -> None:
        self.live = LiveSettings(Settings.from_sources(overrides=overrides))
        self.image = MetadataImage()
        self.rules = MetadataRules(judge=SettingsJudge(lambda: self.live.current))
        self.services = SimpleNamespace(node_id=NODE_ID, images=self, controller=self)
        self.run(RegisterBroker(NODE_ID, 1, bytes(16), None, (), (bytes(15) + b"\1",), "c"))
        self.run(CreateTopics((NewTopic("t", 1, 1),)))

    def run(self, command: Any) -> Any:
        decision = decide(self.image, command, self.rules, random.Random(1))
        delta = MetadataDelta(self.image).replay_all(decision.records)
        self.image = delta.apply(self.image.offset + len(decision.records))
        self.live.apply_dynamic(
            self.image.config(ResourceType.BROKER, str(NODE_ID)), self.image.config(ResourceType.BROKER, "")
        )
        return decision.reply

    async def submit(self, command: Any) -> Any:
        return self.run(command)

    def context(self, api_version: int = 1) -> Any:
        self.services.settings = self.live.current
        return SimpleNamespace(services=self.services, api_version=api_version)

    # -- the calls ---------------------------------------------------------------------------------------------------

    def describe(self, kind: int, name: str, keys: list[str] | None = None, **options: bool) -> Any:
        resource = describing.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        request = describing.DescribeConfigsRequest(resources=[resource], **options)
        (result,) = describe_configs.handle(request, self.context()).results
        return result

    def value(self, kind: int, name: str, key: str) -> str | None:
        (entry,) = self.describe(kind, name, [key]).configs
        return entry.value  # type: ignore[no-any-return]

    def edit(self, kind: int, name: str, *edits: tuple[str, int, str | None], validate_only: bool = False) -> Any:
        configs = [
            incremental.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in edits
        ]
        resource = incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        request = incremental.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        (response,) = asyncio.run(incremental_alter_configs.handle(request, self.context())).responses
        return response

    def replace(self, kind: int, name: str, values: dict[str, str | None]) -> Any:
        configs = [legacy.AlterableConfig(name=key, value=value) for key, value in values.items()]
        resource = legacy.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        request = legacy.AlterConfigsRequest(resources=[resource], validate_only=False)
        (response,) = asyncio.run(alter_configs.handle(request, self.context())).responses
        return response


@pytest.fixture
def loggers() -> Iterator[logging.Logger]:
    logger = logging.getLogger("moldau.test.handlers")
    yield logger
    logger.setLevel(logging.NOTSET)


# -- DescribeConfigs -------------------------------------------------------------------------------------------------


def test_a_topic_is_described_with_every_key() -> None:
    result = Cluster().describe(ResourceType.TOPIC, "t")
    assert result.error_code == 0
    assert len(result.configs) == 33
    entry = next(entry for entry in result.configs if entry.name == "segment.bytes")
    assert (entry.value, entry.config_source, entry.config_type, entry.documentation, entry.synonyms) == (
        "1073741824",
        ConfigSource.DEFAULT,
        3,
        None,
        [],
    )


@pytest.mark.parametrize("keys", [None, []])
def test_no_keys_means_all_keys(keys: list[str] | None) -> None:
    assert len(Cluster().describe(ResourceType.TOPIC, "t", keys).configs) == 33


def test_synonyms_and_documentation_come_when_asked_for() -> None:
    result = Cluster().describe(
        ResourceType.TOPIC, "t", ["segment.bytes"], include_synonyms=True, include_documentation=True
    )
    (entry,) = result.configs
    assert entry.documentation
    assert [synonym.name for synonym in entry.synonyms] == ["log.segment.bytes"]


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (ResourceType.TOPIC, "absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ResourceType.TOPIC, "bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (ResourceType.BROKER, "2", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER, "one", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER_LOGGER, "", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER_LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (ResourceType.GROUP, "", ErrorCode.INVALID_REQUEST),
        (ResourceType.CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
        (0, "x", ErrorCode.INVALID_REQUEST),
        (77, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_described_is_refused_with_words(kind: int, name: str, code: ErrorCode) -> None:
    result = Cluster().describe(kind, name)
    assert result.error_code == code
    assert result.error_message
    assert result.configs == []


def test_groups_and_metrics_subscriptions_need_not_exist() -> None:
    cluster = Cluster()
    assert len(cluster.describe(ResourceType.GROUP, "g").configs) == 17
    assert len(cluster.describe(ResourceType.CLIENT_METRICS, "m").configs) == 3


def test_a_brokers_secrets_stay_hidden() -> None:
    cluster = Cluster(**{"ssl.key.password": "hunter2"})
    (entry,) = cluster.describe(ResourceType.BROKER, "1", ["ssl.key.password"], include_synonyms=True).configs
    assert (entry.value, entry.is_sensitive) == (None, True)
    assert all(synonym.value is None for synonym in entry.synonyms)


@pytest.mark.parametrize("kind", [ResourceType.TOPIC, ResourceType.BROKER, ResourceType.BROKER_LOGGER])
def test_answers_survive_every_version_of_the_codec(kind: ResourceType, loggers: logging.Logger) -> None:
    cluster = Cluster()
    resource = describing.DescribeConfigsResource(
        resource_type=kind, resource_name="t" if kind is ResourceType.TOPIC else "1", configuration_keys=None
    )
    request = describing.DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
    response = describe_configs.handle(request, cluster.context())
    spec = API_SPECS[ApiKey.DESCRIBE_CONFIGS]
    for version in range(spec.min_version, spec.max_version + 1):
        writer = Writer()
        encode_response(ApiKey.DESCRIBE_CONFIGS, version, response, writer)
        decoded: Any = decode_response(ApiKey.DESCRIBE_CONFIGS, version, Reader(writer.take_bytes()))
        sent = [(entry.name, entry.value) for entry in response.results[0].configs]
        assert [(entry.name, entry.value) for entry in decoded.results[0].configs] == sent
        assert sent


# -- IncrementalAlterConfigs -----------------------------------------------------------------------------------------


def test_set_and_delete_change_a_topic() -> None:
    cluster = Cluster()
    assert cluster.edit(ResourceType.TOPIC, "t", ("retention.ms", SET, "5")).error_code == 0
    assert cluster.value(ResourceType.TOPIC, "t", "retention.ms") == "5"
    assert cluster.edit(ResourceType.TOPIC, "t", ("retention.ms", DELETE, None)).error_code == 0
    assert cluster.value(ResourceType.TOPIC, "t", "retention.ms") == "604800000"


def test_append_and_subtract_work_on_lists_from_the_default() -> None:
    cluster = Cluster()
    assert cluster.edit(ResourceType.TOPIC, "t", ("cleanup.policy", APPEND, "compact")).error_code == 0
    assert cluster.value(ResourceType.TOPIC, "t", "cleanup.policy") == "delete,compact"
    assert cluster.edit(ResourceType.TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete,compact")).error_code == 0
    assert cluster.value(ResourceType.TOPIC, "t", "cleanup.policy") == ""
    refused = cluster.edit(ResourceType.TOPIC, "t", ("retention.ms", APPEND, "5"))
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert "because its type is not LIST" in refused.error_message


@pytest.mark.parametrize(
    ("kind", "name", "edits", "code", "words"),
    [
        (ResourceType.TOPIC, "absent", [("retention.ms", SET, "1")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "absent"),
        (ResourceType.TOPIC, "t", [("retentionms", SET, "1")], ErrorCode.INVALID_CONFIG, "Unknown topic config name"),
        (ResourceType.TOPIC, "t", [("segment.bytes", SET, "1")], ErrorCode.INVALID_CONFIG, "at least 1048576"),
        (ResourceType.TOPIC, "t", [("flush.ms", SET, None)], ErrorCode.INVALID_REQUEST, "Null value not supported"),
        (
            ResourceType.TOPIC,
            "t",
            [("flush.ms", SET, "1"), ("flush.ms", DELETE, None)],
            ErrorCode.INVALID_REQUEST,
            "duplicate config keys",
        ),
        (ResourceType.TOPIC, "t", [("flush.ms", 9, "1")], ErrorCode.INVALID_REQUEST, "Unknown operations type 9"),
        (ResourceType.BROKER, "2", [("message.max.bytes", SET, "1")], ErrorCode.INVALID_REQUEST, "expected 1, but"),
        (ResourceType.BROKER, "x", [("message.max.bytes", SET, "1")], ErrorCode.INVALID_REQUEST, "must be an integer"),
        (ResourceType.BROKER, "1", [("num.partitions", SET, "3")], ErrorCode.INVALID_REQUEST, "dynamically"),
        (ResourceType.BROKER, "1", [("message.max.bytes", APPEND, "3")], ErrorCode.INVALID_CONFIG, "not LIST"),
        (ResourceType.CLIENT_METRICS, "m", [("interval.ms", SET, "9")], ErrorCode.INVALID_REQUEST, "between 100"),
        (ResourceType.CLIENT_METRICS, "m", [("match", SET, "x")], ErrorCode.INVALID_CONFIG, "Illegal client"),
        (ResourceType.CLIENT_METRICS, "", [("interval.ms", SET, "900")], ErrorCode.INVALID_REQUEST, "be empty"),
        (
            ResourceType.GROUP,
            "",
            [("consumer.session.timeout.ms", SET, "50000")],
            ErrorCode.INVALID_REQUEST,
            "not allowed",
        ),
        (ResourceType.TOPIC, "", [("flush.ms", SET, "1")], ErrorCode.INVALID_REQUEST, "Default topic resources"),
        (5, "x", [("a", SET, "b")], ErrorCode.INVALID_REQUEST, "resource type 5"),
    ],
)
def test_what_cannot_be_altered_is_refused_and_changes_nothing(
    kind: int, name: str, edits: list[tuple[str, int, str | None]], code: ErrorCode, words: str
) -> None:
    cluster = Cluster()
    before = cluster.image
    response = cluster.edit(kind, name, *edits)
    assert response.error_code == code
    assert words in response.error_message
    assert cluster.image.configs == before.configs


def test_one_bad_key_refuses_all_edits_of_its_resource() -> None:
    cluster = Cluster()
    response = cluster.edit(ResourceType.TOPIC, "t", ("flush.ms", SET, "7"), ("segment.bytes", SET, "1"))
    assert response.error_code == ErrorCode.INVALID_CONFIG
    assert cluster.value(ResourceType.TOPIC, "t", "flush.ms") != "7"


def test_validate_only_answers_and_changes_nothing() -> None:
    cluster = Cluster()
    assert cluster.edit(ResourceType.TOPIC, "t", ("flush.ms", SET, "7"), validate_only=True).error_code == 0
    assert cluster.value(ResourceType.TOPIC, "t", "flush.ms") != "7"
    bad = cluster.edit(ResourceType.TOPIC, "t", ("flush.ms", SET, "-7"), validate_only=True)
    assert bad.error_code == ErrorCode.INVALID_CONFIG


def test_dynamic_broker_settings_take_effect_and_show_their_source() -> None:
    cluster = Cluster()
    assert cluster.edit(ResourceType.BROKER, "", ("log.retention.ms", SET, "6")).error_code == 0
    assert cluster.edit(ResourceType.BROKER, "1", ("message.max.bytes", SET, "2000")).error_code == 0
    assert cluster.live.current.log_settings().retention_ms == 6
    (entry,) = cluster.describe(ResourceType.BROKER, "1", ["message.max.bytes"]).configs
    assert (entry.value, entry.config_source, entry.read_only) == ("2000", ConfigSource.DYNAMIC_BROKER, False)
    (entry,) = cluster.describe(ResourceType.TOPIC, "t", ["retention.ms"]).configs
    assert (entry.value, entry.config_source) == ("6", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    found = {entry.name: entry.value for entry in cluster.describe(ResourceType.BROKER, "").configs}
    assert found == {"log.retention.ms": "6", "min.insync.replicas": "1"}


def test_the_least_in_sync_set_is_a_setting_of_the_cluster_and_not_of_a_broker() -> None:
    cluster = Cluster(**{"min.insync.replicas": "2"})
    for kind, name in ((ResourceType.BROKER, "1"), (ResourceType.BROKER, ""), (ResourceType.TOPIC, "t")):
        (entry,) = cluster.describe(kind, name, ["min.insync.replicas"]).configs
        assert (entry.value, entry.config_source) == ("2", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    refused = cluster.edit(ResourceType.BROKER, "1", ("min.insync.replicas", SET, "1"))
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert cluster.edit(ResourceType.BROKER, "", ("min.insync.replicas", SET, "1")).error_code == 0
    assert cluster.value(ResourceType.TOPIC, "t", "min.insync.replicas") == "1"


def test_resources_named_twice_are_all_refused() -> None:
    cluster = Cluster()
    edit = incremental.AlterableConfig(name="flush.ms", config_operation=SET, value="7")
    resource = incremental.AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name="t", configs=[edit])
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource, resource], validate_only=False)
    responses = asyncio.run(incremental_alter_configs.handle(request, cluster.context())).responses
    assert [response.error_code for response in responses] == [ErrorCode.INVALID_REQUEST] * 2


def test_many_resources_are_not_compared_each_with_each() -> None:
    class Name(str):
        __slots__ = ()
        compared = 0

        def __eq__(self, other: object) -> bool:
            Name.compared += 1
            return str.__eq__(self, other)  # type: ignore[no-any-return]

        __hash__ = str.__hash__

    resources = [
        incremental.AlterConfigsResource(resource_type=ResourceType.TOPIC, resource_name=Name(f"t-{number}"))
        for number in range(200)
    ]
    request = incremental.IncrementalAlterConfigsRequest(resources=resources)
    responses = asyncio.run(incremental_alter_configs.handle(request, Cluster().context())).responses
    assert len(responses) == 200
    assert Name.compared < 20 * 200


def test_a_controller_that_refuses_refuses_every_resource_passed_on() -> None:
    cluster = Cluster()

    class Gone:
        async def submit(self, command: Any) -> Refused:
            return Refused(ErrorCode.NOT_CONTROLLER, "moved")

    cluster.services.controller = Gone()
    assert cluster.edit(ResourceType.TOPIC, "t", ("flush.ms", SET, "7")).error_code == ErrorCode.NOT_CONTROLLER
    assert cluster.replace(ResourceType.TOPIC, "t", {}).error_code == ErrorCode.NOT_CONTROLLER


# -- log levels ------------------------------------------------------------------------------------------------------


def test_log_levels_are_changed_on_the_spot(loggers: logging.Logger) -> None:
    cluster = Cluster()
    assert cluster.edit(ResourceType.BROKER_LOGGER, "1", (loggers.name, SET, "TRACE")).error_code == 0
    assert cluster.value(ResourceType.BROKER_LOGGER, "1", loggers.name) == "TRACE"
    assert cluster.edit(ResourceType.BROKER_LOGGER, "1", (loggers.name, DELETE, None)).error_code == 0
    assert loggers.level == logging.NOTSET


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (("moldau.test.handlers", SET, "LOUD"), ErrorCode.INVALID_CONFIG),
        (("moldau.test.nobody", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        (("root", DELETE, None), ErrorCode.INVALID_REQUEST),
        (("root", APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_bad_log_levels_are_refused_and_change_nothing(
    edit: tuple[str, int, str | None], code: ErrorCode, loggers: logging.Logger
) -> None:
    cluster = Cluster()
    companion = logging.getLogger("moldau.test.companion").name
    before = logger_levels()
    assert cluster.edit(ResourceType.BROKER_LOGGER, "1", (companion, SET, "FATAL"), edit).error_code == code
    assert logger_levels() == before
    assert cluster.edit(ResourceType.BROKER_LOGGER, "1", edit).error_code == code
    assert cluster.edit(ResourceType.BROKER_LOGGER, "", edit).error_code == ErrorCode.INVALID_REQUEST


def test_log_levels_can_be_validated_only(loggers: logging.Logger) -> None:
    cluster = Cluster()
    response = cluster.edit(ResourceType.BROKER_LOGGER, "1", (loggers.name, SET, "FATAL"), validate_only=True)
    assert response.error_code == 0
    assert loggers.level == logging.NOTSET


# -- AlterConfigs ----------------------------------------------------------------------------------------------------


def test_the_old_call_replaces_everything() -> None:
    cluster = Cluster()
    cluster.edit(ResourceType.TOPIC, "t", ("flush.ms", SET, "7"))
    assert cluster.replace(ResourceType.TOPIC, "t", {"retention.ms": "5"}).error_code == 0
    assert cluster.image.config(ResourceType.TOPIC, "t") == {"retention.ms": "5"}


@pytest.mark.parametrize(
    ("kind", "name", "values", "code"),
    [
        (ResourceType.TOPIC, "t", {"flush.ms": None}, ErrorCode.INVALID_REQUEST),
        (ResourceType.TOPIC, "t", {"flush.ms": "x"}, ErrorCode.INVALID_CONFIG),
        (ResourceType.TOPIC, "absent", {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ResourceType.TOPIC, "", {}, ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER, "2", {}, ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER_LOGGER, "1", {"root": "INFO"}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_the_old_call_refuses_likewise(kind: int, name: str, values: dict[str, str | None], code: ErrorCode) -> None:
    response = Cluster().replace(kind, name, values)
    assert response.error_code == code
    assert response.error_message


# -- ListConfigResources ---------------------------------------------------------------------------------------------


def listed(cluster: Cluster, version: int, *types: int) -> list[tuple[int, str]] | int:
    request = ListConfigResourcesRequest(resource_types=list(types))
    response = list_config_resources.handle(request, cluster.context(version))
    if response.error_code:
        return response.error_code
    return [(resource.resource_type, resource.resource_name) for resource in response.config_resources]


def test_resources_with_configurations_are_listed() -> None:
    cluster = Cluster()
    cluster.edit(ResourceType.GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))
    cluster.edit(ResourceType.CLIENT_METRICS, "m", ("interval.ms", SET, "1000"))
    everything = [(32, "g"), (16, "m"), (8, "1"), (4, "1"), (2, "t")]
    assert listed(cluster, 1) == everything
    assert listed(cluster, 1, ResourceType.TOPIC, ResourceType.GROUP) == [(32, "g"), (2, "t")]


def test_version_0_knows_only_client_metrics() -> None:
    cluster = Cluster()
    cluster.edit(ResourceType.CLIENT_METRICS, "m", ("interval.ms", SET, "1000"))
    assert listed(cluster, 0) == [(16, "m")]
    assert listed(cluster, 1, 7) == ErrorCode.UNSUPPORTED_VERSION
