"""Transactions while a proxy holds back, repeats across connections and loses the answers of their requests.

    python -m tests.fault.torn_transactions --transactions 5000 --version 1
    python -m tests.fault.torn_transactions --transactions 5000 --version 2

Afterwards a committed transaction must be there as a whole, an aborted one not at all, one that ended unknown to its
producer either way but whole; offsets committed with them likewise; and nothing may be left open.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from moldau.cli.broker_process import BrokerProcess
from tests.fault.delaying_proxy import DelayingProxy
from tests.fault.outside import STURDY
from tests.fault.torn_producers import (
    ABORTED,
    COMMITTED,
    PARTITIONS,
    TOPIC,
    UNKNOWN,
    Ledger,
    ProducerV1,
    ProducerV2,
    group_of,
    transactional_id,
)

PRODUCERS = 4
SETTINGS = {"offsets.topic.num.partitions": "5", "transaction.state.log.num.partitions": "5"}
END_S = 180.0


@dataclass
class Facts:
    outcomes: Counter[str] = field(default_factory=Counter)
    frames: Counter[str] = field(default_factory=Counter)
    undelivered: int = 0  # records of committed plans that their client never told as written
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


def judge(ledger: Ledger, seen: list[list[bytes]], offsets: dict[int, int]) -> list[str]:
    """`seen`: the values of each partition under read_committed, in order. `offsets`: of each producer's group."""
    problems = list(ledger.problems)
    times: Counter[tuple[int, int, int]] = Counter()
    for partition, values in enumerate(seen):
        last: dict[int, int] = {}
        for value in values:
            producer, number, index = map(int, value.split(b":"))
            times[producer, number, index] += 1
            if number <= last.get(producer, -1):
                problems.append(f"partition {partition}: {value!r} comes after transaction {last[producer]}")
            last[producer] = number
    for (producer, number), plan in ledger.plans.items():
        told = [index for index in range(len(plan.partitions)) if index not in plan.undelivered]
        counts = [times[producer, number, index] for index in told] or [
            int(ledger.outcomes[producer, number] == COMMITTED)
        ]
        problems += judge_one(f"transaction {producer}:{number}", ledger.outcomes[producer, number], counts)
    for producer, offset in offsets.items():
        problems += judge_offset(ledger, producer, offset, times)
    return problems


def judge_one(name: str, outcome: str, counts: list[int]) -> list[str]:
    if max(counts) > 1:
        return [f"{name} is there twice: {counts}"]
    if min(counts) != max(counts):
        return [f"{name} ({outcome}) is torn: {counts}"]
    if outcome == COMMITTED and not max(counts):
        return [f"{name} was committed and is lost"]
    if outcome == ABORTED and max(counts):
        return [f"{name} was aborted and is there"]
    return []


def judge_offset(ledger: Ledger, producer: int, offset: int, times: Counter[tuple[int, int, int]]) -> list[str]:
    """The offset is that of the last transaction that carried one and is there."""
    there, perhaps = [-2], set[int]()
    for (who, number), plan in ledger.plans.items():
        if who != producer or not plan.with_offset:
            continue
        if ledger.outcomes[who, number] == COMMITTED or any(times[who, number, i] for i in range(PARTITIONS)):
            there.append(number)
        elif ledger.outcomes[who, number] == UNKNOWN and plan.undelivered:  # none of its records can tell
            perhaps.add(number)
    wanted = {max(there) + 1, *(number + 1 for number in perhaps if number > max(there))}
    return [] if offset in wanted else [f"producer {producer}: offset {offset} instead of {max(there) + 1}"]


def run_v1(bootstrap: str, ledger: Ledger, transactions: int, seed: int) -> None:
    def one(name: int) -> None:
        try:
            ProducerV1(bootstrap, name, ledger, seed * 100 + name).run(transactions // PRODUCERS)
        except Exception as failure:
            ledger.problems.append(f"producer {name} gave up: {failure!r}")

    threads = [threading.Thread(target=one, args=(name,)) for name in range(PRODUCERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run_v2(bootstrap: str, ledger: Ledger, transactions: int, seed: int) -> None:
    async def all_of_them() -> None:
        producers = [ProducerV2(bootstrap, name, ledger, seed * 100 + name) for name in range(PRODUCERS)]
        await asyncio.gather(*(producer.run(transactions // PRODUCERS) for producer in producers))

    asyncio.run(all_of_them())


class Look:
    """What there is after all, asked with librdkafka."""

    def __init__(self, bootstrap: str, problems: list[str]) -> None:
        self.bootstrap, self.problems = bootstrap, problems
        self.admin = AdminClient({"bootstrap.servers": bootstrap, **STURDY})

    def ends(self, isolation: IsolationLevel) -> list[int]:
        wanted = {TopicPartition(TOPIC, index): OffsetSpec.latest() for index in range(PARTITIONS)}  # type: ignore[no-untyped-call]
        answers = self.admin.list_offsets(wanted, isolation_level=isolation, request_timeout=30)
        found = {place.partition: answer.result().offset for place, answer in answers.items()}
        return [found[index] for index in range(PARTITIONS)]

    def close_what_is_open(self) -> None:
        """Every transactional id begins anew, which ends what its last producer left; then nothing may be open."""
        for name in range(PRODUCERS):
            config = {"bootstrap.servers": self.bootstrap, "transactional.id": transactional_id(name), **STURDY}
            Producer(config).init_transactions(60)
        deadline = time.monotonic() + END_S
        while (stable := self.ends(IsolationLevel.READ_COMMITTED)) != (
            ends := self.ends(IsolationLevel.READ_UNCOMMITTED)
        ):
            if time.monotonic() > deadline:
                self.problems.append(f"a transaction hangs: stable up to {stable}, written up to {ends}")
                return
            time.sleep(0.1)

    def values(self) -> list[list[bytes]]:
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "unused", "enable.auto.commit": False, **STURDY}
            | {"isolation.level": "read_committed", "enable.partition.eof": True}
        )
        consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
        found: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        ended, deadline = set[int](), time.monotonic() + END_S
        while len(ended) < PARTITIONS and time.monotonic() < deadline:
            for message in consumer.consume(1000, timeout=0.5):
                partition, value = message.partition(), message.value()
                assert partition is not None
                if message.error() is not None:
                    ended.add(partition)
                elif value is not None:
                    found[partition].append(value)
        consumer.close()
        return found

    def offsets(self) -> dict[int, int]:
        found = {}
        for name in range(PRODUCERS):
            asked = ConsumerGroupTopicPartitions(group_of(name), [TopicPartition(TOPIC, 0)])
            (answer,) = self.admin.list_consumer_group_offsets([asked], require_stable=True).values()
            found[name] = max(answer.result().topic_partitions[0].offset, -1)
        return found


def run(folder: Path, *, transactions: int, version: int, seed: int = 1) -> Facts:
    ledger, facts, begin = Ledger(), Facts(), time.monotonic()
    proxy = DelayingProxy(seed)
    broker = BrokerProcess(folder / "data", SETTINGS | {"advertised.listeners": f"PLAINTEXT://{proxy.address}"})
    broker.bootstrap = "127.0.0.1:0"
    broker.start()
    try:
        host, port = broker.bootstrap.rsplit(":", 1)
        proxy.upstream = (host, int(port))
        admin = AdminClient({"bootstrap.servers": proxy.address, **STURDY})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        (run_v1 if version == 1 else run_v2)(proxy.address, ledger, transactions, seed)
        proxy.be_kind()
        look = Look(proxy.address, ledger.problems)
        look.close_what_is_open()
        facts.problems = judge(ledger, look.values(), look.offsets())
    finally:
        broker.stop()
        proxy.stop()
    facts.undelivered = sum(len(plan.undelivered) for plan in ledger.plans.values() if plan.commit)
    facts.outcomes, facts.frames = Counter(ledger.outcomes.values()), proxy.counts
    facts.seconds = time.monotonic() - begin
    return facts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transactions", type=int, default=5000)
    parser.add_argument("--version", type=int, choices=(1, 2), default=1)
    parser.add_argument("--seed", type=int, default=1)
    with tempfile.TemporaryDirectory(prefix="moldau-torn-") as folder:
        facts = run(Path(folder), **vars(parser.parse_args()))
    print(
        f"{dict(facts.outcomes)} in {facts.seconds:.0f} s, {facts.undelivered} records not told as written; "
        f"frames: {dict(sorted(facts.frames.items()))}"
    )
    print("\n".join(facts.problems[:20]) or "no torn, lost or resurrected transaction")
    return 1 if facts.problems else 0


if __name__ == "__main__":
    sys.exit(main())
