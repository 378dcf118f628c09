"""The facts of which a cluster's metadata is the sum, and their encoding in the metadata log.

Records are past facts (`TopicCreated`), the only thing that ever changes an image (`delta.py`), and they outlive the
program that wrote them. So the encoding is explicit: `["TopicCreated", 0, {"topic_id": "..", "name": ".."}]`, a JSON
array of kind, version and fields. A field may be added with a default (old records then read with the default), and a
reader ignores fields it does not know; only a change of meaning needs a new version. A kind nobody knows stops the
reader: skipping a fact would build another truth than the one that was agreed on.

Named tuples rather than dataclasses: forty frozen dataclasses cost a starting broker 50 ms, named tuples a fifth.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from moldau.model.failures import MoldauError
from moldau.model.ids import NO_TOPIC_ID

UNASSIGNED_DIRECTORY: Final = NO_TOPIC_ID
"""Directory id of a replica whose log directory its broker has not chosen yet (KIP-858)."""


class UnreadableRecord(MoldauError):
    """The metadata log holds something this version of moldau cannot read."""


class Endpoint(NamedTuple):
    """Where a broker is reached on one of its listeners. An empty host means: the address the client dialled."""

    listener: str
    host: str
    port: int
    security_protocol: str


class ClusterNamed(NamedTuple):
    cluster_id: str


class FeatureFinalised(NamedTuple):
    """Level 0 takes the feature away."""

    name: str
    level: int


class BrokerRegistered(NamedTuple):
    node_id: int
    broker_epoch: int
    incarnation_id: bytes
    rack: str | None
    endpoints: tuple[Endpoint, ...]
    directories: tuple[bytes, ...]
    fenced: bool = False


class BrokerUnregistered(NamedTuple):
    node_id: int
    broker_epoch: int


class TopicCreated(NamedTuple):
    topic_id: bytes
    name: str


class PartitionAdded(NamedTuple):
    topic_id: bytes
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...]
    """Parallel to `replicas`."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


class PartitionChanged(NamedTuple):
    """None leaves a field as it was. The partition epoch rises by one with every change; the leader epoch rises with
    every election, also when the same broker is elected again."""

    topic_id: bytes
    partition: int
    leader: int | None = None
    new_leader_epoch: bool = False
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    directories: tuple[bytes, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


class TopicRemoved(NamedTuple):
    topic_id: bytes


class TopicBuried(NamedTuple):
    """Only in snapshots: a topic that was removed before. A broker that was down then knows by it that the log it
    still holds was deleted on purpose, and is not a stranger's."""

    topic_id: bytes


class ConfigChanged(NamedTuple):
    """A value of None deletes the key. Resource types are the protocol's (`model.options.ResourceType`)."""

    resource_type: int
    resource_name: str
    key: str
    value: str | None


class ProducerIdsAllocated(NamedTuple):
    node_id: int
    broker_epoch: int
    next_producer_id: int


Record: TypeAlias = (
    ClusterNamed
    | FeatureFinalised
    | BrokerRegistered
    | BrokerUnregistered
    | TopicCreated
    | PartitionAdded
    | PartitionChanged
    | TopicRemoved
    | TopicBuried
    | ConfigChanged
    | ProducerIdsAllocated
)

_VERSIONS: Final[dict[type, int]] = {
    ClusterNamed: 0,
    FeatureFinalised: 0,
    BrokerRegistered: 0,
    BrokerUnregistered: 0,
    TopicCreated: 0,
    PartitionAdded: 0,
    PartitionChanged: 0,
    TopicRemoved: 0,
    TopicBuried: 0,
    ConfigChanged: 0,
    ProducerIdsAllocated: 0,
}
"""What is written today. Readers accept this version and every lower one."""


def _hex_tuple(value: list[str]) -> tuple[bytes, ...]:
    return tuple(map(bytes.fromhex, value))


def _endpoints(value: list[list[Any]]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(*item) for item in value)


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "bytes": bytes.fromhex,
    "tuple[int, ...]": tuple,
    "tuple[bytes, ...]": _hex_tuple,
    "tuple[Endpoint, ...]": _endpoints,
}
"""How a field's declared type reads its JSON value; types not listed are JSON's own."""


def _reader_of(annotation: object) -> Callable[[Any], Any] | None:
    text = getattr(annotation, "__forward_arg__", annotation)
    return _READERS.get(str(text).removesuffix(" | None"))


class _Shape(NamedTuple):
    kind: type
    version: int
    readers: dict[str, Callable[[Any], Any] | None]


_SHAPES: Final[dict[str, _Shape]] = {
    kind.__name__: _Shape(kind, version, {name: _reader_of(note) for name, note in kind.__annotations__.items()})
    for kind, version in _VERSIONS.items()
}


def _json_value(value: object) -> object:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return [_json_value(item) for item in value]
    return value


def encode_record(record: Record) -> bytes:
    defaults = record._field_defaults
    fields = {
        name: _json_value(value)
        for name, value in zip(record._fields, record, strict=True)
        if name not in defaults or value != defaults[name]
    }
    kind = type(record)
    return json.dumps([kind.__name__, _VERSIONS[kind], fields], separators=(",", ":")).encode()


def decode_record(data: bytes) -> Record:
    try:
        name, version, fields = json.loads(data)
        shape = _SHAPES[name]
    except KeyError:
        raise UnreadableRecord(
            f"the metadata log holds a {name!r} record, which this version of moldau does not know; "
            "it was written by a newer version: start that one"
        ) from None
    except (ValueError, TypeError) as problem:
        raise UnreadableRecord(f"damaged metadata record {data[:80]!r}: {problem}") from problem
    if version > shape.version:
        raise UnreadableRecord(f"{name} record of version {version}; this moldau reads up to {shape.version}")
    try:
        return _build(shape, fields)
    except (ValueError, TypeError) as problem:
        raise UnreadableRecord(f"damaged metadata record {data[:80]!r}: {problem}") from problem


def _build(shape: _Shape, fields: dict[str, Any]) -> Record:
    values = {}
    for name, value in fields.items():
        if name in shape.readers:
            reader = shape.readers[name]
            values[name] = value if reader is None or value is None else reader(value)
    record: Record = shape.kind(**values)
    return record
