"""How the command ends: by Ctrl-C, when the reader of its output has enough, when there is nothing to do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.integration.command_line.shell import moldau, terminal

Unique = Callable[[], str]


@pytest.fixture
def topic(bootstrap: str, unique: Unique) -> str:
    name = unique()
    moldau("topic", "create", name, "-b", bootstrap)
    return name


def values(bootstrap: str, topic: str) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody", "enable.auto.commit": False})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [record.value() for record in consumer.consume(end, timeout=30)] if end else []
    finally:
        consumer.close()


def test_the_first_ctrl_c_ends_produce_and_keeps_what_was_sent(bootstrap: str, topic: str) -> None:
    with terminal("produce", topic, "-b", bootstrap) as screen:
        screen.type("one\ntwo\n")
        screen.wait_for("two")
        while len(values(bootstrap, topic)) < 2:
            pass
        screen.type("half a li")
        screen.interrupt()
        assert screen.end() == 130
        assert f"sent 2 records to {topic}" in screen.seen
    assert values(bootstrap, topic) == [b"one", b"two"]


def test_the_end_of_input_on_a_terminal_is_a_good_end(bootstrap: str, topic: str) -> None:
    with terminal("produce", topic, "-b", bootstrap) as screen:
        screen.type("one\n\x04")
        assert screen.end() == 0
    assert values(bootstrap, topic) == [b"one"]


def test_produce_reads_pipes_files_and_nothing(bootstrap: str, topic: str, tmp_path: Path) -> None:
    assert moldau("produce", topic, "-b", bootstrap, given="piped\nwithout end").returncode == 0
    file = tmp_path / "lines"
    file.write_text("filed\n")
    with file.open() as source:
        command = [sys.executable, "-m", "moldau", "produce", topic, "-b", bootstrap]
        assert subprocess.run(command, stdin=source, capture_output=True, timeout=60).returncode == 0
    nothing = moldau("produce", topic, "-b", bootstrap)
    assert (nothing.returncode, nothing.stderr) == (0, f"sent 0 records to {topic}\n")
    assert values(bootstrap, topic) == [b"piped", b"without end", b"filed"]


@pytest.mark.parametrize(
    "verb", ["consume {topic} -o start -e", "consume {topic} -o start", "config get broker 1 --all"]
)
def test_a_reader_that_has_enough_is_no_error(bootstrap: str, topic: str, verb: str) -> None:
    moldau("produce", topic, "-b", bootstrap, given="line\n" * 50_000)
    command = f"set -o pipefail; {sys.executable} -m moldau {verb.format(topic=topic)} -b {bootstrap} | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1
