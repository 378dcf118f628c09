"""Questions about so many things that the broker answers them a slice at a time."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType  # type: ignore[attr-defined]

MANY = 100
SECONDS = 60


def test_the_settings_of_many_topics(bootstrap: str, unique: Callable[[], str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = [unique() for _ in range(MANY)]
    topics = [NewTopic(name, 1, 1, config={"retention.ms": str(1000 + place)}) for place, name in enumerate(names)]
    for done in admin.create_topics(topics).values():
        done.result(SECONDS)
    found = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in names])
    told = {resource.name: answer.result(SECONDS)["retention.ms"].value for resource, answer in found.items()}
    assert told == {name: str(1000 + place) for place, name in enumerate(names)}


def test_what_many_groups_are(bootstrap: str, unique: Callable[[], str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topic = unique()
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(SECONDS)
    groups = [unique() for _ in range(MANY)]
    for place, group in enumerate(groups):
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, place)])
        admin.alter_consumer_group_offsets([asked])[group].result(SECONDS)
    described = admin.describe_consumer_groups(groups)
    assert {group: answer.result(SECONDS).group_id for group, answer in described.items()} == {
        group: group for group in groups
    }
