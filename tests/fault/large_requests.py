"""The most expensive request of every API: as many elements as asked for, about topics and groups that exist.

Encoded with kio, like the fuzzer's corpus.
"""

from __future__ import annotations

import dataclasses
import datetime
import types
import typing
import uuid
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any

from moldau.server.api_table import APIS, Api
from tests.fault.seeds import frame, request_classes
from tests.unit.server.harness import batch

PARTITIONS = 3
"""Of every topic of the world, and what an inner array holds."""

RECORDS = batch()

SKIPPED = {"UnregisterBroker"}
"""It would end the world, and has one field."""

CHANGING = ("DeleteRecords", "CreateTopics", "CreatePartitions", "DeleteTopics", "DeleteGroups")
"""Asked last: the others find the world as it was built."""


@dataclass(frozen=True)
class World:
    """What exists on the broker."""

    topics: list[str]
    topic_ids: list[uuid.UUID]
    groups: list[str]
    node_id: int = 1


@dataclass(frozen=True)
class Question:
    """One request, in the newest versions of its API (an answer kept for one of them is not the other's)."""

    api: str
    what: str
    frames: list[bytes]


def newest_versions(api: Api, count: int = 2) -> list[Any]:
    """Classes of the newest versions that are served and that kio knows."""
    kinds = [kind for kind in CLASSES.get(int(api.key), ()) if api.accepts(kind.__version__)]
    return sorted(kinds, key=lambda kind: -kind.__version__)[:count]


def questions(world: World, elements: int, only: Container[str] = ()) -> Iterator[Question]:
    """For each API a request with many elements, and one that asks for everything without naming it."""
    for api in sorted(APIS, key=lambda api: api.name in CHANGING and CHANGING.index(api.name) + 1):
        kinds = newest_versions(api)
        if api.name in SKIPPED or not kinds or (only and api.name not in only):
            continue
        many = min(elements, api.elements_max)
        if any(True for _ in _lists(kinds[0])):
            made = [frame(kind, Filler(world, many).fill(kind), 1) for kind in kinds]
            yield Question(api.name, f"{many:,} elements", made)
        named = 1 if api.name == "OffsetFetch" else 0  # the group at least
        yield Question(api.name, "everything", [frame(kind, Filler(world, named).fill(kind), 1) for kind in kinds])


def _lists(kind: Any) -> Iterator[str]:
    hints = typing.get_type_hints(kind)
    for field in dataclasses.fields(kind):
        if typing.get_origin(_plain(hints[field.name])) is tuple:
            yield field.name


def _plain(hint: Any) -> Any:
    """Without the None."""
    if isinstance(hint, types.UnionType):
        return next(option for option in typing.get_args(hint) if option is not type(None))
    return hint


class Filler:
    """Fills requests with what exists. `elements`: of all arrays together; 0 leaves them empty, or null."""

    def __init__(self, world: World, elements: int) -> None:
        self.world, self.elements = world, elements
        self.version = 0

    def fill(self, kind: Any) -> Any:
        self.version = kind.__version__
        return self._struct(kind, 0, outermost=True)

    def _struct(self, kind: Any, number: int, *, outermost: bool = False) -> Any:
        hints = typing.get_type_hints(kind)
        values = {}
        for field in dataclasses.fields(kind):
            hint, kafka_type = hints[field.name], field.metadata.get("kafka_type", "")
            nullable = isinstance(hint, types.UnionType) and type(None) in typing.get_args(hint)
            plain = _plain(hint)
            if typing.get_origin(plain) is tuple:
                if nullable and (self.elements == 0 or not outermost):
                    values[field.name] = None  # null means all of them, which is more than we would name
                else:
                    values[field.name] = self._array(typing.get_args(plain)[0], field.name, kafka_type, outermost)
            elif dataclasses.is_dataclass(plain):
                values[field.name] = None if nullable else self._struct(plain, number)
            else:
                values[field.name] = self._leaf(kind.__name__, field.name, kafka_type, number, plain)
        return kind(**values)

    def _array(self, element: Any, name: str, kafka_type: str, outermost: bool) -> Any:
        is_struct = dataclasses.is_dataclass(element)
        inner = PARTITIONS if is_struct and any(True for _ in _lists(element)) else 0
        count = max(min(1, self.elements), self.elements // (1 + inner)) if outermost else PARTITIONS
        if name in ("assignments", "configs") and not outermost:
            count = int(name == "configs")
        if is_struct:
            return tuple(self._struct(element, number) for number in range(count))
        return tuple(self._leaf("", name, kafka_type, number, element) for number in range(count))

    def _leaf(self, kind: str, name: str, kafka_type: str, number: int, hint: Any) -> Any:
        world = self.world
        match kafka_type:
            case "string":
                return self._text(kind, name, number)
            case "uuid":
                if kind == "DeleteTopicState":
                    return None
                return world.topic_ids[number % len(world.topic_ids)]
            case "records":
                return RECORDS
            case "bytes":
                return b""
            case "bool":
                return name in ("include_synonyms", "include_documentation")
            case "timedelta_i32" | "timedelta_i64":
                return datetime.timedelta(seconds=10 if name == "timeout" else 0)
            case "datetime_i64":
                return datetime.datetime.fromtimestamp(0, tz=datetime.UTC)
            case "float64":
                return 0.0
        return self._number(kind, name, number)

    def _number(self, kind: str, name: str, number: int) -> int:
        if "partition_ind" in name or name in ("partition", "partitions", "index"):
            return number % PARTITIONS
        if name in ("broker_id", "broker_ids", "replicas", "node_id"):
            return self.world.node_id
        if name == "resource_type":
            return 2  # topics
        if name in ("response_partition_limit", "partition_max_bytes", "max_bytes"):
            return 1_000_000
        fixed = {"num_partitions": 1, "replication_factor": 1, "count": PARTITIONS + 1, "acks": 1, "timestamp": -1}
        return fixed.get(name, -1 if "epoch" in name or "_id" in name else 0)

    def _text(self, kind: str, name: str, number: int) -> str:
        world = self.world
        if kind in ("CreatableTopic", "DeleteTopicState") or name == "topic_names":
            return f"new-{self.version % 2}-{number}"
        if "Config" in kind and name == "name":
            return "retention.ms"
        if name == "value":
            return "86400000"
        if "group" in name or name in ("key", "coordinator_keys"):
            return world.groups[number % len(world.groups)]
        if name in ("name", "topic", "topic_name", "resource_name", "topics", "subscribed_topic_names"):
            return world.topics[number % len(world.topics)]
        return ""


CLASSES: dict[int, list[Any]] = {}
for _kind in request_classes():
    CLASSES.setdefault(int(_kind.__api_key__), []).append(_kind)  # type: ignore[attr-defined]
