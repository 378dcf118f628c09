"""The log directory is Kafka's: its own tool reads ours without complaint, and we serve one that Kafka wrote."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from bench.peers.kafka import Kafka, java

from moldau.cli.broker_process import BrokerProcess
from tests.integration.clients import CODECS, ConfluentClient, KafkaPythonClient, Outgoing, Read

BASE_MS = time.time_ns() // 1_000_000 - 3_600_000
"""Recent: Kafka's first look at retention comes half a minute after its start, perhaps while the topic is filled."""
PER_CODEC = 5000
SMALL_SEGMENTS = {"segment.bytes": "1048576", "index.interval.bytes": "1024"}
COMPLAINTS = re.compile(r"mismatch|isvalid: false|exception|corrupt|error|out of order|non-consecutive", re.IGNORECASE)


def records_for(codec: str, partitions: int = 2) -> list[Outgoing]:
    return [
        Outgoing(
            i % partitions,
            b"key-%d" % (i % 100),
            b"%s-%d-" % (codec.encode(), i) * 50,
            BASE_MS + i,
            (("c", codec.encode()),),
        )
        for i in range(PER_CODEC)
    ]


def fill(bootstrap: str, topic: str) -> None:
    """Every codec, with and without a producer id, over several segments."""
    client = ConfluentClient(bootstrap)
    client.create_topic(topic, 2, SMALL_SEGMENTS)
    for codec in CODECS:
        records = records_for(codec)
        for at in range(0, PER_CODEC, PER_CODEC // 10):  # a flush each time, so that there are many batches to index
            client.produce(topic, records[at : at + PER_CODEC // 10], codec=codec, idempotent=codec in ("none", "zstd"))


def expected(partition: int) -> list[tuple[bytes | None, bytes | None, int]]:
    return [
        (record.key, record.value, record.timestamp_ms)
        for codec in CODECS
        for record in records_for(codec)
        if record.partition == partition
    ]


def plain(found: list[Read]) -> list[tuple[bytes | None, bytes | None, int]]:
    return [(record.key, record.value, record.timestamp_ms) for record in found]


def dump(files: list[Path], *options: str) -> str:
    """Kafka's DumpLogSegments over some files."""
    command = java("org.apache.kafka.tools.DumpLogSegments", *options, "--files", ",".join(map(str, files)))
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.timeout(300)
def test_kafkas_own_tool_reads_the_segment_we_write_to(kafka_jars: Path, own_broker: BrokerProcess) -> None:
    client = ConfluentClient(own_broker.bootstrap)
    client.create_topic("ours", 1)
    client.produce("ours", [Outgoing(0, b"key", b"value", BASE_MS)])
    folder = own_broker.data_dir / "ours-0"
    active = [folder / f"{0:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")]
    shown = dump(active, "--deep-iteration")
    assert not COMPLAINTS.search(shown), shown
    assert "| offset: 0 " in shown


@pytest.mark.timeout(300)
def test_kafkas_own_tool_reads_what_we_wrote(kafka_jars: Path, own_broker: BrokerProcess) -> None:
    fill(own_broker.bootstrap, "ours")
    own_broker.stop()
    for partition in range(2):
        folder = own_broker.data_dir / f"ours-{partition}"
        segments = sorted(folder.glob("*.log"))
        assert len(segments) > 1, "the test wants a topic that has rolled"
        shown = dump(segments, "--deep-iteration", "--print-data-log")
        assert not COMPLAINTS.search(shown), COMPLAINTS.findall(shown)
        offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", shown, re.MULTILINE)]
        assert offsets == list(range(PER_CODEC // 2 * len(CODECS)))
        codecs = Counter(re.findall(r"compresscodec: (\w+)", shown))
        assert set(codecs) == set(CODECS)
        assert "isvalid: true" in shown


@pytest.mark.timeout(300)
def test_kafkas_own_tool_accepts_our_indexes(kafka_jars: Path, own_broker: BrokerProcess) -> None:
    fill(own_broker.bootstrap, "ours")
    own_broker.stop()
    folder = own_broker.data_dir / "ours-0"
    for suffix in ("index", "timeindex"):
        files = sorted(folder.glob(f"*.{suffix}"))
        assert files[0].stat().st_size > 0
        shown = dump(files, "--index-sanity-check")
        assert not COMPLAINTS.search(shown), shown
        assert shown.count("passed sanity check") == len(files)
        verified = dump(files)  # compares every entry with the log beside it
        assert not COMPLAINTS.search(verified), verified[:2000]
    snapshots = sorted(folder.glob("*.snapshot"))
    assert snapshots
    shown = dump(snapshots)
    assert not COMPLAINTS.search(shown), shown
    assert "producerId: " in shown


@pytest.mark.timeout(300)
def test_we_serve_a_directory_that_kafka_wrote(kafka_jars: Path, tmp_path: Path) -> None:
    peer = Kafka(work_dir=tmp_path / "kafka")
    peer.start()
    try:
        fill(peer.bootstrap, "theirs")
        client = KafkaPythonClient(peer.bootstrap)
        client.alter_topic_config("theirs", "retention.ms", "-1")
        client.delete_records("theirs", 1, 100)
        before = topic_id(client, "theirs")
        client.close()
    finally:
        peer.stop()
    shutil.copytree(peer.data_dir, tmp_path / "data")
    broker = BrokerProcess(tmp_path / "data")
    broker.start()
    try:
        check_served(broker, before)
        broker.stop()
        broker.start()  # and once more, from what we made of it
        check_served(broker, before)
        check_writable(broker)
    finally:
        broker.stop()


def topic_id(client: KafkaPythonClient, topic: str) -> str:
    (found,) = client._ask("describe_topics", [topic])
    return str(found["topic_id"])


def check_served(broker: BrokerProcess, expected_topic_id: str) -> None:
    client = KafkaPythonClient(broker.bootstrap)
    try:
        assert "theirs" in client.topic_names()
        assert topic_id(client, "theirs") == expected_topic_id
        assert client.topic_config("theirs")["retention.ms"] == "-1"
        count = PER_CODEC // 2 * len(CODECS)
        assert client.offset_range("theirs", 0) == (0, count)
        assert client.offset_range("theirs", 1) == (100, count)
        assert plain(client.consume("theirs", 0, 0, count)) == expected(0)
        assert plain(client.consume("theirs", 1, 100, count - 100)) == expected(1)[100:]
        # All five codecs repeat the timestamps; the first record that is late enough is the answer.
        assert client.offset_for_time("theirs", 0, BASE_MS + 500) == 250
    finally:
        client.close()


def check_writable(broker: BrokerProcess) -> None:
    client = ConfluentClient(broker.bootstrap)
    count = PER_CODEC // 2 * len(CODECS)
    assert client.produce("theirs", [Outgoing(0, b"k", b"after", BASE_MS)], idempotent=True) == [count]
    assert client.consume("theirs", 0, count, 1)[0].value == b"after"
