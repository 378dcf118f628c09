"""Batches that take long to check: others are served meanwhile, and nothing loses its order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest

from moldau.core.log.settings import LogSettings
from moldau.model.errors import ErrorCode
from moldau.model.failures import DiskFull
from moldau.records.batch import parse_header
from moldau.records.gradual import GradualCheck
from moldau.server.aside import PLACES, Aside
from moldau.server.handlers import large_batches
from moldau.storage.directory import LogDirectory
from moldau.storage.partition_log import PartitionLog
from moldau.wire.apis import ApiKey
from tests.unit.server.harness import Client, Stage, batch
from tests.unit.server.requests import produce

T = TypeVar("T")
ROOMY = LogSettings(message_bytes_max=32 << 20)
ZSTD = 4


class GatedAside(Aside):
    """Does its work on the loop, when the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()
        self.asked = 0

    async def run(self, work: Callable[[], T]) -> T:
        self.asked += 1
        await self.open.wait()
        return work()


def large(codec: int = ZSTD, *, key: bytes | None = None, **options: Any) -> bytes:
    """3 MB, and a third of it when compressed."""
    values = [Random(index).randbytes(10_000) + bytes(20_000) for index in range(100)]
    return batch(values, key=key, codec=codec, **options)


def on_a_loop(tmp_path: Path, story: Callable[[Stage, GatedAside], Coroutine[Any, Any, None]]) -> None:
    async def play() -> None:
        async with asyncio.timeout(60):
            stage = Stage(tmp_path, loop=asyncio.get_running_loop())
            aside = stage.services.aside = GatedAside()
            await story(stage, aside)

    asyncio.run(play())


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def answers(client: Client, count: int) -> list[Any]:
    while len(client.replies()) < count:
        await turns(1)
    return [reply.responses[0].partition_responses[0] for reply in client.replies()]


def send(client: Client, records: bytes, **options: Any) -> None:
    client.send(client.frame(ApiKey.PRODUCE, 9, produce("t", records, **options)))


def beside(small: bytes, big: bytes, **options: Any) -> Any:
    """One request: a small batch for partition 0, a large one for partition 1."""
    request = produce("t", small, **options)
    request.topic_data[0].partition_data.append(produce("t", big, partition=1).topic_data[0].partition_data[0])
    return request


def test_a_small_produce_is_answered_while_a_large_batch_is_inflated(tmp_path: Path) -> None:
    async def story(stage: Stage, aside: GatedAside) -> None:
        stage.topic("t", settings=ROOMY)
        slow, quick = stage.connect(), stage.connect()
        send(slow, large())
        send(quick, batch())
        (answer,) = await answers(quick, 1)
        assert (answer.error_code, answer.base_offset) == (0, 0)
        assert not slow.replies()
        aside.open.set()
        (answer,) = await answers(slow, 1)
        assert (answer.error_code, answer.base_offset) == (0, 1)
        assert aside.asked >= 3, "it is inflated a part at a time"

    on_a_loop(tmp_path, story)


def test_a_producers_later_batches_wait_for_the_one_being_inflated(tmp_path: Path) -> None:
    async def story(stage: Stage, aside: GatedAside) -> None:
        (partition,) = stage.topic("t", settings=ROOMY)
        client = stage.connect()
        send(client, large(producer_id=7, producer_epoch=0, base_sequence=0))
        send(client, batch(producer_id=7, producer_epoch=0, base_sequence=100))
        send(client, large(producer_id=7, producer_epoch=0, base_sequence=101))
        await turns()
        assert partition.log.end_offset == 0
        assert aside.asked == 1, "one at a time"
        aside.open.set()
        found = await answers(client, 3)
        assert [(one.error_code, one.base_offset) for one in found] == [(0, 0), (0, 100), (0, 101)]

    on_a_loop(tmp_path, story)


@pytest.mark.parametrize("whole", [False, True], ids=["in its own buffer", "as it came"])
def test_the_request_stays_as_it_is_until_it_is_appended(tmp_path: Path, whole: bool) -> None:
    """Another request of the same size comes meanwhile, and takes a buffer of the pool."""

    async def story(stage: Stage, aside: GatedAside) -> None:
        (partition,) = stage.topic("t", settings=ROOMY)
        records = large()
        slow, quick = stage.connect(), stage.connect()
        frame = slow.frame(ApiKey.PRODUCE, 9, produce("t", records))
        parts = [frame] if whole else [frame[:20_000], frame[20_000:]]
        for part in parts:
            slow.send(part)
        other = quick.frame(ApiKey.PRODUCE, 9, produce("t", batch([bytes(1_000_000)])))
        quick.send(other[:20_000])
        quick.send(other[20_000:])
        assert stage.hub.request_budget.charged == (0 if whole else len(frame))
        await answers(quick, 1)
        aside.open.set()
        (answer,) = await answers(slow, 1)
        assert (answer.error_code, answer.base_offset) == (0, 1)
        assert stage.hub.request_budget.charged == 0
        stored = partition.log.read(1, 101, 1 << 25, True)
        assert bytes(stored.parts[0])[61:] == records[61:]

    on_a_loop(tmp_path, story)


def test_a_large_batch_that_breaks_a_rule_is_refused(tmp_path: Path) -> None:
    async def story(stage: Stage, aside: GatedAside) -> None:
        stage.topic("t", settings=LogSettings(message_bytes_max=32 << 20, compact=True))
        aside.open.set()
        client = stage.connect()
        send(client, large())
        damaged = bytearray(large(key=b"k"))
        damaged[-1] ^= 1
        send(client, bytes(damaged))
        send(client, large(key=b"k"))
        found = [one.error_code for one in await answers(client, 3)]
        assert found == [ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE]

    on_a_loop(tmp_path, story)


def test_rules_that_change_meanwhile_are_kept(tmp_path: Path) -> None:
    async def story(stage: Stage, aside: GatedAside) -> None:
        (partition,) = stage.topic("t", settings=ROOMY)
        client = stage.connect()
        send(client, large())
        await turns()
        partition.log.update_settings(LogSettings(message_bytes_max=32 << 20, compact=True))
        aside.open.set()
        (answer,) = await answers(client, 1)
        assert answer.error_code == ErrorCode.INVALID_RECORD

    on_a_loop(tmp_path, story)


def test_a_partition_that_is_led_no_more_takes_nothing(tmp_path: Path) -> None:
    async def story(stage: Stage, aside: GatedAside) -> None:
        (partition,) = stage.topic("t", settings=ROOMY)
        client = stage.connect()
        send(client, large())
        await turns()
        partition.become_follower(2, 1)
        aside.open.set()
        (answer,) = await answers(client, 1)
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert partition.log.end_offset == 0

    on_a_loop(tmp_path, story)


def test_a_producer_is_judged_when_its_batch_is_appended(tmp_path: Path) -> None:
    """Fenced while it is checked; or sent again on another connection, and both copies checked at a time."""

    async def story(stage: Stage, aside: GatedAside) -> None:
        (partition,) = stage.topic("t", settings=ROOMY)
        fenced, first, again, quick = (stage.connect() for _ in range(4))
        send(fenced, large(producer_id=7, producer_epoch=0, base_sequence=0))
        for client in (first, again):
            send(client, large(producer_id=8, producer_epoch=0, base_sequence=0))
        await turns()
        send(quick, batch(producer_id=7, producer_epoch=1, base_sequence=0))
        await answers(quick, 1)
        aside.open.set()
        assert (await answers(fenced, 1))[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        for client in (first, again):
            (answer,) = await answers(client, 1)
            assert (answer.error_code, answer.base_offset) == (0, 1)
        assert partition.log.end_offset == 101

    on_a_loop(tmp_path, story)


def test_a_topic_deleted_during_the_check_takes_nothing(tmp_path: Path) -> None:
    """Nor does one of the same name that was made meanwhile."""

    async def story(stage: Stage, aside: GatedAside) -> None:
        (partition,) = stage.topic("t", settings=ROOMY)
        client = stage.connect()
        send(client, large())
        await turns()
        stage.partitions.remove("t", 0)
        partition.close()
        partition.log.abandon()
        stage.home.path += "/anew"
        (anew,) = stage.topic("t", settings=ROOMY)
        aside.open.set()
        (answer,) = await answers(client, 1)
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert partition.log.end_offset == anew.log.end_offset == 0

    on_a_loop(tmp_path, story)


def test_a_large_plain_batch_is_checked_in_turns(tmp_path: Path) -> None:
    async def story(stage: Stage, aside: GatedAside) -> None:
        stage.topic("t", settings=ROOMY)
        slow, quick = stage.connect(), stage.connect()
        send(slow, large(0))
        send(quick, batch())
        assert (await answers(quick, 1))[0].base_offset == 0
        assert (await answers(slow, 1))[0].base_offset == 1
        assert aside.asked == 0

    on_a_loop(tmp_path, story)


def test_a_topic_with_a_codec_of_its_own_compresses_aside(tmp_path: Path) -> None:
    async def story(stage: Stage, aside: GatedAside) -> None:
        (partition,) = stage.topic("t", settings=LogSettings(compression_type="gzip"))
        client = stage.connect()
        send(client, batch([bytes(50_000)] * 2))
        await turns()
        assert partition.log.end_offset == 0
        aside.open.set()
        assert (await answers(client, 1))[0].error_code == 0
        stored = b"".join(bytes(part) for part in partition.log.read(0, 2, 1 << 20, True).parts)
        assert parse_header(stored, 0).codec == 1
        assert len(stored) < 10_000

    on_a_loop(tmp_path, story)


def test_a_failed_flush_of_a_small_batch_beside_a_large_one_is_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request, two partitions: the small batch is appended at once, and its write fails at the end of the tick."""

    def full(data: Any) -> None:
        raise DiskFull("no space left")

    async def story(stage: Stage, aside: GatedAside) -> None:
        small, _ = stage.topic("t", 2, settings=ROOMY)
        small.log.home = LogDirectory("elsewhere")
        monkeypatch.setattr(small.log.active.file(), "append", full)
        client = stage.connect()
        client.send(client.frame(ApiKey.PRODUCE, 9, beside(batch(), large())))
        await turns()
        aside.open.set()
        await turns(200)
        assert client.transport.aborted
        assert not client.replies()

    on_a_loop(tmp_path, story)


@pytest.mark.parametrize("acks", [-1, 1])
def test_what_became_durable_during_the_check_is_answered_at_once(tmp_path: Path, acks: int) -> None:
    """The large batch beside it is refused, so nothing moves any more that would wake the answer."""

    async def story(stage: Stage, aside: GatedAside) -> None:
        small, other = stage.topic("t", 2, settings=LogSettings(message_bytes_max=32 << 20, flush_messages=1))
        small.log.on_sync_wanted = lambda log: None
        client = stage.connect()
        request = beside(batch(), large(), acks=acks, timeout_ms=3_600_000)
        client.send(client.frame(ApiKey.PRODUCE, 9, request))
        await turns()
        small.log.sync_now()
        other.become_follower(2, 1)
        await turns()
        aside.open.set()
        await turns(200)
        (reply,) = client.replies()
        found = [one.error_code for one in reply.responses[0].partition_responses]
        assert found == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert stage.services.parking.parked == 0

    on_a_loop(tmp_path, story)


def test_a_client_that_leaves_during_the_check_leaves_nothing_behind(tmp_path: Path) -> None:
    async def story(stage: Stage, aside: GatedAside) -> None:
        (partition,) = stage.topic("t", settings=LogSettings(message_bytes_max=32 << 20, flush_messages=1))
        partition.log.on_sync_wanted = lambda log: None
        client = stage.connect()
        frame = client.frame(ApiKey.PRODUCE, 9, produce("t", large(), timeout_ms=3_600_000))
        client.send(frame[:20_000])
        client.send(frame[20_000:])
        await turns()
        client.connection.connection_lost(None)
        aside.open.set()
        await turns(200)
        assert partition.log.end_offset == 100, "what arrived is appended, as in Kafka"
        assert stage.hub.request_budget.charged == 0
        assert stage.services.parking.parked == 0
        assert not partition.waiters

    on_a_loop(tmp_path, story)


@pytest.mark.parametrize("acks", [0, 1])
def test_what_a_client_sent_that_leaves_during_the_check_is_written(tmp_path: Path, acks: int) -> None:
    """Small once it is compressed anew, and no watermark moves: only the tick writes it."""

    async def story(stage: Stage, aside: GatedAside) -> None:
        (partition,) = stage.topic("t", settings=LogSettings(compression_type="gzip", flush_messages=1))
        partition.log.on_sync_wanted = lambda log: None
        client = stage.connect()
        send(client, batch([bytes(50_000)] * 2), acks=acks)
        await turns()
        client.connection.connection_lost(None)
        aside.open.set()
        await turns(200)
        assert partition.log.end_offset == 2
        assert not partition.log.has_unflushed

    on_a_loop(tmp_path, story)


def test_only_so_many_batches_are_inflated_at_a_time(tmp_path: Path) -> None:
    async def story(stage: Stage, aside: GatedAside) -> None:
        (partition,) = stage.topic("t", settings=ROOMY)
        clients = [stage.connect() for _ in range(PLACES + 3)]
        for client in clients:
            send(client, large())
        await turns(50)
        assert aside.asked == PLACES
        aside.open.set()
        offsets = [(await answers(client, 1))[0].base_offset for client in clients]
        assert sorted(offsets) == list(range(0, 100 * len(clients), 100))
        assert partition.log.end_offset == 100 * len(clients)

    on_a_loop(tmp_path, story)


def test_only_so_much_of_a_request_is_kept_compressed_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few packed bytes per batch may become a lot each; what is beyond the bound is appended all the same."""
    monkeypatch.setattr(large_batches, "REPACKED_BYTES_MAX", 1)
    repacked: list[object] = []
    whole = PartitionLog.recompress_checked

    def counted(log: PartitionLog, checked: GradualCheck) -> None:
        repacked.append(checked)
        whole(log, checked)

    monkeypatch.setattr(PartitionLog, "recompress_checked", counted)

    async def story(stage: Stage, aside: GatedAside) -> None:
        stage.topic("t", 2, settings=LogSettings(message_bytes_max=32 << 20, compression_type="uncompressed"))
        aside.open.set()
        client = stage.connect()
        client.send(client.frame(ApiKey.PRODUCE, 9, beside(large(), large())))
        await answers(client, 1)
        (reply,) = client.replies()
        assert [one.error_code for one in reply.responses[0].partition_responses] == [0, 0]
        assert len(repacked) == 1
        for partition in (0, 1):
            hosted = stage.partitions.topic("t")
            assert hosted is not None
            stored = hosted.get(partition).log.read(0, 100, 1 << 25, True)
            assert parse_header(bytes(stored.parts[0]), 0).codec == 0

    on_a_loop(tmp_path, story)
