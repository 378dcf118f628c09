"""The plugin as an application's tests use it: a real socket, a foreign client, unique topics, a clock that moves."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from moldau.testing import NotEnoughRecords, Record
from moldau.testing.broker import InProcessBroker
from moldau.testing.plugin import Moldau


def test_values_come_back_as_they_went_in(moldau: Moldau) -> None:
    orders = moldau.topic("orders", partitions=3)
    orders.produce([{"id": 1}, {"id": 2}, "text", None])
    assert sorted(orders.read(4), key=str) == sorted([{"id": 1}, {"id": 2}, "text", None], key=str)


def test_a_foreign_client_sees_the_same_topic(moldau: Moldau) -> None:
    topic = moldau.topic("shared")
    topic.produce([b"from the test"])
    consumer = Consumer({"bootstrap.servers": moldau.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic.name, 0, 0)])
    (message,) = consumer.consume(1, timeout=60)
    consumer.close()
    assert message.value() == b"from the test"

    producer = Producer({"bootstrap.servers": moldau.bootstrap})
    producer.produce(topic.name, b"from the application", key=b"k")
    assert producer.flush(60) == 0
    records = topic.read_records(2)
    assert (records[1].key, records[1].value) == (b"k", b"from the application")


def test_a_partition_is_read_in_its_order_whatever_the_clocks_say(moldau: Moldau) -> None:
    topic = moldau.topic("clocks")
    moldau.clock.advance("2h")
    topic.produce(["by the broker's clock"])
    producer = Producer({"bootstrap.servers": moldau.bootstrap})
    producer.produce(topic.name, b"by the wall clock")
    assert producer.flush(60) == 0
    assert topic.read(2) == ["by the broker's clock", "by the wall clock"]


def test_topics_of_the_same_name_do_not_meet(moldau: Moldau) -> None:
    one, other = moldau.topic("same"), moldau.topic("same")
    one.produce(["a"])
    with pytest.raises(NotEnoughRecords, match="wanted 1 records, 0 came"):
        other.read(1, timeout=0.2)


def test_retention_without_waiting(moldau: Moldau) -> None:
    topic = moldau.topic("short", configs={"retention.ms": "3600000"})
    topic.produce(["old"])
    moldau.clock.advance("2h")
    with pytest.raises(NotEnoughRecords):
        topic.read(1, timeout=0.2)
    topic.produce(["new"])
    assert topic.read(1) == ["new"]


def test_time_moves_only_forward(moldau: Moldau) -> None:
    with pytest.raises(ValueError, match="only forward"):
        moldau.clock.advance(-1)


def test_topics_are_gone_after_the_test(moldau_broker: InProcessBroker) -> None:
    view = Moldau(moldau_broker)
    name = view.topic("brief").name
    view.clean_up()

    async def names(cluster):  # type: ignore[no-untyped-def]
        await cluster.refresh(None)
        return set(cluster.topics)

    assert name not in moldau_broker.with_cluster(names)


@pytest.mark.parametrize("turn", [1, 2])
def test_every_test_begins_at_the_real_time(moldau: Moldau, turn: int) -> None:
    """Whichever of the two runs second finds nothing of the first one's future."""
    ahead_ms = moldau.clock.now_ms() - time.time() * 1000
    assert abs(ahead_ms) < 60_000
    topic = moldau.topic("times", configs={"retention.ms": "3600000"})
    topic.produce(Record("now", timestamp_ms=moldau.clock.now_ms()))
    moldau.clock.advance("30m")
    assert topic.read(1) == ["now"]
    moldau.clock.advance("7d")


def test_a_clock_that_is_reset_keeps_address_and_data(new_moldau: Callable[..., Moldau]) -> None:
    moldau = new_moldau()
    address, topic = moldau.bootstrap, moldau.topic("kept")
    topic.produce("before")
    moldau.clock.advance("1h")
    moldau._broker.reset_clock()
    assert moldau.bootstrap == address
    assert topic.read(1) == ["before"]
    assert moldau.clock.now_ms() - time.time() * 1000 < 60_000


def test_a_test_may_have_brokers_of_its_own(moldau: Moldau, new_moldau: Callable[..., Moldau]) -> None:
    strict = new_moldau({"auto.create.topics.enable": "false"})
    other = new_moldau()
    assert len({moldau.bootstrap, strict.bootstrap, other.bootstrap}) == 3
    strict.clock.advance("1d")
    assert other.clock.now_ms() - time.time() * 1000 < 60_000
    with pytest.raises(Exception, match="UNKNOWN_TOPIC"):
        strict.existing("nowhere").read(1, timeout=0.2)


@pytest.mark.parametrize("value", ["hello", b"\xff\x00", {"id": 1}, Record("hello")])
def test_one_value_is_one_record(moldau: Moldau, value: object) -> None:
    topic = moldau.topic("one")
    topic.produce(value)
    topic.produce("end")
    assert topic.read(2) == [value.value if isinstance(value, Record) else value, "end"]


def test_text_stays_text_and_numbers_are_not_guessed(moldau: Moldau) -> None:
    topic = moldau.topic("text")
    values = ["42", "true", "null", '"quoted"', "{not json", "", [1, "2"], {"n": 42}, None]
    topic.produce(values)
    assert topic.read(len(values)) == values
    assert topic.read(2, parse=lambda raw: json.loads(raw or b"")) == [42, True]
    with pytest.raises(TypeError, match="'42' makes the same"):
        topic.produce(["sent by nobody", 42])
    for number in (42, 4.5, True):
        with pytest.raises(TypeError, match="Send it as text, or inside an object"):
            topic.produce(number)
    topic.produce("end")
    assert topic.read(len(values) + 1)[-1] == "end"


def test_keys_and_headers_per_record_reach_a_foreign_client(moldau: Moldau) -> None:
    topic = moldau.topic("details", partitions=3)
    topic.produce(
        [
            Record({"id": 1}, key="a", headers={"trace": "x", "empty": None}, partition=2, timestamp_ms=1234),
            Record("second", key=b"b", headers=[("twice", b"1"), ("twice", b"2")], partition=2),
        ]
    )
    consumer = Consumer({"bootstrap.servers": moldau.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic.name, 2, 0)])
    first, second = consumer.consume(2, timeout=60)
    consumer.close()
    assert (first.key(), first.value(), first.timestamp()[1]) == (b"a", b'{"id": 1}', 1234)
    assert first.headers() == [("trace", b"x"), ("empty", None)]
    assert (second.key(), second.headers()) == (b"b", [("twice", b"1"), ("twice", b"2")])
    assert [record.key for record in topic.read_records(2)] == [b"a", b"b"]


def test_the_examples_of_the_page_run_as_they_stand(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
    blocks = re.findall(r"```python\n# (test_\w+\.py|conftest\.py)\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 4
    for number, (name, code) in enumerate(blocks):
        folder = tmp_path / str(number) if name == "conftest.py" else tmp_path
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(code)
        if name == "conftest.py":
            (folder / f"test_conftest_{number}.py").write_text("def test_it(moldau): moldau.topic().produce('x')")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        str(tmp_path),
        "--rootdir",
        str(tmp_path),
    ]
    if not has_entry_point():
        command += ["-p", "moldau.testing.plugin"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stdout


def has_entry_point() -> bool:
    return any(found.name == "moldau" for found in entry_points(group="pytest11"))
