"""Rows that measure the coordinators: offset commits, rebalances, transactions."""

from __future__ import annotations

import itertools
import statistics
import time
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from bench import measure, topics
from bench.loadgen import requests
from bench.loadgen.members import Crowd
from bench.loadgen.run import load, rdclient
from bench.peers.base import Peer
from bench.rows import Row, memory, report_sample
from bench.samples import Sample

COMMITTERS: Final = 16
READY_SECONDS_MAX: Final = 60.0
TRANSACTION_RECORDS: Final = 100  # as in loadgen/rdclient.c
TRANSACTION_PARTITIONS: Final = 4
_numbers = itertools.count(1)


@dataclass
class OffsetCommits(Row):
    """Each connection commits one offset of its own group, over and over."""

    rate_unit: str = "req/s"
    cpu_unit: str = "us/req"

    def __post_init__(self) -> None:
        self._topics: dict[str, str] = {}

    def prepare(self, peer: Peer) -> None:
        topic = self._topics[peer.name] = topics.create(peer, self.name, 1)
        for number in range(COMMITTERS):
            wake_coordinator(peer, group_name(topic, number), topic)

    def once(self, peer: Peer) -> Sample:
        topic = self._topics[peer.name]
        frames = [requests.offset_commit(group_name(topic, number), topic, 0, 1) for number in range(COMMITTERS)]
        report = load(peer, "commit", frames, connections=COMMITTERS, in_flight=5, seconds=self.seconds)
        return report_sample(peer, report, "requests")

    def finish(self, peer: Peer) -> None:
        topics.delete(peer, self._topics.pop(peer.name))


def wake_coordinator(peer: Peer, group: str, topic: str) -> None:
    """Its topic is made on first need; once it has taken a commit it is there."""
    consumer = Consumer({"bootstrap.servers": peer.bootstrap, "group.id": group, "log_level": 0})
    deadline = time.monotonic() + READY_SECONDS_MAX
    while True:
        try:
            consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
            break
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    consumer.close()


def group_name(topic: str, number: int) -> str:
    return f"{topic}-group-{number}"


@dataclass
class Rebalances(Row):
    """All members join again; from the first JoinGroup to the last answer of SyncGroup."""

    members: int = 100
    p99_judged: bool = True
    rate_unit: str = "rebalances/s"
    cpu_unit: str = "ms/rebalance"

    def __post_init__(self) -> None:
        self._crowds: dict[str, Crowd] = {}

    def prepare(self, peer: Peer) -> None:
        group, topic = f"{self.name}-{next(_numbers)}", topics.create(peer, self.name, 1)
        wake_coordinator(peer, group, topic)
        topics.delete(peer, topic)
        crowd = self._crowds[peer.name] = Crowd(peer.port, group, self.members)
        peer.before_stop.append(crowd.close)
        crowd.rebalance()  # the first one waits for group.initial.rebalance.delay.ms

    def once(self, peer: Peer) -> Sample:
        crowd, times = self._crowds[peer.name], list[float]()
        begin, cpu = time.perf_counter(), measure.cpu_seconds(peer.pid)
        while time.perf_counter() - begin < self.seconds:
            times.append(crowd.rebalance())
        cpu = measure.cpu_seconds(peer.pid) - cpu
        return Sample(
            rate=len(times) / sum(times),
            p50_us=statistics.median(times) * 1e6,
            p99_us=statistics.quantiles(times, n=100)[98] * 1e6,
            cpu=cpu / len(times) * 1e3,
            **memory(peer),
        )

    def finish(self, peer: Peer) -> None:
        self._crowds.pop(peer.name).close()


@dataclass
class Transactions(Row):
    """librdkafka, one producer: transactions of 100 records of 100 bytes, one after the other."""

    transactions: int = 2000
    rate_unit: str = "txn/s"
    cpu_unit: str = "us/txn"

    def once(self, peer: Peer) -> Sample:
        topic = topics.create(peer, self.name, TRANSACTION_PARTITIONS)
        count = max(100, int(self.transactions * self.seconds / 5.0))
        report = rdclient(
            *(peer, "transact", topic),
            partitions=TRANSACTION_PARTITIONS,
            count=count * TRANSACTION_RECORDS,
            value_bytes=100,
        )
        topics.delete(peer, topic)
        return Sample(
            rate=count / report["seconds"],
            p50_us=report["seconds"] / count * 1e6,
            cpu=report["broker_cpu_s"] / count * 1e6,
            client_cores=report["client_cpu_s"] / report["seconds"],
            **memory(peer),
        )


def coordinator_rows() -> list[Row]:
    return [
        OffsetCommits("commit-16", "offset commits, 16 connections"),
        Rebalances("rebalance-100", "rebalance of 100 members"),
        Transactions("txn-100", "transactions of 100 x 100 B"),
    ]
