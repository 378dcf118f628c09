"""Hosts this node's replicas: reacts to (delta, image), and brings disk and metadata together at start.

The rule is one-sided: metadata is the truth, the disk follows. What is on disk but not in the metadata is

- deleted, when the metadata remembers that its topic was removed (the node crashed before it could do so);
- set aside under a name ending in `-stray` otherwise: it may be somebody's only copy, and a person must decide.

What is in the metadata but not on disk is created empty, unless the metadata says it lies in a log directory that is
not there: then the partition stays offline rather than come back without its records.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from moldau.broker.found_logs import Standing, standing_of
from moldau.broker.partition import Partition
from moldau.broker.partitions import PartitionTable
from moldau.core.log.settings import LogSettings
from moldau.core.metadata.commands import ReplicaDirectory
from moldau.core.metadata.delta import MetadataDelta
from moldau.core.metadata.image import MetadataImage, PartitionImage, TopicImage
from moldau.core.metadata.records import UNASSIGNED_DIRECTORY
from moldau.model.failures import DiskFailed, DiskHungry
from moldau.model.ids import TopicPartition
from moldau.model.options import ResourceType
from moldau.ports import Disk
from moldau.runtime.tasks import TaskScope
from moldau.storage.directory import LogDirectory
from moldau.storage.log_dirs import LogDirs
from moldau.storage.names import PARTITION_METADATA, STRAY_DIR_SUFFIX
from moldau.storage.partition_log import PartitionLog

LOGS_PER_TURN: Final = 8
"""Logs created or deleted between two turns of the event loop: a few milliseconds on a slow file system."""

HUNGRY_SECONDS: Final = 0.5
"""How long to wait before a log is made again for which there was no descriptor."""

log = logging.getLogger("moldau.host")


class Reconciled(NamedTuple):
    """What `reconcile` found and did."""

    hosted: int
    created: int
    deleted: tuple[str, ...]
    stray: tuple[str, ...]
    offline: tuple[str, ...]


class PartitionHost:
    """The only one who adds partitions to the table or takes them out."""

    def __init__(
        self,
        *,
        node_id: int,
        log_dirs: LogDirs,
        table: PartitionTable,
        disk: Disk,
        settings_of: Callable[[MetadataImage, str], LogSettings],
        scope: TaskScope,
        cordoned: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self._node_id = node_id
        self._log_dirs = log_dirs
        self._table = table
        self._disk = disk
        self._settings_of = settings_of
        self._scope = scope
        self.cordoned = cordoned
        """Paths of log directories that take no new replicas (KIP-1066)."""
        self._moves: dict[TopicPartition, asyncio.Task[None]] = {}
        self._unmade: dict[TopicPartition, tuple[TopicImage, PartitionImage]] = {}
        """What could not be created for want of descriptors."""
        self._maker: asyncio.Task[None] | None = None
        self.on_placed: Callable[[tuple[ReplicaDirectory, ...]], None] = lambda placed: None
        """Told where replicas were put, when the controller left the choice of directory to this node."""

    # -- live changes ------------------------------------------------------------------------------------------------

    async def react(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Bring this node's partitions in line with the next image. Returns when they are."""
        for removed in delta.topics_removed.values():
            for number, partition in enumerate(removed.partitions, start=1):
                self._drop(removed.name, partition.index)
                if number % LOGS_PER_TURN == 0:
                    await asyncio.sleep(0)
        changed = [
            (topic, topic.partitions[index])
            for topic_id, index in delta.partitions_changed
            if (topic := image.topics_by_id.get(topic_id)) is not None
        ]
        await self._host_all(changed)
        for resource_type, name in delta.configs_changed:
            if resource_type == ResourceType.TOPIC:
                self._reconfigure(image, name)

    def reconfigure_all(self, image: MetadataImage) -> None:
        """The broker's defaults changed: every topic may be affected."""
        for name in list(self._table.by_name):
            self._reconfigure(image, name)

    def _reconfigure(self, image: MetadataImage, topic: str) -> None:
        hosted = self._table.topic(topic)
        if hosted is None:
            return
        settings = self._settings_of(image, topic)
        for partition in hosted.partitions:
            if partition is not None:
                partition.log.update_settings(settings)

    def _drop(self, topic: str, index: int) -> None:
        self._unmade.pop(TopicPartition(topic, index), None)
        move = self._moves.pop(TopicPartition(topic, index), None)
        if move is not None:
            move.cancel()
        if self._table.remove(topic, index) is not None:
            self._log_dirs.delete(topic, index)

    async def _host_all(self, changed: Iterable[tuple[TopicImage, PartitionImage]]) -> None:
        new: list[tuple[TopicImage, PartitionImage]] = []
        for topic, partition in changed:
            if self._node_id not in partition.replicas:
                self._drop(topic.name, partition.index)
            elif (hosted := self._table.get(topic.name, partition.index)) is not None:
                self._give_role(hosted, partition)
            else:
                new.append((topic, partition))
        placed = []
        for topic, partition in new:
            placed.append(self._create(topic, partition))
            if len(placed) % LOGS_PER_TURN == 0:
                await asyncio.sleep(0)  # a topic of a thousand partitions must not hold up everyone else's requests
        self._tell_placed(placed)

    def _create(self, topic: TopicImage, partition: PartitionImage) -> ReplicaDirectory | None:
        """Make the replica's log and serve it. Tells its directory when the metadata does not know it yet."""
        self._unmade.pop(TopicPartition(topic.name, partition.index), None)
        wanted = partition.directory_of(self._node_id) or UNASSIGNED_DIRECTORY
        directory = next((home for home in self._log_dirs.directories if home.directory_id == wanted), None)
        if directory is None and wanted != UNASSIGNED_DIRECTORY:
            log.error(
                "%s-%d lies in a log directory that is not here (id %s): it stays offline. Add the directory to "
                "log.dirs again, or delete the topic",
                topic.name,
                partition.index,
                wanted.hex(),
            )
            return None
        try:
            made = self._log_dirs.create(
                topic.name, topic.topic_id, partition.index, self._uncordoned() if directory is None else directory.path
            )
        except DiskHungry as problem:
            self._make_later(topic, partition, problem)
            return None
        except DiskFailed as problem:
            log.error("%s-%d could not be created: %s", topic.name, partition.index, problem)
            return None
        self._serve(topic, partition, made)
        placed = made.home.directory_id
        return None if placed == wanted else ReplicaDirectory(topic.topic_id, partition.index, placed)

    def _make_later(self, topic: TopicImage, partition: PartitionImage, problem: DiskHungry) -> None:
        self._unmade[TopicPartition(topic.name, partition.index)] = (topic, partition)
        if self._maker is None or self._maker.done():
            log.warning("%s-%d is created as soon as it can be: %s", topic.name, partition.index, problem)
            self._maker = self._scope.start(self._make_unmade(), name="create the rest")

    async def _make_unmade(self) -> None:
        while self._unmade:
            await asyncio.sleep(HUNGRY_SECONDS)
            for key, (topic, partition) in list(self._unmade.items()):
                if key in self._unmade:  # not deleted since
                    self._tell_placed([self._create(topic, partition)])
                    await asyncio.sleep(0)

    def _uncordoned(self) -> str | None:
        """Where to put a new replica when some directories take no more (KIP-1066); None lets storage choose."""
        cordoned = self.cordoned()
        if not cordoned:
            return None
        free = [home.path for home in self._log_dirs.online() if home.path not in cordoned and "*" not in cordoned]
        counts = dict.fromkeys(free, 0)
        for found in self._log_dirs.logs.values():
            if found.directory in counts:
                counts[found.directory] += 1
        return min(counts, key=counts.__getitem__) if counts else None

    def _serve(self, topic: TopicImage, partition: PartitionImage, its_log: PartitionLog) -> None:
        hosted = Partition(topic.name, topic.topic_id, partition.index, its_log, self._node_id, self._table.advances)
        self._table.add(hosted)
        self._give_role(hosted, partition)
        if its_log.failure:
            hosted.close()  # it answers KAFKA_STORAGE_ERROR; deleting its topic is still possible

    def _give_role(self, hosted: Partition, partition: PartitionImage) -> None:
        if partition.leader == self._node_id:
            hosted.become_leader(partition.leader_epoch, partition.replicas, partition.isr)
        else:
            hosted.become_follower(partition.leader, partition.leader_epoch)

    def _tell_placed(self, placed: Iterable[ReplicaDirectory | None]) -> None:
        told = tuple(replica for replica in placed if replica is not None)
        if told:
            self.on_placed(told)

    # -- disks -------------------------------------------------------------------------------------------------------

    def directory_failed(self, home: LogDirectory) -> None:
        """A log directory went offline: its partitions answer KAFKA_STORAGE_ERROR from now on."""
        lost = [partition for partition in self._table if partition.log.home is home]
        for partition in lost:
            partition.close()
        log.error("log directory %s is offline with %d partitions: %s", home.path, len(lost), home.reason)

    def begin_move(self, key: TopicPartition, directory: str) -> None:
        """Start to move a replica to another log directory. A newer wish replaces one that is under way."""
        under_way = self._moves.pop(key, None)
        if under_way is not None:
            under_way.cancel()
        self._moves[key] = self._scope.start(self._move(key, directory, under_way), name=f"move {key}")

    async def _move(self, key: TopicPartition, directory: str, after: asyncio.Task[None] | None) -> None:
        if after is not None:
            await asyncio.wait([after])
        try:
            moved = await self._log_dirs.move(key, directory)
        except (KeyError, DiskFailed) as problem:
            log.error("%s could not be moved to %s: %s", key, directory, problem)
            return
        # No await since the copy took the original's place: nothing was appended in between.
        partition = self._table.get(key.topic, key.partition)
        if partition is not None and partition.log is not moved:
            partition.log = moved
            moved.set_on_durable(partition.on_durable)
            self._tell_placed([ReplicaDirectory(partition.topic_id, key.partition, moved.home.directory_id)])
        log.info("%s now lies in %s", key, directory)

    # -- start -------------------------------------------------------------------------------------------------------

    async def reconcile(self, image: MetadataImage) -> Reconciled:
        """Bring what recovery found on disk in line with the metadata, then serve every replica of this node."""
        deleted, stray = self._settle_leftovers(image)
        created: list[TopicPartition] = []
        offline: list[str] = []
        placed: list[ReplicaDirectory | None] = []
        for topic in image.topics_by_name.values():
            for partition in topic.partitions:
                if self._node_id not in partition.replicas:
                    continue
                key = TopicPartition(topic.name, partition.index)
                found = self._log_dirs.logs.get(key)
                if found is not None:
                    self._serve(topic, partition, found)
                    placed.append(self._placement(topic, partition, found))
                    continue
                placed.append(self._create(topic, partition))
                if self._table.get(topic.name, partition.index) is None:
                    offline.append(str(key))
                else:
                    created.append(key)
        self._tell_placed(placed)
        return Reconciled(len(self._table), len(created), tuple(deleted), tuple(stray), tuple(offline))

    def _placement(self, topic: TopicImage, partition: PartitionImage, found: PartitionLog) -> ReplicaDirectory | None:
        """A log found in another directory than the metadata says was moved there just before a crash."""
        here = found.home.directory_id
        if partition.directory_of(self._node_id) == here:
            return None
        return ReplicaDirectory(topic.topic_id, partition.index, here)

    def _set_aside(self, key: TopicPartition, found: PartitionLog) -> None:
        del self._log_dirs.logs[key]
        found.close()
        unique = self._log_dirs.chance.randbytes(16).hex()
        self._disk.rename(found.path, f"{found.directory}/{key}.{unique}{STRAY_DIR_SUFFIX}")
        self._disk.sync_dir(found.directory)

    def _give_id(self, key: TopicPartition, found: PartitionLog, topic_id: bytes) -> None:
        """Name and partition are known, so the records are this topic's, whatever became of the small file."""
        log.warning(
            "%s: %s was lost or damaged; written again with the topic id the metadata has", key, PARTITION_METADATA
        )
        try:
            self._log_dirs.set_topic_id(found, topic_id)
        except DiskFailed as problem:
            found.home.failed(problem)

    def _settle_leftovers(self, image: MetadataImage) -> tuple[list[str], list[str]]:
        deleted: list[str] = []
        stray: list[str] = []
        for key, found in list(self._log_dirs.logs.items()):
            match standing_of(image, self._node_id, key, found.topic_id):
                case Standing.HOSTED:
                    continue
                case Standing.ID_DAMAGED:
                    self._give_id(key, found, image.topics_by_name[key.topic].topic_id)
                case Standing.DELETED:
                    self._log_dirs.delete(key.topic, key.partition)
                    deleted.append(str(key))
                case Standing.ELSEWHERE | Standing.UNKNOWN:
                    self._set_aside(key, found)
                    stray.append(str(key))
        for name in deleted:
            log.info("removed %s: its topic was deleted before this node stopped", name)
        for name in stray:
            log.warning("set aside %s as stray: the metadata does not know its topic id", name)
        return deleted, stray
