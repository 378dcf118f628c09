"""Decisions about topics: create, delete, add partitions.

Codes and wording follow Kafka's controller, because clients show them to people. One request may mix good and bad
entries; each gets its own outcome, and later entries see what earlier ones of the same request made.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

from moldau.core.metadata.commands import (
    DEFAULT,
    CreatedTopic,
    CreatePartitions,
    CreatePartitionsReply,
    CreateTopics,
    CreateTopicsReply,
    Decision,
    DeletedTopic,
    DeleteTopics,
    DeleteTopicsReply,
    GrownTopic,
    MorePartitions,
    NewTopic,
    TopicRef,
)
from moldau.core.metadata.image import MetadataImage, TopicImage
from moldau.core.metadata.placement import Load, candidates_of, load_of, place
from moldau.core.metadata.records import (
    UNASSIGNED_DIRECTORY,
    ConfigChanged,
    PartitionAdded,
    Record,
    TopicCreated,
    TopicRemoved,
)
from moldau.core.metadata.rules import PARTITIONS_PER_REQUEST_MAX, Chance, MetadataRules
from moldau.model.errors import ErrorCode, Refused
from moldau.model.ids import INTERNAL_TOPICS, NO_TOPIC_ID, collision_key, topic_name_problem
from moldau.model.options import ResourceType

T = TypeVar("T")

CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
"""Kafka's own name for its metadata log: nobody may create a topic of that name."""


# -- create ----------------------------------------------------------------------------------------------------------


def decide_create_topics(image: MetadataImage, command: CreateTopics, rules: MetadataRules, chance: Chance) -> Decision:
    creation = _Creation(image, rules, chance)
    repeated = _repeated(topic.name for topic in command.topics)
    outcomes = tuple(
        Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name.") if topic.name in repeated else creation.add(topic)
        for topic in command.topics
    )
    return Decision(() if command.validate_only else tuple(creation.records), CreateTopicsReply(outcomes))


class _Creation:
    """The topics of one request so far; nothing of it is real until its records are applied."""

    def __init__(self, image: MetadataImage, rules: MetadataRules, chance: Chance) -> None:
        self.image = image
        self.rules = rules
        self.chance = chance
        self.records: list[Record] = []
        self.load = load_of(image)
        self.collisions: dict[str, str] = {}
        self.partitions = 0
        self.existing = partitions_in(image)

    def add(self, topic: NewTopic) -> CreatedTopic | Refused:
        refused = self._name_refused(topic.name) or self._config_refused(topic)
        if refused is not None:
            return refused
        placed = self._place(topic)
        if isinstance(placed, Refused):
            return placed
        if self.rules.policy is not None:
            violation = self.rules.policy(topic)
            if violation is not None:
                return Refused(ErrorCode.POLICY_VIOLATION, violation)
        self.partitions += len(placed)
        self.collisions[collision_key(topic.name)] = topic.name
        topic_id = new_topic_id(self.image, self.chance)
        self.records.append(TopicCreated(topic_id, topic.name))
        self.records.extend(ConfigChanged(ResourceType.TOPIC, topic.name, key, value) for key, value in topic.configs)
        self.records.extend(
            _new_partition(self.image, topic_id, index, replicas) for index, replicas in enumerate(placed)
        )
        return CreatedTopic(topic.name, topic_id, len(placed), len(placed[0]))

    def _name_refused(self, name: str) -> Refused | None:
        if name == CLUSTER_METADATA_TOPIC:
            return Refused(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        problem = topic_name_problem(name)
        if problem is not None:
            return Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
        if name in self.image.topics_by_name:
            return Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        key = collision_key(name)
        holder = self.image.names_by_collision_key.get(key) or self.collisions.get(key)
        if holder is not None:
            return Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {holder}")
        return None

    def _config_refused(self, topic: NewTopic) -> Refused | None:
        values: dict[str, str] = {}
        for key, value in topic.configs:
            if value is None:
                return Refused(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {key}")
            values[key] = value
        problem = self.rules.judge.problem(ResourceType.TOPIC, topic.name, values)
        return None if problem is None else Refused(ErrorCode.INVALID_CONFIG, problem)

    def _place(self, topic: NewTopic) -> list[tuple[int, ...]] | Refused:
        if topic.assignments:
            return self._place_by_hand(topic)
        partitions = self.rules.default_partitions if topic.partitions == DEFAULT else topic.partitions
        factor = topic.replication_factor
        if factor == DEFAULT:
            factor = self.rules.default_replication_factor
        if factor < 1:
            return Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if partitions < 1:
            return Refused(
                ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."
            )
        refused = self._too_many(topic, partitions)
        if refused is not None:
            return refused
        return place(candidates_of(self.image), self.load, partitions=partitions, replication_factor=factor)

    def _too_many(self, topic: NewTopic, partitions: int) -> Refused | None:
        if self.partitions + partitions > PARTITIONS_PER_REQUEST_MAX:
            return Refused(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
        if topic.name in INTERNAL_TOPICS:
            return None
        return over_budget(self.rules, self.existing + self.partitions, partitions)

    def _place_by_hand(self, topic: NewTopic) -> list[tuple[int, ...]] | Refused:
        for value, what in ((topic.replication_factor, "replication factor"), (topic.partitions, "numPartitions")):
            if value != DEFAULT:
                return Refused(
                    ErrorCode.INVALID_REQUEST,
                    f"A manual partition assignment was specified, but {what} was not set to -1.",
                )
        by_index: dict[int, tuple[int, ...]] = {}
        for index, replicas in topic.assignments:
            if index in by_index:
                return _bad_assignment(f"Found multiple manual partition assignments for partition {index}")
            by_index[index] = replicas
        if sorted(by_index) != list(range(len(by_index))):
            return _bad_assignment("partitions should be a consecutive 0-based integer sequence")
        refused = self._too_many(topic, len(by_index))
        if refused is not None:
            return refused
        placed = [by_index[index] for index in range(len(by_index))]
        refused = assignment_refused(self.image, placed, replication_factor=len(placed[0]))
        if refused is not None:
            return refused
        for replicas in placed:
            self.load.add(replicas, replicas[0])
        return placed


def partitions_in(image: MetadataImage) -> int:
    return sum(len(topic.partitions) for topic in image.topics_by_id.values())


def over_budget(rules: MetadataRules, existing: int, more: int) -> Refused | None:
    if existing + more <= rules.partitions_max:
        return None
    return Refused(
        ErrorCode.INVALID_PARTITIONS,
        f"There are {existing} partitions, and {more} more would be more than the {rules.partitions_max} this broker "
        "can hold with the open files (ulimit -n) and the memory it may use.",
    )


def assignment_refused(
    image: MetadataImage, placed: list[tuple[int, ...]], *, replication_factor: int
) -> Refused | None:
    """What is wrong with replica lists given by hand, in Kafka's words."""
    for index, replicas in enumerate(placed):
        if not replicas:
            return _bad_assignment("The manual partition assignment includes an empty replica list.")
        for node_id in replicas:
            if node_id not in image.brokers:
                return _bad_assignment(
                    f"The manual partition assignment includes broker {node_id}, but no such broker is registered."
                )
            if replicas.count(node_id) > 1:
                return _bad_assignment(f"The manual partition assignment includes the broker {node_id} more than once.")
        if len(replicas) != replication_factor:
            return _bad_assignment(
                f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is "
                f"not consistent with previous partitions, which have {replication_factor} replica(s)."
            )
        if all(image.brokers[node_id].fenced for node_id in replicas):
            return _bad_assignment(
                f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
                "controlled shutdown."
            )
    return None


def _bad_assignment(detail: str) -> Refused:
    return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail)


def _new_partition(image: MetadataImage, topic_id: bytes, index: int, replicas: tuple[int, ...]) -> PartitionAdded:
    isr = tuple(node_id for node_id in replicas if not image.brokers[node_id].fenced)
    return PartitionAdded(
        topic_id=topic_id,
        partition=index,
        replicas=replicas,
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=tuple(default_directory(image, node_id) for node_id in replicas),
    )


def default_directory(image: MetadataImage, node_id: int) -> bytes:
    """A broker with one log directory leaves no choice; with several, it chooses and tells (`AssignDirectories`)."""
    directories = image.brokers[node_id].directories
    return directories[0] if len(directories) == 1 else UNASSIGNED_DIRECTORY


def new_topic_id(image: MetadataImage, chance: Chance) -> bytes:
    """A random UUID (version 4). Ids whose text starts with '-' trip command lines, so Kafka avoids them; we too."""
    while True:
        raw = bytearray(chance.randbytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        topic_id = bytes(raw)
        if raw[0] >> 2 != _BASE64_DASH and topic_id != NO_TOPIC_ID and topic_id not in image.topics_by_id:
            return topic_id


_BASE64_DASH: Final = 62
"""The six-bit value that URL-safe base64, the way Kafka prints ids, writes as '-'."""


# -- delete ----------------------------------------------------------------------------------------------------------


def decide_delete_topics(image: MetadataImage, command: DeleteTopics) -> Decision:
    repeated_names = _repeated(ref.name for ref in command.topics if ref.name is not None)
    repeated_ids = _repeated(ref.topic_id for ref in command.topics if ref.topic_id is not None)
    ids_given = {ref.topic_id for ref in command.topics if ref.topic_id is not None}
    outcomes: list[DeletedTopic | Refused] = []
    for ref in command.topics:
        if ref.name in repeated_names:
            outcomes.append(Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        elif ref.topic_id in repeated_ids:
            outcomes.append(Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic id."))
        else:
            outcomes.append(_delete_one(image, ref, ids_given))
    records = tuple(TopicRemoved(done.topic_id) for done in outcomes if isinstance(done, DeletedTopic))
    return Decision(records, DeleteTopicsReply(tuple(outcomes)))


def _delete_one(image: MetadataImage, ref: TopicRef, ids_given: set[bytes]) -> DeletedTopic | Refused:
    if ref.name is not None and ref.topic_id is not None:
        return Refused(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
    if ref.name is None and ref.topic_id is None:
        return Refused(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if ref.name is not None:
        topic = image.topics_by_name.get(ref.name)
        if topic is None:
            return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        if topic.topic_id in ids_given:
            return Refused(
                ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied."
            )
    else:
        assert ref.topic_id is not None
        topic = image.topics_by_id.get(ref.topic_id)
        if topic is None:
            return Refused(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    return DeletedTopic(topic.name, topic.topic_id)


# -- grow ------------------------------------------------------------------------------------------------------------


def decide_create_partitions(image: MetadataImage, command: CreatePartitions, rules: MetadataRules) -> Decision:
    records: list[Record] = []
    existing = partitions_in(image)
    load = load_of(image)
    repeated = _repeated(topic.name for topic in command.topics)
    outcomes: list[GrownTopic | Refused] = []
    for growth in command.topics:
        if growth.name in repeated:
            outcomes.append(Refused(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
            continue
        grown = _grow_one(image, growth, load, PARTITIONS_PER_REQUEST_MAX - len(records))
        if not isinstance(grown, Refused):
            grown = over_budget(rules, existing + len(records), len(grown)) or grown
        if isinstance(grown, Refused):
            outcomes.append(grown)
        else:
            records.extend(grown)
            outcomes.append(GrownTopic(growth.name, growth.partitions))
    return Decision(() if command.validate_only else tuple(records), CreatePartitionsReply(tuple(outcomes)))


def _grow_one(
    image: MetadataImage, growth: MorePartitions, load: Load, partitions_max: int
) -> list[PartitionAdded] | Refused:
    topic = image.topics_by_name.get(growth.name)
    if topic is None:
        return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    have, want = len(topic.partitions), growth.partitions
    if want == have:
        return Refused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
    if want < have:
        return Refused(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {growth.name} currently has {have} partition(s); {want} would not be an increase.",
        )
    if want - have > partitions_max:
        return Refused(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    placed = _place_growth(image, topic, growth, load)
    if isinstance(placed, Refused):
        return placed
    return [_new_partition(image, topic.topic_id, have + i, replicas) for i, replicas in enumerate(placed)]


def _place_growth(
    image: MetadataImage, topic: TopicImage, growth: MorePartitions, load: Load
) -> list[tuple[int, ...]] | Refused:
    added = growth.partitions - len(topic.partitions)
    factor = len(topic.partitions[0].replicas)
    if growth.assignments is None:
        return place(
            candidates_of(image),
            load,
            partitions=added,
            replication_factor=factor,
            first_index=len(topic.partitions),
        )
    if len(growth.assignments) != added:
        return _bad_assignment(
            f"Attempted to add {added} additional partition(s), but only {len(growth.assignments)} assignment(s) "
            "were specified."
        )
    placed = list(growth.assignments)
    refused = assignment_refused(image, placed, replication_factor=factor)
    return placed if refused is None else refused


def _repeated(items: Iterable[T]) -> set[T]:
    """Items that occur more than once; only ever tested for membership."""
    seen: set[T] = set()
    repeated: set[T] = set()
    for item in items:
        (repeated if item in seen else seen).add(item)
    return repeated
