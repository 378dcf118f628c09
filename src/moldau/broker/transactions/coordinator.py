"""The transaction coordinator of a node: the directory of transaction shards, and what they cause elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from moldau.broker.images import Images
from moldau.broker.internal_topics import new_topic
from moldau.broker.partitions import PartitionTable
from moldau.broker.shards.directory import ShardDirectory, Spawn
from moldau.broker.shards.runtime import Deliver, ShardRuntime
from moldau.broker.shards.txn_codec import TransactionCodec
from moldau.broker.transactions.markers import Completion, MarkerWriter
from moldau.broker.transactions.verification import PartitionVerifier
from moldau.config.settings import Settings
from moldau.core.metadata.delta import MetadataDelta
from moldau.core.metadata.image import MetadataImage
from moldau.core.transaction.commands import NEEDS_PRODUCER_ID, EndTransaction, InitProducerId, WriteMarkers
from moldau.core.transaction.settings import TransactionSettings
from moldau.core.transaction.shard import TransactionShard
from moldau.model.checks import check
from moldau.model.errors import ErrorCode, Refused
from moldau.model.failures import WorldError
from moldau.model.ids import TRANSACTION_STATE_TOPIC
from moldau.ports import Clock

TRANSACTION_VERSION: Final = "transaction.version"


def transaction_settings(settings: Settings, transaction_version: int) -> TransactionSettings:
    return TransactionSettings(
        max_timeout_ms=settings.int("transaction.max.timeout.ms"),
        id_expiration_ms=settings.int("transactional.id.expiration.ms"),
        abort_interval_ms=settings.int("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        expiration_interval_ms=settings.int("transaction.remove.expired.transaction.cleanup.interval.ms"),
        two_phase_commit=settings.bool("transaction.two.phase.commit.enable"),
        transaction_version=transaction_version,
    )


class TransactionCoordinator:
    """`shards` decides, `markers` writes, `verifier` is asked by partitions."""

    def __init__(
        self,
        *,
        settings: Callable[[], Settings],
        partitions: PartitionTable,
        images: Images,
        submit: Callable[[Any], Awaitable[Any]],
        next_producer_id: Callable[[], Awaitable[int]],
        group_shards: Callable[[], ShardDirectory | None],
        clock: Clock,
        spawn: Spawn,
        on_bug: Callable[[BaseException], None],
    ) -> None:
        self._settings = settings
        self._images = images
        self._next_producer_id = next_producer_id
        self._spawn = spawn
        self._completions: dict[tuple[ShardRuntime, str], Completion] = {}
        self._level = self.transaction_version
        self.markers = MarkerWriter(partitions, images, clock, group_shards)
        self.shards = ShardDirectory(
            TRANSACTION_STATE_TOPIC,
            new_core=self._new_core,
            codec=TransactionCodec(lambda: self.transaction_version),
            partitions=partitions,
            images=images,
            submit=submit,
            new_topic=lambda: new_topic(TRANSACTION_STATE_TOPIC, settings(), images.image),
            clock=clock,
            spawn=spawn,
            on_bug=on_bug,
            on_effect=self._on_effect,
        )
        self.verifier = PartitionVerifier(
            self.shards,
            lambda: (
                settings().int("add.partitions.to.txn.retry.backoff.ms"),
                settings().int("add.partitions.to.txn.retry.backoff.max.ms"),
            ),
            lambda: settings().bool("transaction.partition.verification.enable"),
        )

    @property
    def transaction_version(self) -> int:
        """The finalised level: 2 means that clients may use transactions v2."""
        return self._images.image.features.get(TRANSACTION_VERSION, 0)

    def start(self) -> None:
        self.shards.start()
        self._images.subscribe(self._react)

    def close(self) -> None:
        self.shards.close()
        for completion in tuple(self._completions.values()):
            completion.cancel()

    def ask(self, command: InitProducerId | EndTransaction, deliver: Deliver) -> None:
        """Send a command to its shard; with a new producer id if it turns out to need one."""
        shard = self.shards.find(command.transactional_id)
        if isinstance(shard, Refused):
            deliver(shard)
            return

        def answered(reply: Any) -> None:
            if reply is NEEDS_PRODUCER_ID:
                self._spawn(self._ask_with_id(command, deliver), "producer id")
            else:
                deliver(reply)

        shard.submit_to(command, answered)

    async def _ask_with_id(self, command: InitProducerId | EndTransaction, deliver: Deliver) -> None:
        try:
            fresh = await self._next_producer_id()
        except WorldError as problem:
            deliver(Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(problem)))
            return
        self.ask(command._replace(fresh_producer_id=fresh), deliver)

    def _new_core(self, index: int) -> TransactionShard:
        return TransactionShard(transaction_settings(self._settings(), self.transaction_version))

    def _on_effect(self, shard: ShardRuntime, effect: Any) -> None:
        check(isinstance(effect, WriteMarkers), "an effect nobody knows", effect)
        key = (shard, effect.transactional_id)
        check(key not in self._completions, "a transaction is completed twice at once", effect)
        completion = Completion(self.markers, shard, effect, self._completed)
        self._completions[key] = completion
        completion.begin()

    def _completed(self, completion: Completion) -> None:
        self._completions.pop((completion.shard, completion.transactional_id), None)

    def _react(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if self._level != self.transaction_version:
            self._level = self.transaction_version
            for shard in self.shards.all():
                assert isinstance(shard.core, TransactionShard)
                shard.core.settings = transaction_settings(self._settings(), self._level)
