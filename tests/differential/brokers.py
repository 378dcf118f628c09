"""The two brokers, with the same settings wherever one must be given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.peers.kafka import BENCH_SETTINGS, Kafka

from tests.brokers import running_broker
from tests.differential.run import Runner

SETTINGS: Mapping[str, str] = {
    "node.id": "1",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.max.session.timeout.ms": "3600000",
    "group.consumer.session.timeout.ms": "3600000",
    "log.retention.ms": "-1",
    # What the properties file that Kafka's own distribution recommends has beside them (`bench/peers/kafka.py`).
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "num.recovery.threads.per.data.dir": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}
"""One partition for each kind of coordinator; nothing waits, expires or is deleted while the scenarios run."""


@contextmanager
def kafka_runner(folder: Path) -> Iterator[Runner]:
    extra = "".join(f"{key}={value}\n" for key, value in SETTINGS.items())
    peer = Kafka(folder, extra_properties=extra)
    peer.start()
    runner = Runner(peer.bootstrap, str(peer.data_dir))
    try:
        yield runner
    finally:
        runner.close()
        peer.stop()


@contextmanager
def moldau_runner(folder: Path) -> Iterator[Runner]:
    with running_broker(folder / "data", {**SETTINGS, **BENCH_SETTINGS}) as broker:
        runner = Runner(broker.bootstrap, str(folder / "data"))
        try:
            yield runner
        finally:
            runner.close()
