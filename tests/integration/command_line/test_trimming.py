"""`moldau topic trim`: shows what it would do, and refuses what it cannot do before anything is deleted."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from moldau.cli.errors import PlainError
from moldau.cli.session import with_cluster
from moldau.client.admin import delete_records
from moldau.model.ids import TopicPartition as Partition
from tests.integration.command_line.shell import moldau

Unique = Callable[[], str]


@pytest.fixture
def topic(bootstrap: str, unique: Unique) -> str:
    """Ten records in partition 0; partition 1 is empty."""
    name = unique()
    moldau("topic", "create", name, "-p", "2", "-b", bootstrap)
    lines = "".join(f"{number}\n" for number in range(10))
    assert moldau("produce", name, "-p", "0", "-b", bootstrap, given=lines).returncode == 0
    return name


def start_of(bootstrap: str, topic: str, partition: int) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody"})
    try:
        low, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        return int(low)
    finally:
        consumer.close()


@pytest.mark.parametrize("more", [(), ("--execute",)])
def test_an_offset_beyond_the_end_of_one_partition_deletes_nothing(
    bootstrap: str, topic: str, more: tuple[str, ...]
) -> None:
    done = moldau("topic", "trim", topic, "-o", "5", *more, "-b", bootstrap)
    assert (done.returncode, done.stdout) == (1, "")
    assert "error[MD-2005]" in done.stderr
    assert f"{topic}-1" in done.stderr
    assert "asked for offset 5; the log is empty and goes on at 0" in done.stderr
    assert f"moldau topic trim {topic} -p 0 -o 5" in done.stderr
    assert "-o end" not in done.stderr
    assert start_of(bootstrap, topic, 0) == 0


def test_an_offset_that_no_partition_holds_is_refused(bootstrap: str, topic: str) -> None:
    done = moldau("topic", "trim", topic, "-p", "0", "-o", "999999999", "-b", bootstrap)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the log holds 0 to 9" in done.stderr
    assert f"moldau topic describe {topic}" in done.stderr


def test_what_is_shown_is_what_is_done(bootstrap: str, topic: str) -> None:
    def rows(*more: str) -> list[dict[str, Any]]:
        done = moldau("topic", "trim", topic, "-o", "-6", *more, "--json", "-b", bootstrap)
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found

    shown = rows()
    assert [(row["new_start"], row["offsets_removed"]) for row in shown] == [(4, 4), (0, 0)]
    assert start_of(bootstrap, topic, 0) == 0
    assert rows("--execute") == shown
    assert start_of(bootstrap, topic, 0) == 4
    # What is gone already stays gone, and counts for nothing.
    done = moldau("topic", "trim", topic, "-p", "0", "-o", "2", "--execute", "-b", bootstrap)
    assert done.returncode == 0, done.stderr
    assert "Deleted 0 offsets." in done.stdout
    assert start_of(bootstrap, topic, 0) == 4


def test_a_refusal_names_the_partitions_that_were_trimmed(bootstrap: str, topic: str) -> None:
    """A log may be cut while the command looks; then some partitions are trimmed and one is not."""
    before = {Partition(topic, 1): 5, Partition(topic, 0): 3}
    with pytest.raises(PlainError) as refusal:
        with_cluster(bootstrap, lambda cluster: delete_records(cluster, before))
    assert ("on", f"{topic}-1") in refusal.value.facts
    assert ("detail", f"deleted all the same from {topic}-0") in refusal.value.facts
    assert start_of(bootstrap, topic, 0) == 3
