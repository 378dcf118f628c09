"""kcat, on Debian's older librdkafka."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable

import pytest

from tests.integration.clients import CODECS, ConfluentClient

RECORDS = 20_000  # times five codecs: 100,000


class Kcat:
    def __init__(self, program: str, bootstrap: str) -> None:
        self.command = [program, "-b", bootstrap]

    def __call__(self, *arguments: str, stdin: str | None = None, ok: bool = True) -> str:
        done = subprocess.run([*self.command, *arguments], input=stdin, capture_output=True, text=True, timeout=60)
        assert (done.returncode == 0) is ok, done.stdout[-500:] + done.stderr[-2000:]
        return done.stdout if ok else done.stdout + done.stderr


@pytest.fixture
def run(kcat: str, bootstrap: str) -> Kcat:
    return Kcat(kcat, bootstrap)


@pytest.mark.parametrize("codec", CODECS)
def test_what_goes_in_comes_out(run: Kcat, codec: str, unique: Callable[[], str]) -> None:
    topic = unique()  # made by the broker when kcat asks for it
    lines = [f"key-{i % 1000}:value-{i}-{'x' * (i % 50)}" for i in range(RECORDS)]
    before_ms = int(time.time() * 1000)
    arguments = ("-P", "-t", topic, "-p", "0", "-z", codec, "-K", ":", "-H", "trace=abc", "-H", "n=1")
    run(*arguments, stdin="\n".join(lines) + "\n")
    read = run("-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-f", "%o %T %h %k:%s\n").splitlines()
    assert len(read) == RECORDS
    for number, (line, sent) in enumerate(zip(read, lines, strict=True)):
        offset, timestamp_ms, headers, record = line.split(" ", 3)
        assert (int(offset), headers, record) == (number, "trace=abc,n=1", sent)
        assert before_ms <= int(timestamp_ms) <= time.time() * 1000


def test_metadata(run: Kcat, bootstrap: str, unique: Callable[[], str]) -> None:
    topic = unique()
    ConfluentClient(bootstrap).create_topic(topic, 4)
    shown = json.loads(run("-L", "-J", "-t", topic))
    assert [broker["name"] for broker in shown["brokers"]] == [bootstrap]
    assert len(shown["topics"][0]["partitions"]) == 4


def test_seek_by_timestamp(run: Kcat, bootstrap: str, unique: Callable[[], str]) -> None:
    topic = unique()
    run("-P", "-t", topic, "-p", "0", stdin="one\ntwo\n")
    time.sleep(0.02)
    middle_ms = int(time.time() * 1000)
    run("-P", "-t", topic, "-p", "0", stdin="three\n")
    assert run("-C", "-t", topic, "-p", "0", "-o", f"s@{middle_ms}", "-e", "-q") == "three\n"
    assert run("-Q", "-t", f"{topic}:0:{middle_ms}") == f"{topic} [0] offset 2\n"


def test_an_unknown_topic(run: Kcat) -> None:
    assert "Unknown topic or partition" in run(
        "-C", "-t", "missing", "-X", "allow.auto.create.topics=false", "-e", ok=False
    )


def test_an_oversized_record(run: Kcat, bootstrap: str, unique: Callable[[], str]) -> None:
    topic = unique()
    ConfluentClient(bootstrap).create_topic(topic, config={"max.message.bytes": "2000"})
    output = run("-P", "-t", topic, "-p", "0", stdin="x" * 5000 + "\n", ok=False)
    assert "Message size too large" in output
