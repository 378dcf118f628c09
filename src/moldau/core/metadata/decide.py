"""One door to all decisions: which function answers which command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from moldau.core.metadata import commands as c
from moldau.core.metadata.decide_brokers import (
    decide_allocate_producer_ids,
    decide_register_broker,
    decide_unregister_broker,
)
from moldau.core.metadata.decide_configs import decide_alter_configs, decide_incremental_alter_configs
from moldau.core.metadata.decide_features import decide_update_features
from moldau.core.metadata.decide_replicas import decide_adopt_topics, decide_assign_directories
from moldau.core.metadata.decide_topics import decide_create_partitions, decide_create_topics, decide_delete_topics
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.rules import Chance, MetadataRules

_DECIDERS: Final[dict[type, Callable[[MetadataImage, Any, MetadataRules, Chance], c.Decision]]] = {
    c.CreateTopics: decide_create_topics,
    c.DeleteTopics: lambda image, command, rules, chance: decide_delete_topics(image, command),
    c.CreatePartitions: lambda image, command, rules, chance: decide_create_partitions(image, command, rules),
    c.AdoptTopics: lambda image, command, rules, chance: decide_adopt_topics(image, command),
    c.AssignDirectories: lambda image, command, rules, chance: decide_assign_directories(image, command),
    c.IncrementalAlterConfigs: lambda image, command, rules, chance: decide_incremental_alter_configs(
        image, command, rules
    ),
    c.AlterConfigs: lambda image, command, rules, chance: decide_alter_configs(image, command, rules),
    c.RegisterBroker: lambda image, command, rules, chance: decide_register_broker(image, command, rules),
    c.UnregisterBroker: lambda image, command, rules, chance: decide_unregister_broker(image, command),
    c.AllocateProducerIds: lambda image, command, rules, chance: decide_allocate_producer_ids(image, command),
    c.UpdateFeatures: lambda image, command, rules, chance: decide_update_features(image, command, rules),
}


def decide(image: MetadataImage, command: c.Command, rules: MetadataRules, chance: Chance) -> c.Decision:
    """Pure: reads the image, changes nothing. Applying the records is the caller's work, once they are durable."""
    return _DECIDERS[type(command)](image, command, rules, chance)
