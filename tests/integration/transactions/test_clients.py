"""Transactions as three client libraries run them, and what consumers see of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import confluent_kafka
import pytest

from moldau.cli.broker_process import BrokerProcess
from tests.integration.transactions.producers import PRODUCERS, Fenced, TransactionalProducer
from tests.integration.transactions.wire_client import WireClient

Unique = Callable[[], str]
Make = Callable[..., TransactionalProducer]


@pytest.fixture(params=PRODUCERS, ids=lambda made: made.__name__)
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    made: list[TransactionalProducer] = []

    def one(bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> TransactionalProducer:
        made.append(request.param(bootstrap, transactional_id, timeout_ms))
        return made[-1]

    yield one
    for producer in made:
        producer.close()


def read(bootstrap: str, topic: str, *, committed: bool, partitions: int = 2) -> list[str]:
    """Everything up to the end that this isolation level sees, sorted."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in range(partitions)])
    found = []
    left = partitions
    while left:
        message = consumer.poll(60.0)
        assert message is not None, "no end of the partition"
        error, value = message.error(), message.value()
        if error is None:
            found.append((value or b"").decode())
        else:
            assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
            left -= 1
    consumer.close()
    return sorted(found)


def test_only_committed_transactions_are_seen(make: Make, bootstrap: str, topic: str, unique: Unique) -> None:
    producer = make(bootstrap, unique())
    for round_ in range(6):
        producer.begin()
        for index in range(2):
            producer.send(topic, index, f"{round_}-{index}")
        producer.flush()
        if round_ % 2:
            producer.abort()
        else:
            producer.commit()
    kept = [f"{round_}-{index}" for round_ in (0, 2, 4) for index in range(2)]
    assert read(bootstrap, topic, committed=True) == kept
    assert len(read(bootstrap, topic, committed=False)) == 12


def test_an_open_transaction_holds_readers_back(make: Make, bootstrap: str, topic: str, unique: Unique) -> None:
    first, second = make(bootstrap, unique()), make(bootstrap, unique())
    first.begin()
    first.send(topic, 0, "first")
    first.flush()
    second.begin()
    second.send(topic, 0, "second")
    second.commit()
    assert read(bootstrap, topic, committed=True) == []
    assert read(bootstrap, topic, committed=False) == ["first", "second"]
    first.abort()
    assert read(bootstrap, topic, committed=True) == ["second"]


def test_a_zombie_is_fenced(make: Make, bootstrap: str, topic: str, unique: Unique) -> None:
    name = unique()
    zombie = make(bootstrap, name)
    zombie.begin()
    zombie.send(topic, 0, "zombie")
    zombie.flush()
    heir = make(bootstrap, name)
    with pytest.raises(Fenced):
        zombie.commit()
    heir.begin()
    heir.send(topic, 0, "heir")
    heir.commit()
    assert read(bootstrap, topic, committed=True) == ["heir"]


def test_offsets_are_part_of_the_transaction(
    make: Make, bootstrap: str, wire: WireClient, topic: str, unique: Unique
) -> None:
    group = unique()
    wire.find_group_coordinator(group)
    producer = make(bootstrap, unique())
    for offset, commits, expected in ((3, True, 3), (9, False, 3), (5, True, 5)):
        producer.begin()
        producer.send(topic, 0, f"upto-{offset}")
        producer.send_offset(topic, offset, group)
        producer.flush()
        if commits:
            producer.commit()
        else:
            producer.abort()
        wire.until(lambda want=(expected, "NONE"): wire.committed(group, topic, require_stable=True) == want)  # type: ignore[misc]
    assert read(bootstrap, topic, committed=True) == ["upto-3", "upto-5"]


def test_a_forgotten_transaction_times_out(
    make: Make, bootstrap: str, wire: WireClient, topic: str, unique: Unique
) -> None:
    name = unique()
    producer = make(bootstrap, name, 4_000)  # not before it has produced
    producer.begin()
    producer.send(topic, 0, "forgotten")
    producer.flush()
    wire.wait_until(name, "CompleteAbort")
    assert read(bootstrap, topic, committed=True) == []
    assert read(bootstrap, topic, committed=False) == ["forgotten"]


def test_transactions_survive_a_killed_broker(make: Make, own_broker: BrokerProcess, unique: Unique) -> None:
    """Committed before the kill, open during it, and begun after it."""
    address = own_broker.bootstrap
    wire = WireClient(address)
    topic, name = unique(), unique()
    wire.create_topic(topic, 2)
    producer = make(address, name)
    producer.begin()
    producer.send(topic, 0, "before")
    producer.commit()
    producer.begin()
    producer.send(topic, 1, "during")
    producer.flush()
    wire.close()
    own_broker.kill()
    own_broker.start()
    assert read(address, topic, committed=True) == ["before"]
    producer.send(topic, 0, "during too")
    producer.flush()
    producer.commit()
    producer.begin()
    producer.send(topic, 0, "after")
    producer.commit()
    assert read(address, topic, committed=True) == ["after", "before", "during", "during too"]


def test_what_was_decided_is_carried_out_after_a_kill(own_broker: BrokerProcess, unique: Unique) -> None:
    """The answer to EndTxn has left, then the broker dies: whether markers were written by then or not, the transaction
    is committed."""
    topic = unique()
    wire = WireClient(own_broker.bootstrap)
    wire.create_topic(topic, 2)
    for round_ in range(3):
        name = f"{unique()}-{round_}"
        pid, epoch = wire.begin(name)
        wire.add(name, pid, epoch, (topic, 0), (topic, 1))
        wire.produce(name, pid, epoch, 0, (topic, 0), (topic, 1), values=[f"r{round_}"])
        assert wire.end(name, pid, epoch, commit=True)[0] == "NONE"
        wire.close()
        own_broker.kill()
        own_broker.start()
        wire = WireClient(own_broker.bootstrap)
        wire.find_coordinator(name)
        wire.wait_until(name, "CompleteCommit")
        assert read(own_broker.bootstrap, topic, committed=True) == sorted([f"r{n}" for n in range(round_ + 1)] * 2)
    wire.close()
