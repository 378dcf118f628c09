"""Log directories handed between moldau and Apache Kafka 4.3, both ways. Skipped where its jars cannot be had."""

from __future__ import annotations

import asyncio
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.peers.base import PeerUnavailable
from bench.peers.kafka import Kafka, java, resolve

from moldau.model.ids import TopicPartition
from moldau.records.builder import build_end_marker
from moldau.runtime.disk import RealDisk
from moldau.storage.cleaner import Cleaner
from moldau.storage.log_dirs import LogDirs
from tests.unit.storage.support import TOPIC_ID, ManualClock, all_records, append, batch, log_dirs, sequenced

pytestmark = pytest.mark.interop
TP = TopicPartition("t", 0)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COMPLAINTS = ("Mismatches", "Exception", "corrupt", "out of order", "not found", "isvalid: false", "invalid")


@pytest.fixture(scope="module", autouse=True)
def jars() -> Path:
    try:
        return resolve()
    except PeerUnavailable as error:
        pytest.skip(str(error))


def dump(*arguments: str) -> str:
    done = subprocess.run(
        java("org.apache.kafka.tools.DumpLogSegments", *arguments), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_with_kafkas_tool(folder: Path) -> str:
    """Deep iteration over every file, and the index sanity check. Returns what the tool printed."""
    kinds = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    files = sorted(str(path) for path in folder.iterdir() if path.suffix in kinds)
    text = dump("--deep-iteration", "--files", ",".join(files))
    for complaint in COMPLAINTS:
        assert complaint not in text, [line for line in text.splitlines() if complaint in line][:3]
    indexes = [name for name in files if name.endswith((".index", ".timeindex"))]
    sane = dump("--index-sanity-check", "--files", ",".join(indexes))
    for complaint in COMPLAINTS:
        assert complaint not in sane
    return text


def test_kafkas_tool_reads_what_moldau_wrote(tmp_path: Path) -> None:
    async def act() -> None:
        disk, clock, chance = RealDisk(), ManualClock(1_700_000_000_000), random.Random(1)
        dirs = log_dirs(disk, str(tmp_path), clock=clock, segment_bytes=60_000)
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        sequence = 0
        for number in range(600):
            now_ms = clock.wall_ms() + number * 10
            time_ms = now_ms - (chance.randrange(500) if number % 3 == 0 else 0)
            count, codec, size = chance.randrange(1, 6), chance.choice([0, 1, 2, 3, 4]), chance.randrange(300)
            if number % 7:
                sent = batch(count, timestamp=time_ms, step_ms=3, size=size, codec=codec)
                append(log, sent, now_ms=now_ms, epoch=number // 200)
                continue
            sent = sequenced(sequence, count, transactional=True, timestamp=time_ms, size=size, codec=codec)
            append(log, sent, now_ms=now_ms, epoch=number // 200)
            sequence += count
            end = build_end_marker(
                aborted=number % 2 == 0, producer_id=7, producer_epoch=0, coordinator_epoch=1, timestamp=time_ms
            )
            assert log.append_as_leader(end, number // 200, now_ms, False).error == 0
        assert len(log.segments) > 2
        await dirs.close()
        disk.close()

    asyncio.run(act())
    text = check_with_kafkas_tool(tmp_path / "t-0")
    assert text.count("endTxnMarker: ABORT") > 20
    assert "producerId: 7" in text


def test_kafkas_tool_reads_what_moldau_compacted(tmp_path: Path) -> None:
    async def act() -> None:
        disk, clock, chance = RealDisk(), ManualClock(1_700_000_000_000), random.Random(1)
        dirs = log_dirs(disk, str(tmp_path), clock=clock, segment_bytes=20_000, index_interval_bytes=200, compact=True)
        await dirs.open()
        log = dirs.create("t", TOPIC_ID, 0)
        for number in range(900):
            pairs: list[tuple[bytes | None, bytes | None]] = [
                (f"k{chance.randrange(300)}".encode(), None if chance.random() < 0.1 else b"x" * 50) for _ in range(3)
            ]
            append(log, batch(pairs, timestamp=clock.wall_ms() + number, codec=number % 5), now_ms=clock.wall_ms())
        assert await Cleaner(dirs).clean_next() is not None
        await dirs.close()
        disk.close()

    asyncio.run(act())
    check_with_kafkas_tool(tmp_path / "t-0")


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[Kafka]:
    peer = Kafka(tmp_path / "kafka", extra_properties="log.segment.bytes=1048576\n")
    peer.start()
    yield peer
    peer.stop()


def produce_to(peer: Kafka) -> list[tuple[bytes, bytes]]:
    """Committed records with every codec, and an aborted transaction among them. What a consumer must find."""
    confluent = pytest.importorskip("confluent_kafka")
    expected: list[tuple[bytes, bytes]] = []
    for number, codec in enumerate(CODECS):
        settings = {"bootstrap.servers": peer.bootstrap, "compression.type": codec, "linger.ms": 5}
        producer = confluent.Producer(settings)
        for index in range(3000):
            record = (f"{codec}-{index}".encode(), random.Random(index).randbytes(150))
            producer.produce("t", key=record[0], value=record[1])
            expected.append(record)
        assert producer.flush(60) == 0
        transactional = confluent.Producer({**settings, "transactional.id": f"x{number}"})
        transactional.init_transactions(60)
        transactional.begin_transaction()
        transactional.produce("t", key=b"aborted", value=b"never")
        transactional.flush(60)
        transactional.abort_transaction(60)
    wait_for_stable_end(peer, len(expected) + 2 * len(CODECS))
    return expected


def wait_for_stable_end(peer: Kafka, end_offset: int) -> None:
    """Until the last marker is written: Kafka writes the markers of a transaction after it has answered its end."""
    admin_module = pytest.importorskip("confluent_kafka.admin")
    from confluent_kafka import IsolationLevel
    from confluent_kafka import TopicPartition as Place

    admin, place = admin_module.AdminClient({"bootstrap.servers": peer.bootstrap}), Place("t", 0)
    deadline = time.monotonic() + 60
    while True:
        asked = {place: admin_module.OffsetSpec.latest()}
        found = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED)[place].result(60).offset
        if found == end_offset:
            return
        assert time.monotonic() < deadline, f"the stable end is {found}, not {end_offset}"


async def opened(directory: Path, disk: RealDisk) -> LogDirs:
    dirs = log_dirs(disk, str(directory), clock=ManualClock(1_900_000_000_000), segment_bytes=1 << 20)
    dirs._identity = type(dirs._identity)(1, "")
    await dirs.open()
    return dirs


@pytest.mark.parametrize("killed", [False, True])
def test_moldau_serves_what_kafka_wrote(kafka: Kafka, killed: bool) -> None:
    expected = produce_to(kafka)
    if killed:
        assert kafka.process is not None
        kafka.process.kill()
        kafka.process.wait()
        kafka.process = None
    kafka.stop()

    async def act() -> None:
        disk = RealDisk()
        before = sorted(path.name for path in (kafka.data_dir / "__cluster_metadata-0").iterdir())
        dirs = await opened(kafka.data_dir, disk)
        assert dirs.clean_start is not killed
        log = dirs.logs[TP]
        aborted = {(one.producer_id, one.first_offset) for one in log.aborted_transactions(0, log.end_offset)}
        assert len(aborted) == 5
        hidden = {offset for _, offset in aborted}
        found = [(one.key, one.value) for one in all_records(log) if one.key != b"aborted" or one.offset not in hidden]
        assert found == expected
        assert len(log.segments) > 1
        assert log.topic_id != bytes(16)
        assert log.epochs.latest_epoch == 0
        middle = all_records(log)[len(expected) // 2]
        by_time = log.offset_for_timestamp(middle.timestamp, log.end_offset)
        assert by_time is not None
        assert by_time[0] == middle.timestamp
        assert by_time[1] <= middle.offset
        end = int(log.end_offset)
        assert append(log, batch(timestamp=1_900_000_000_000), now_ms=1_900_000_000_000, epoch=1) == end
        await dirs.close()
        after = sorted(path.name for path in (kafka.data_dir / "__cluster_metadata-0").iterdir())
        assert after == before, "Kafka's own log is not ours"
        disk.close()

    asyncio.run(act())
    check_with_kafkas_tool(kafka.data_dir / "t-0")
