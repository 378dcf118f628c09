"""What Kafka's own metadata log (`__cluster_metadata-0`) says about a log directory that moldau takes in.

Only what would be lost otherwise and could do harm then: overrides of topics and brokers (a compacted topic that came
back with the default policy would lose its oldest keys to retention) and the next free producer id (an id given out
twice would make a new producer look like the ghost of an old one). Everything else is on disk with the logs.

The files are an ordinary log of record batches whose values are Kafka's metadata records: frame version, record type,
record version, then the fields in flexible encoding. A snapshot `<offset>-<epoch>.checkpoint` stands for all before it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from moldau.model.failures import CorruptBatch, DiskFailed, WireError
from moldau.model.options import ResourceType
from moldau.ports import Disk
from moldau.records.batch import iterate_headers
from moldau.records.reader import iterate_batch
from moldau.storage.names import CLUSTER_METADATA_DIR, LOG_SUFFIX, offset_of
from moldau.wire.primitives import Reader

CHECKPOINT_SUFFIX: Final = ".checkpoint"
TOPIC_RECORD: Final = 2
CONFIG_RECORD: Final = 4
REMOVE_TOPIC_RECORD: Final = 9
PRODUCER_IDS_RECORD: Final = 15

log = logging.getLogger("moldau.node")


class KafkaMetadata:
    """The part of Kafka's metadata that is carried over."""

    def __init__(self) -> None:
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        """(resource type, resource name) -> overrides."""
        self.next_producer_id = 0
        self.found = False
        self.damaged = False
        self._names: dict[bytes, str] = {}

    def topic_configs(self, name: str) -> tuple[tuple[str, str], ...]:
        return tuple(sorted(self.configs.get((ResourceType.TOPIC, name), {}).items()))

    def knows(self, topic_id: bytes) -> bool:
        """Whether the overrides of a topic are known to be all there are."""
        return topic_id in self._names and not self.damaged

    def replay(self, value: bytes) -> None:
        reader = Reader(value)
        reader.uvarint()
        kind = int(reader.uvarint())
        reader.uvarint()
        if kind == TOPIC_RECORD:
            name = reader.compact_string()
            self._names[reader.uuid()] = name
        elif kind == REMOVE_TOPIC_RECORD:
            self.configs.pop((ResourceType.TOPIC, self._names.pop(reader.uuid(), "")), None)
        elif kind == CONFIG_RECORD:
            resource = (int(reader.i8()), reader.compact_string())
            self._replay_config(resource, reader.compact_string(), reader.compact_nullable_string())
        elif kind == PRODUCER_IDS_RECORD:
            reader.i32()
            reader.i64()
            self.next_producer_id = max(self.next_producer_id, int(reader.i64()))

    def _replay_config(self, resource: tuple[int, str], key: str, value: str | None) -> None:
        values = self.configs.setdefault(resource, {})
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value


def read_kafka_metadata(disk: Disk, directories: Iterable[str]) -> KafkaMetadata:
    """Everything readable in the first directory that has a metadata log. Damage ends the reading, with a warning."""
    metadata = KafkaMetadata()
    for directory in directories:
        folder = f"{directory}/{CLUSTER_METADATA_DIR}"
        if not disk.is_dir(folder):
            continue
        metadata.found = True
        try:
            for value in _values(disk, folder):
                metadata.replay(value)
        except (CorruptBatch, WireError, DiskFailed, FileNotFoundError) as problem:
            metadata.damaged = True
            log.warning("Kafka's metadata in %s is damaged; what follows the damage is not known: %s", folder, problem)
        break
    return metadata


def _values(disk: Disk, folder: str) -> Iterator[bytes]:
    names = disk.list(folder)
    checkpoints = [name for name in names if name.endswith(CHECKPOINT_SUFFIX) and name[:20].isdigit()]
    start = 0
    if checkpoints:
        newest = max(checkpoints)
        start = int(newest[:20])
        yield from _values_of(disk.read(f"{folder}/{newest}"), 0)
    for name in names:
        if name.endswith(LOG_SUFFIX) and offset_of(name) is not None:
            yield from _values_of(disk.read(f"{folder}/{name}"), start)


def _values_of(data: bytes, start_offset: int) -> Iterator[bytes]:
    for position, header in iterate_headers(data):
        if header.is_control or header.last_offset < start_offset:
            continue
        for record in iterate_batch(data, position, header):
            if record.value is not None and record.offset >= start_offset:
                yield record.value
