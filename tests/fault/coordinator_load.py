"""What it costs to coordinate many groups: memory of an offset, and the time to load them all after a restart.

    python -m tests.fault.coordinator_load --groups 10000 --offsets 100
    python -m tests.fault.coordinator_load --groups 2500 --groups 5000 --groups 10000     # is it linear?

Groups commit their offsets as consumers without membership do. The broker is then killed and started again; loaded is
when each shard of the coordinator answers OffsetFetch for one of its groups with the offset that was committed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from moldau.cli.broker_process import BrokerProcess
from moldau.client.connection import BrokerConnection, connect
from moldau.runtime.net import RealNetwork
from moldau.wire.apis import ApiKey
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest
from moldau.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from moldau.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.fault.compaction_scale import anonymous_mib
from tests.machine import seconds_queued, slowness

TOPIC = "watched"
IN_FLIGHT = 200
CONNECTIONS = 4
PATIENCE_S = 120.0
PROBED_GROUPS = 500  # spread over all shards


@dataclass
class Facts:
    groups: int
    offsets: int
    rss_empty_mib: float = 0.0
    rss_filled_mib: float = 0.0
    rss_loaded_mib: float = 0.0
    fill_s: float = 0.0
    start_s: float = 0.0  # of the process, to its first answer
    load_s: float = 0.0  # from that answer to the last shard's
    queued_s: float = 0.0  # of both, while other programs had the processor
    log_mib: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        return self.groups * self.offsets

    @property
    def own_s(self) -> float:
        """Start and loading on a machine like the one for which budgets were set, with nobody else on it."""
        return max(0.01, self.start_s + self.load_s - self.queued_s) / slowness()

    @property
    def bytes_per_offset(self) -> float:
        return (self.rss_loaded_mib - self.rss_empty_mib) * 2**20 / self.count

    def __str__(self) -> str:
        return (
            f"{self.groups:,} groups x {self.offsets} offsets: filled in {self.fill_s:.1f} s "
            f"({self.count / self.fill_s:,.0f} offsets/s, log {self.log_mib:.0f} MiB), loaded {self.load_s:.2f} s "
            f"after a start of {self.start_s:.2f} s ({self.load_s / self.count * 1e6:.2f} us an offset), memory "
            f"{self.rss_empty_mib:.0f} MiB empty, {self.rss_filled_mib:.0f} filled, {self.rss_loaded_mib:.0f} loaded: "
            f"{self.bytes_per_offset:.0f} bytes an offset"
        )


def group_name(number: int) -> str:
    return f"group-{number:06d}"


def committed_offset(group: int, partition: int) -> int:
    return group * 1000 + partition


async def connected(bootstrap: str) -> BrokerConnection:
    host, port = bootstrap.rsplit(":", 1)
    return await connect(RealNetwork(), host, int(port), client_id="coordinator-load", timeout_s=PATIENCE_S)


async def ensure_coordinator(connection: BrokerConnection) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (await connection.request(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(key="any"), newest=3)).error_code:
        assert time.monotonic() < deadline, "there is no coordinator"
        await asyncio.sleep(0.05)


def commit_of(group: int, offsets: int) -> OffsetCommitRequest:
    rows = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=committed_offset(group, index), committed_metadata=""
        )
        for index in range(offsets)
    ]
    return OffsetCommitRequest(
        group_id=group_name(group),
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=rows)],
    )


async def commit_all(bootstrap: str, facts: Facts) -> None:
    connections = [await connected(bootstrap) for _ in range(CONNECTIONS)]
    await ensure_coordinator(connections[0])
    room = asyncio.Semaphore(IN_FLIGHT)

    async def one(group: int) -> None:
        async with room:
            request, connection = commit_of(group, facts.offsets), connections[group % CONNECTIONS]
            for _ in range(100):  # a shard that has just been made may still be loading
                answer = await connection.request(ApiKey.OFFSET_COMMIT, request, timeout_s=PATIENCE_S, newest=9)
                codes = {row.error_code for topic in answer.topics for row in topic.partitions}
                if codes == {0}:
                    return
                await asyncio.sleep(0.05)
            facts.problems.append(f"a commit was refused: {codes}")

    await asyncio.gather(*(one(group) for group in range(facts.groups)))
    for connection in connections:
        connection.close()


async def await_loaded(bootstrap: str, facts: Facts) -> None:
    """Until a sample of groups, which meets every shard, is answered with what was committed."""
    connection = await connected(bootstrap)
    deadline = time.monotonic() + PATIENCE_S
    for group in range(0, facts.groups, max(1, facts.groups // PROBED_GROUPS)):
        topic = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=list(range(facts.offsets)))
        request = OffsetFetchRequest(group_id=group_name(group), topics=[topic])
        while (answer := await connection.request(ApiKey.OFFSET_FETCH, request, newest=7, timeout_s=PATIENCE_S)) and (
            answer.error_code
        ):
            if time.monotonic() > deadline:
                facts.problems.append(f"{group_name(group)} is not answered: error {answer.error_code}")
                return
            await asyncio.sleep(0.01)
        found = [row.committed_offset for row in answer.topics[0].partitions]
        if found != [committed_offset(group, index) for index in range(facts.offsets)]:
            facts.problems.append(f"{group_name(group)} has lost offsets")
    connection.close()


def run(folder: Path, groups: int, offsets: int) -> Facts:
    facts = Facts(groups, offsets)
    folder.mkdir(exist_ok=True)
    broker = BrokerProcess(folder / "data")
    broker.start()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, offsets, 1)])[TOPIC].result(60)
        asyncio.run(prepare(broker.bootstrap))
        facts.rss_empty_mib = anonymous_mib(broker.pid)
        begin = time.monotonic()
        asyncio.run(commit_all(broker.bootstrap, facts))
        facts.fill_s = time.monotonic() - begin
        facts.rss_filled_mib = anonymous_mib(broker.pid)
        logs = (folder / "data").glob("__consumer_offsets-*/*.log")
        facts.log_mib = sum(file.stat().st_size for file in logs) / 2**20
        broker.kill()
        queued_s = seconds_queued(os.getpid())
        begin = time.monotonic()
        broker.start()
        facts.start_s = time.monotonic() - begin
        asyncio.run(await_loaded(broker.bootstrap, facts))
        facts.load_s = time.monotonic() - begin - facts.start_s
        facts.queued_s = seconds_queued(os.getpid(), broker.pid) - queued_s
        facts.rss_loaded_mib = anonymous_mib(broker.pid)
        return facts
    finally:
        broker.stop()


async def prepare(bootstrap: str) -> None:
    connection = await connected(bootstrap)
    await ensure_coordinator(connection)
    connection.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, action="append", help="may be repeated")
    parser.add_argument("--offsets", type=int, default=100)
    arguments = parser.parse_args()
    problems = []
    for groups in arguments.groups or [10_000]:
        with tempfile.TemporaryDirectory(prefix="moldau-coordinator-") as folder:
            facts = run(Path(folder), groups, arguments.offsets)
        print(facts, *facts.problems[:5], sep="\n", flush=True)
        problems += facts.problems
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
