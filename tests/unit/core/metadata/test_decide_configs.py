from __future__ import annotations

import pytest

from moldau.core.metadata.commands import (
    AlterConfigs,
    AlterConfigsReply,
    ConfigEdit,
    ConfigEdits,
    ConfigOperation,
    ConfigReplacement,
    CreateTopics,
    IncrementalAlterConfigs,
)
from moldau.core.metadata.image import MetadataImage
from moldau.model.errors import ErrorCode, Refused
from moldau.model.options import ResourceType

from .worlds import ask, brokers, topic

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
TOPIC = ResourceType.TOPIC


@pytest.fixture
def image() -> MetadataImage:
    return ask(brokers(1), CreateTopics((topic("t"), topic("u"))))[1]


def edit(image: MetadataImage, *edits: ConfigEdit, name: str = "t", kind: int = TOPIC) -> tuple[object, MetadataImage]:
    decision, after = ask(image, IncrementalAlterConfigs((ConfigEdits(kind, name, edits),)))
    assert isinstance(decision.reply, AlterConfigsReply)
    return decision.reply.outcomes[0], after


def test_keys_are_set_and_deleted(image: MetadataImage) -> None:
    _, image = edit(image, ConfigEdit("retention.ms", SET, "5"), ConfigEdit("cleanup.policy", SET, "compact"))
    assert image.config(TOPIC, "t") == {"retention.ms": "5", "cleanup.policy": "compact"}
    _, image = edit(image, ConfigEdit("retention.ms", DELETE, None))
    assert image.config(TOPIC, "t") == {"cleanup.policy": "compact"}
    _, image = edit(image, ConfigEdit("cleanup.policy", DELETE, None))
    assert (TOPIC, "t") not in image.configs


def test_append_starts_from_the_default_and_never_repeats_an_element(image: MetadataImage) -> None:
    _, image = edit(image, ConfigEdit("cleanup.policy", APPEND, "compact"))
    assert image.config(TOPIC, "t")["cleanup.policy"] == "delete,compact"
    _, image = edit(image, ConfigEdit("cleanup.policy", APPEND, "compact,delete"))
    assert image.config(TOPIC, "t")["cleanup.policy"] == "delete,compact"


def test_subtract_takes_elements_out(image: MetadataImage) -> None:
    _, image = edit(image, ConfigEdit("cleanup.policy", SET, "delete,compact"))
    _, image = edit(image, ConfigEdit("cleanup.policy", SUBTRACT, "delete,absent"))
    assert image.config(TOPIC, "t")["cleanup.policy"] == "compact"


def test_a_value_that_is_there_already_makes_no_record(image: MetadataImage) -> None:
    _, image = edit(image, ConfigEdit("retention.ms", SET, "5"))
    decision, _ = ask(
        image, IncrementalAlterConfigs((ConfigEdits(TOPIC, "t", (ConfigEdit("retention.ms", SET, "5"),)),))
    )
    assert decision.records == ()


@pytest.mark.parametrize(
    ("kind", "name", "edits", "code"),
    [
        (TOPIC, "nope", [("retention.ms", SET, "5")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ResourceType.BROKER, "x", [("retention.ms", SET, "5")], ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER, "9", [("retention.ms", SET, "5")], ErrorCode.BROKER_ID_NOT_REGISTERED),
        (ResourceType.GROUP, "", [("retention.ms", SET, "5")], ErrorCode.INVALID_REQUEST),
        (ResourceType.UNKNOWN, "t", [("retention.ms", SET, "5")], ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", [("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", [("retention.ms", SET, "x")], ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", [("retention.ms", APPEND, "5")], ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", [("retention.ms", 7, "5")], ErrorCode.INVALID_REQUEST),
        (TOPIC, "t", [("retention.ms", SET, "5"), ("retention.ms", SET, "6")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_bad_edits_are_refused_and_change_nothing(
    image: MetadataImage, kind: int, name: str, edits: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    outcome, after = edit(image, *[ConfigEdit(*one) for one in edits], name=name, kind=kind)
    assert isinstance(outcome, Refused)
    assert outcome.code == code
    assert after == image


def test_one_bad_key_refuses_its_resource_and_leaves_the_others(image: MetadataImage) -> None:
    good = ConfigEdit("retention.ms", SET, "5")
    command = IncrementalAlterConfigs(
        (ConfigEdits(TOPIC, "t", (good, ConfigEdit("nope", SET, "1"))), ConfigEdits(TOPIC, "u", (good,)))
    )
    decision, after = ask(image, command)
    assert isinstance(decision.reply, AlterConfigsReply)
    assert isinstance(decision.reply.outcomes[0], Refused)
    assert after.config(TOPIC, "t") == {}
    assert after.config(TOPIC, "u") == {"retention.ms": "5"}


def test_a_resource_named_twice_is_refused_both_times(image: MetadataImage) -> None:
    twice = ConfigEdits(TOPIC, "t", (ConfigEdit("retention.ms", SET, "5"),))
    decision, after = ask(image, IncrementalAlterConfigs((twice, twice)))
    assert isinstance(decision.reply, AlterConfigsReply)
    assert all(isinstance(outcome, Refused) for outcome in decision.reply.outcomes)
    assert after == image


def test_the_old_call_replaces_everything(image: MetadataImage) -> None:
    _, image = edit(image, ConfigEdit("retention.ms", SET, "5"))
    replacement = ConfigReplacement(TOPIC, "t", (("cleanup.policy", "compact"),))
    _, dry = ask(image, AlterConfigs((replacement,), validate_only=True))
    assert dry == image
    _, image = ask(image, AlterConfigs((replacement,)))
    assert image.config(TOPIC, "t") == {"cleanup.policy": "compact"}


def test_brokers_have_settings_of_their_own_and_a_common_default(image: MetadataImage) -> None:
    _, image = edit(image, ConfigEdit("retention.ms", SET, "5"), name="", kind=ResourceType.BROKER)
    _, image = edit(image, ConfigEdit("retention.ms", SET, "6"), name="1", kind=ResourceType.BROKER)
    assert image.config(ResourceType.BROKER, "") == {"retention.ms": "5"}
    assert image.config(ResourceType.BROKER, "1") == {"retention.ms": "6"}
