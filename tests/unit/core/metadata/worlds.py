"""Small clusters to decide in."""

from __future__ import annotations

import random
from collections.abc import Mapping

from moldau.core.metadata.commands import Command, Decision, NewTopic
from moldau.core.metadata.decide import decide
from moldau.core.metadata.delta import MetadataDelta
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.records import BrokerRegistered, ClusterNamed, Record
from moldau.core.metadata.rules import MetadataRules


class PickyJudge:
    """Knows two keys: a number and a list."""

    def problem(self, resource_type: int, resource_name: str, values: Mapping[str, str]) -> str | None:
        for key, value in values.items():
            if key not in ("retention.ms", "cleanup.policy"):
                return f"Unknown topic config name: {key}"
            if key == "retention.ms" and not value.lstrip("-").isdigit():
                return f"Invalid value {value} for configuration retention.ms: Not a number of type LONG"
        return None

    def is_list(self, resource_type: int, key: str) -> bool:
        return key == "cleanup.policy"

    def default(self, resource_type: int, key: str) -> str | None:
        return "delete" if key == "cleanup.policy" else None


def image_of(*records: Record, before: MetadataImage | None = None) -> MetadataImage:
    start = before or MetadataImage()
    image = MetadataDelta(start).replay_all(records).apply(start.offset + len(records))
    image.validate()
    return image


def brokers(count: int, *, fenced: tuple[int, ...] = (), racks: Mapping[int, str] | None = None) -> MetadataImage:
    racks = racks or {}
    registered = [
        BrokerRegistered(node, node, bytes(16), racks.get(node), (), (bytes([node]) * 16,), node in fenced)
        for node in range(1, count + 1)
    ]
    return image_of(ClusterNamed("cluster"), *registered)


def ask(
    image: MetadataImage, command: Command, *, rules: MetadataRules | None = None, seed: int = 1
) -> tuple[Decision, MetadataImage]:
    """Decide, apply, check every invariant."""
    decision = decide(image, command, rules or MetadataRules(PickyJudge()), random.Random(seed))
    return decision, image_of(*decision.records, before=image)


def topic(name: str, partitions: int = 1, replication_factor: int = 1) -> NewTopic:
    return NewTopic(name, partitions, replication_factor)
