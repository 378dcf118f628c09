"""What the three altering and describing config APIs share: which resource names are refused at this node, and which
error code Kafka gives for a bad value."""

from __future__ import annotations

from typing import Final

from moldau.model.errors import ErrorCode, Refused
from moldau.model.options import ResourceType

_JUDGED_BY_THE_REQUEST: Final = (ResourceType.BROKER, ResourceType.CLIENT_METRICS)
_STILL_INVALID_CONFIG: Final = ("Can't ", "Broker-level ", "Illegal client matching pattern")


def wrong_broker(name: str, node_id: int, alternative: str) -> Refused | None:
    """Why a resource name is not this broker's, or None. Only a broker itself knows its static settings."""
    digits = name[1:] if name[:1] in ("-", "+") else name
    if not digits.isascii() or not digits.isdigit():
        return Refused(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if name != str(node_id):
        return Refused(
            ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id}{alternative} but received {name}"
        )
    return None


def nameless(resource_type: int, name: str) -> Refused | None:
    """Only brokers have a common default resource, the one without a name."""
    if name:
        return None
    if resource_type == ResourceType.TOPIC:
        return Refused(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    if resource_type == ResourceType.GROUP:
        return Refused(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    if resource_type == ResourceType.CLIENT_METRICS:
        return Refused(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    return None


def as_kafka_says(resource_type: int, outcome: object) -> Refused | None:
    """The refusal to put into the answer, or None for success.

    Kafka answers a bad value of a topic or group with INVALID_CONFIG, but checks those of brokers and of client
    metrics subscriptions where it reads the request, and says INVALID_REQUEST there; of a subscription only what it
    can read as a value at all.
    """
    if not isinstance(outcome, Refused):
        return None
    unreadable = resource_type == ResourceType.CLIENT_METRICS and "for configuration" in outcome.detail
    moved = outcome.code is ErrorCode.INVALID_CONFIG and resource_type in _JUDGED_BY_THE_REQUEST and not unreadable
    if moved and not outcome.detail.startswith(_STILL_INVALID_CONFIG):
        return Refused(ErrorCode.INVALID_REQUEST, outcome.detail)
    return outcome
