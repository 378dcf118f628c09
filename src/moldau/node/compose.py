"""The composition root: the only place that knows every class, and the order in which a node starts and stops.

Start: whose directories, metadata store, locks and log recovery, controller, host, background work, listeners last.
Stop: the same backwards. Everything a node does before it listens is invisible to clients, so a start that fails half
way leaves nothing but what a crash would.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from moldau.broker.host import PartitionHost
from moldau.broker.images import Images
from moldau.broker.internal_topics import internal_topic_settings
from moldau.broker.partitions import PartitionTable
from moldau.broker.producer_ids import ProducerIds
from moldau.broker.shards.groups import GroupCoordinator
from moldau.broker.transactions.coordinator import TransactionCoordinator
from moldau.config.live import LiveSettings
from moldau.config.settings import Settings
from moldau.config.validation import SettingsJudge
from moldau.controller.loop import Controller
from moldau.core.log.settings import LogSettings
from moldau.core.metadata.commands import AssignDirectories, RegisterBroker, ReplicaDirectory
from moldau.core.metadata.delta import MetadataDelta
from moldau.core.metadata.image import MetadataImage
from moldau.core.metadata.records import Endpoint
from moldau.core.metadata.rules import MetadataRules
from moldau.core.partition.fetch_sessions import FetchSessionCache
from moldau.model.errors import Refused
from moldau.model.failures import DirectoryLocked, DiskFailed, Fenced, WorldError
from moldau.model.ids import TopicPartition
from moldau.model.options import ResourceType
from moldau.node import adoption, clock_keeper, damage_list, loop_figures
from moldau.node.clock_keeper import ClockKeeper
from moldau.node.failures import AddressInUse, DirectoryInUse
from moldau.node.identity import new_cluster_id, read_identity
from moldau.node.metadata_guard import open_metadata
from moldau.node.surroundings import absolute, listeners_of
from moldau.node.telling import tell_changes
from moldau.node.unknown_logs import logs_to_adopt
from moldau.node.upkeep import apply_changes, new_cleaner
from moldau.node.wanted_topics import create_wanted_topics
from moldau.ports import MetadataStore
from moldau.runtime.file_limit import partitions_that_fit
from moldau.runtime.ports import Ports
from moldau.runtime.steady_clock import SteadyClock
from moldau.runtime.tasks import TaskScope
from moldau.server.limits import ServerLimits
from moldau.server.listeners import Listeners
from moldau.server.server import Server
from moldau.server.services import Services
from moldau.storage.cleaner import Cleaner
from moldau.storage.directory import LogDirectory
from moldau.storage.flush_set import FlushSet
from moldau.storage.log_dirs import LogDirs
from moldau.storage.open_dirs import OpenProgress
from moldau.storage.partition_log import PartitionLog
from moldau.store.copy_keeper import CopyKeeper

__all__ = ["Node", "Ports"]

LEASE_MS: Final = 10 * 365 * 24 * 3600 * 1000
"""The embedded store belongs to whoever holds the locks of the log directories. A lease that had to be renewed would
keep an idle disk awake, and a laptop that slept past its end would find itself fenced by nobody. A store that several
nodes share will need `broker.session.timeout.ms` and renewals here."""

LISTENER_KEYS = frozenset({"listeners", "listener.security.protocol.map"})

log = logging.getLogger("moldau.node")


class Node:
    """One broker. `await start()`, then clients are served until `await stop()`."""

    def __init__(self, settings: Settings, ports: Ports, *, adopt_logs: bool = False) -> None:
        self._ports = ports
        self._adopt_logs = adopt_logs
        """Take in logs whose metadata was lost, instead of refusing to start."""
        self._to_adopt: dict[TopicPartition, PartitionLog] = {}
        self.live = LiveSettings(settings)
        self.images = Images()
        self.partitions = PartitionTable()
        self.flush_set = FlushSet()
        self.scope = TaskScope("node")
        self.failure: asyncio.Future[BaseException] | None = None
        """Done when something the node cannot live without has failed; whoever runs the node stops it then."""
        self.node_id = settings.node_id
        self.cluster_id = ""
        self.broker_epoch = -1
        self._incarnation_id = b""
        self.store: MetadataStore | None = None
        self.controller: Controller | None = None
        self.log_dirs: LogDirs | None = None
        self.host: PartitionHost | None = None
        self.services: Services | None = None
        self.server: Server | None = None
        self.cleaner: Cleaner | None = None
        self.clock = SteadyClock(ports.clock)
        """What is old is judged by it. Records are stamped with the port's own, as in Kafka."""
        self._clock_keeper: ClockKeeper | None = None
        self.copy_keeper: CopyKeeper | None = None
        self.groups: GroupCoordinator | None = None
        self.transactions: TransactionCoordinator | None = None
        self.listeners = Listeners(listeners_of(settings))

    @property
    def settings(self) -> Settings:
        """As they are now, dynamic changes included."""
        return self.live.current

    @property
    def bootstrap(self) -> str:
        """Where a client on this machine reaches the node: `host:port` of every listener."""
        return ",".join(
            f"{'localhost' if bound.host in ('', '0.0.0.0', '::') else bound.host}:{bound.port}"
            for bound in self.listeners.bound.values()
        )

    # -- start -------------------------------------------------------------------------------------------------------

    async def start(self, progress: Callable[[OpenProgress], None] | None = None) -> None:
        """Recover, take part in the cluster, listen. Raises `DirectoryInUse`, `AddressInUse` or another `WorldError`,
        after undoing what was done."""
        self.failure = asyncio.get_running_loop().create_future()
        try:
            known = await self._open_store()
            await self._open_logs(known, progress)
            await self._start_controller(known)
            await self._start_hosting()
            await self._listen()
        except BaseException:
            await self._close()
            raise
        log.info(
            "node %d of cluster %s listens on %s",
            self.node_id,
            self.cluster_id,
            self.bootstrap,
            extra={"node_id": self.node_id, "cluster_id": self.cluster_id, "address": self.bootstrap},
        )

    async def _open_store(self) -> MetadataImage:
        """The metadata as it was left. Only read: until the directories are locked, the store may be another's."""
        disk = self._ports.disk
        identity = read_identity(disk, self.settings)
        self.live.current = identity.settings
        self.node_id = self.settings.node_id
        for notice in self.settings.notices:
            log.log(logging.WARNING if notice.warning else logging.INFO, "%s", notice.text)
        first = self.settings.log_dirs[0]
        try:
            disk.make_dirs(first)
        except DiskFailed as problem:
            raise DirectoryInUse(first, str(problem)) from problem
        self.store, known = await open_metadata(self._ports, identity, adopt_logs=self._adopt_logs)
        self.cluster_id = (
            identity.cluster_id
            or known.cluster_id
            or self.settings.optional_str("moldau.cluster.id")
            or new_cluster_id(self._ports.entropy.stream("cluster-id"))
        )
        self.images.image = known
        self._apply_dynamic(known)
        self.clock = SteadyClock(self._ports.clock, clock_keeper.read(disk, first), follow=self._follows_clock)
        self.listeners.configure(listeners_of(self.settings))
        if "listeners" in self.settings.dynamic_broker and "listeners" in self.settings.static:
            told = self.settings.static["listeners"]
            log.warning("listeners: set on the running broker, so %s (%s) is passed over", told.text, told.origin)
        return known

    async def _open_logs(self, known: MetadataImage, progress: Callable[[OpenProgress], None] | None) -> None:
        settings = self.settings
        self.log_dirs = LogDirs(
            self._ports.disk,
            absolute(settings.log_dirs),
            self.clock,
            lambda topic: self._log_settings(self.images.image, topic),
            entropy=self._ports.entropy,
            flush_set=self.flush_set,
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            recovery_threads=settings.int("num.recovery.threads.per.data.dir"),
            producer_expiration_ms=settings.int("producer.id.expiration.ms"),
            checkpoint_interval_ms=settings.int("log.flush.offset.checkpoint.interval.ms"),
        )
        self.log_dirs.on_offline = self._directory_failed
        ids = {topic.name: topic.topic_id for topic in known.topics_by_name.values()}
        self.log_dirs.topic_id_of = ids.get
        try:
            await self.log_dirs.open(progress)
        except DiskFailed as problem:
            if isinstance(problem, DirectoryLocked):
                raise DirectoryInUse(problem.directory, str(problem), locked=True) from problem
            raise DirectoryInUse(settings.log_dirs[0], str(problem)) from problem
        damage_list.add(self._ports.disk, settings.log_dirs[0], self.log_dirs.findings, self._ports.clock.wall_ms())
        self._to_adopt = logs_to_adopt(known, self.node_id, self.log_dirs, adopt_logs=self._adopt_logs)

    async def _start_controller(self, known: MetadataImage) -> None:
        assert self.store is not None
        assert self.log_dirs is not None
        chance = self._ports.entropy.stream("controller")
        self.broker_epoch = await self.store.register(self.node_id, b"", lease_ms=LEASE_MS)
        judge = SettingsJudge(lambda: self.settings)
        self.controller = Controller(
            self.store,
            node_id=self.node_id,
            rules=lambda: MetadataRules(
                judge,
                default_partitions=self.settings.int("num.partitions"),
                default_replication_factor=self.settings.int("default.replication.factor"),
                partitions_max=partitions_that_fit(),
            ),
            chance=chance,
            publish=self._publish,
        )
        self.images.image = await self.controller.start(known)
        self._spawn(self.controller.run(), "controller")
        self._incarnation_id = chance.randbytes(16)
        await self._register(self.log_dirs.previous_broker_epoch if self.log_dirs.clean_start else -1)

    async def _register(self, previous_broker_epoch: int) -> None:
        assert self.log_dirs is not None
        await self._submit(
            RegisterBroker(
                node_id=self.node_id,
                broker_epoch=self.broker_epoch,
                incarnation_id=self._incarnation_id,
                rack=self.settings.optional_str("broker.rack"),
                endpoints=tuple(Endpoint(*row) for row in self.listeners.registered()),
                directories=tuple(home.directory_id for home in self.log_dirs.online()),
                cluster_id=self.cluster_id,
                previous_broker_epoch=previous_broker_epoch,
            )
        )

    async def _start_hosting(self) -> None:
        assert self.log_dirs is not None
        if self._to_adopt:
            await self._adopt(self.log_dirs, self._to_adopt)
        host = PartitionHost(
            node_id=self.node_id,
            log_dirs=self.log_dirs,
            table=self.partitions,
            disk=self._ports.disk,
            settings_of=self._log_settings,
            scope=self.scope,
            cordoned=self._cordoned,
        )
        host.on_placed = lambda placed: self._spawn(self._tell_directories(placed), "directories")
        await host.reconcile(self.images.image)
        self.log_dirs.sign()
        self.host = host
        adoption.tell_held(self.images.image)
        self.copy_keeper = CopyKeeper(self._ports.disk, self._ports.clock, self._online_paths)
        self.copy_keeper.changed(self.images.image)
        await create_wanted_topics(self.settings, self._submit)

    async def _adopt(self, log_dirs: LogDirs, logs: dict[TopicPartition, PartitionLog]) -> None:
        """The directories hold logs that the metadata does not know: somebody else wrote them, or it was lost."""
        from moldau.node import kafka_metadata

        disk = self._ports.disk
        kafka = await disk.off_loop(lambda: kafka_metadata.read_kafka_metadata(disk, self.settings.log_dirs))
        internal = internal_topic_settings(self.settings)
        adoption.give_ids(log_dirs, logs, log_dirs.chance)
        topics = adoption.topics_on_disk(self.node_id, logs, internal, kafka)
        adoption.tell_adopted(topics, await self._submit(topics), kafka)
        brokers = adoption.broker_settings(self.node_id, kafka)
        if brokers.resources:
            adoption.tell_settings(brokers, await self._submit(brokers))
        for key, found in logs.items():  # opened before their topics' settings were known
            found.update_settings(self._log_settings(self.images.image, key.topic))

    async def _listen(self) -> None:
        assert self.controller is not None
        assert self.log_dirs is not None
        self.services = Services(
            clock=self._ports.clock,
            entropy=self._ports.entropy,
            settings=self.settings,
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            partitions=self.partitions,
            listeners=self.listeners,
            images=self.images,
            controller=self.controller,
            log_dirs=self.log_dirs,
            producer_ids=ProducerIds(self.controller.submit, self.node_id, self.broker_epoch),
            disk=self._ports.disk,
            fetch_sessions=FetchSessionCache(
                self._ports.entropy.stream("fetch-sessions").randrange,
                self.settings.int("max.incremental.fetch.session.cache.slots"),
            ),
            fetch_bytes_max=self.settings.int("fetch.max.bytes"),
        )
        self.services.steady_clock = self.clock
        self.services.host = self.host
        self.server = Server(
            self.services,
            network=self._ports.network,
            listeners=self.listeners,
            flush_set=self.flush_set,
            limits=ServerLimits.from_settings(self.settings),
        )
        self.server.hub.on_bug = self._fail
        loop_figures.keep(self.server.hub.watch, self._ports.disk, self.settings.log_dirs[0], self._spawn)
        self._start_coordinators()
        self._spawn(self.log_dirs.run(), "log directories")
        if self.copy_keeper is not None:
            self._spawn(self.copy_keeper.run(), "metadata copy")
        self._clock_keeper = ClockKeeper(self.clock, self._ports.disk, self.settings.log_dirs[0])
        self._spawn(self._clock_keeper.run(), "clock")
        self.cleaner = new_cleaner(self.settings, self.log_dirs, self.clock)
        self._spawn(self.cleaner.run(), "cleaner")
        try:
            await self.server.start()
        except OSError as problem:
            asked = ", ".join(str(spec.endpoint) for spec in self.listeners.specs)
            taken = problem.errno == errno.EADDRINUSE
            raise AddressInUse(asked, problem.strerror or str(problem), taken=taken) from problem

    def _start_coordinators(self) -> None:
        """After the server is there, whose ticks carry their answers; before it listens, so nobody comes too early."""
        assert self.controller is not None
        assert self.services is not None
        self.groups = GroupCoordinator(
            settings=lambda: self.settings,
            partitions=self.partitions,
            images=self.images,
            submit=self.controller.submit,
            clock=self.clock,
            spawn=self._spawn,
            on_bug=self._fail,
        )
        self.services.group_shards = self.groups.shards
        self.transactions = TransactionCoordinator(
            settings=lambda: self.settings,
            partitions=self.partitions,
            images=self.images,
            submit=self.controller.submit,
            next_producer_id=self.services.producer_ids.next_producer_id,
            group_shards=lambda: None if self.groups is None else self.groups.shards,
            clock=self.clock,
            spawn=self._spawn,
            on_bug=self._fail,
        )
        self.services.transactions = self.transactions
        self.services.transaction_shards = self.transactions.shards
        self.groups.start()
        self.transactions.start()

    # -- reactions ---------------------------------------------------------------------------------------------------

    async def _publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Partitions first, so that nobody is told of one that is not there yet; then everyone else at once."""
        if any(kind == ResourceType.BROKER for kind, _ in delta.configs_changed):
            self._apply_dynamic(image)
        if self.host is not None:
            tell_changes(delta, image)
            await self.host.react(delta, image)
        if self.cleaner is not None and delta.topics_removed:
            gone = delta.topics_removed.values()
            await self.cleaner.forget(
                TopicPartition(topic.name, part.index) for topic in gone for part in topic.partitions
            )
        self.images.publish(delta, image)
        if self.copy_keeper is not None:
            self.copy_keeper.changed(image)

    def _apply_dynamic(self, image: MetadataImage) -> None:
        broker = image.config(ResourceType.BROKER, str(self.node_id))
        changed = self.live.apply_dynamic(broker, image.config(ResourceType.BROKER, ""))
        if not changed:
            return
        if self.services is not None:
            self.services.settings = self.settings
        if self.host is not None:
            self.host.reconfigure_all(image)
        if self.log_dirs is not None:
            self.log_dirs.set_producer_expiration(self.settings.int("producer.id.expiration.ms"))
        if self.cleaner is not None:
            apply_changes(self.cleaner, self.settings)
        if self.groups is not None:
            self.groups.settings_changed()
        self.clock.set_follow(self._follows_clock)
        if self.server is not None:
            self.server.update_limits(ServerLimits.from_settings(self.settings))
            if not LISTENER_KEYS.isdisjoint(changed):
                self._spawn(self._relisten(self.server), "listeners")

    @property
    def _follows_clock(self) -> bool:
        return self.settings.str("moldau.clock.jumps") == "follow"

    async def _relisten(self, server: Server) -> None:
        self.listeners.configure(listeners_of(self.settings))
        await server.relisten()
        await self._register(self.broker_epoch)  # under the addresses it has now; nothing else is new

    def _online_paths(self) -> list[str]:
        return [] if self.log_dirs is None else [home.path for home in self.log_dirs.online()]

    def _cordoned(self) -> tuple[str, ...]:
        """Directories that take no new replicas; `*` stands for all."""
        return absolute(self.settings.list("cordoned.log.dirs"))

    def _log_settings(self, image: MetadataImage, topic: str) -> LogSettings:
        return self.settings.log_settings(image.config(ResourceType.TOPIC, topic))

    def _directory_failed(self, home: LogDirectory) -> None:
        if self.host is not None:
            self.host.directory_failed(home)
        assert self.log_dirs is not None
        if not self.log_dirs.online() and self.services is not None:
            self._fail(DiskFailed(f"every log directory is offline; the last was {home.path}: {home.reason}"))

    async def _tell_directories(self, placed: tuple[ReplicaDirectory, ...]) -> None:
        await self._submit(AssignDirectories(self.node_id, placed))

    async def _submit(self, command: Any) -> Any:
        """A command that must not fail."""
        assert self.controller is not None
        reply = await self.controller.submit(command)
        if isinstance(reply, Refused):
            raise WorldError(f"{type(command).__name__} was refused: {reply.code.name} {reply.detail}")
        return reply

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self.scope.start(work, name=name)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._fail(problem)

    def _fail(self, problem: BaseException) -> None:
        log.critical("the node cannot go on: %s", problem)
        if self.failure is not None and not self.failure.done():
            self.failure.set_result(problem)

    # -- stop --------------------------------------------------------------------------------------------------------

    async def run_housekeeping(self) -> None:
        """Do now what the background does by and by: retention, compaction, removal of deleted files."""
        assert self.cleaner is not None
        assert self.log_dirs is not None
        await self.cleaner.retention_pass()
        while await self.cleaner.clean_next() is not None:
            pass
        await self.log_dirs.remove_due(self._ports.clock.monotonic_ms())

    async def stop(self) -> None:
        """Finish what is in flight, make everything durable, leave the marker of a clean stop."""
        await self._close()
        log.info("node %d stopped", self.node_id)

    async def _close(self) -> None:
        if self.server is not None:
            await self.server.stop()
            self.server = None
        if self.transactions is not None:
            self.transactions.close()
            self.transactions = None
        if self.groups is not None:
            self.groups.close()
            self.groups = None
        try:
            await self.scope.close()
        except (WorldError, Fenced) as problem:
            log.error("stopped by: %s", problem)
        if self._clock_keeper is not None:
            await self._clock_keeper.write()
            self._clock_keeper = None
        if self.log_dirs is not None:
            await self.log_dirs.close(self.broker_epoch, unlock=False)
        if self.copy_keeper is not None:
            await self.copy_keeper.write()
            self.copy_keeper = None
        if self.store is not None:
            await self._leave(self.store)
            self.store = None
        if self.log_dirs is not None:
            self.log_dirs.unlock()  # last: the store belongs to whoever holds the locks
            self.log_dirs = None

    async def _leave(self, store: MetadataStore) -> None:
        try:
            if self.controller is not None:
                await self.controller.resign()
            if self.broker_epoch >= 0:
                await store.unregister(self.node_id, self.broker_epoch)
        except WorldError as problem:
            log.warning("could not leave the metadata store properly: %s", problem)
        await store.close()
