"""Fetches over many partitions: a little at a time, in line, and in their files until they are sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau.model.file_range import FileRange
from moldau.server.handlers.fetch import LONG_PARTITIONS, handle
from moldau.server.hub import BUDGETS_WATCHED_S
from moldau.server.reply_budget import REPLY_BYTES_MAX, Outlet
from moldau.wire.apis import ApiKey
from moldau.wire.messages.fetch import FetchRequest
from tests.unit.server.harness import NOW_MS, Client, Stage, batch
from tests.unit.server.requests import fetch, joined, produce

PARTITIONS = 3 * LONG_PARTITIONS


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    made.topic("t", partitions=PARTITIONS)
    yield made
    for index in range(PARTITIONS):
        made.partitions.get("t", index).log.close()


def all_partitions(**options: Any) -> FetchRequest:
    return fetch(*[("t", index, 0) for index in range(PARTITIONS)], max_bytes=1 << 26, **options)


def found(reply: Any) -> dict[int, bytes]:
    parts = [part for topic in reply.responses for part in topic.partitions]
    return {part.partition_index: joined(part.records) for part in parts if joined(part.records)}


def put(stage: Stage, index: int, size: int = 10) -> None:
    assert stage.partitions.get("t", index).append(batch([b"v" * size]), -1, NOW_MS).error == 0


def waiting(client: Client) -> bool:
    return not client.replies()


def test_every_partition_is_answered(stage: Stage) -> None:
    for index in range(PARTITIONS):
        put(stage, index, 2000)
    assert sorted(found(stage.connect().call(ApiKey.FETCH, 12, all_partitions()))) == list(range(PARTITIONS))


def test_only_the_first_of_a_long_answer_is_copied(stage: Stage) -> None:
    for index in range(PARTITIONS):
        put(stage, index, 20_000)
    wait = handle(all_partitions(), stage.context(ApiKey.FETCH, 12))
    stage.loop.run()
    pieces = [piece for topic in wait.early.responses for part in topic.partitions for piece in part.records]
    assert [isinstance(piece, FileRange) for piece in pieces] == [False] * 4 + [True] * (PARTITIONS - 4)


def test_it_is_read_in_line_while_others_are_served(stage: Stage) -> None:
    put(stage, 0)
    steps = 0
    for client in [stage.connect() for _ in range(20)]:
        client.send(client.frame(ApiKey.FETCH, 12, all_partitions()))
    assert len(stage.services.reading.waiting) == 20
    while stage.services.reading.waiting:
        turn, stage.loop._soon = stage.loop._soon, []
        for callback, arguments in turn:
            callback(*arguments)
        steps += 1
    assert steps > 3


def test_what_comes_while_it_is_read_is_seen(stage: Stage) -> None:
    client = stage.connect()
    client.send(client.frame(ApiKey.FETCH, 12, all_partitions(max_wait_ms=5000)))
    (read,) = stage.services.reading.waiting
    assert not read.read_on(), "some partitions are read, the first among them"
    put(stage, 0)
    stage.loop.run()
    assert list(found(client.replies()[0])) == [0]


def test_it_waits_for_enough_and_is_woken(stage: Stage) -> None:
    client = stage.connect()
    client.ask(ApiKey.FETCH, 12, all_partitions(max_wait_ms=5000, min_bytes=150))
    put(stage, 7)
    stage.loop.run()
    assert waiting(client)
    put(stage, 8)
    put(stage, 9)
    stage.loop.run()
    assert list(found(client.replies()[0])) == [7, 8, 9]
    assert not stage.partitions.get("t", 8).waiters


def test_it_ends_at_its_deadline(stage: Stage) -> None:
    client = stage.connect()
    client.ask(ApiKey.FETCH, 12, all_partitions(max_wait_ms=500, min_bytes=1000))
    put(stage, 3)
    stage.loop.advance(0.4)
    assert waiting(client)
    stage.loop.advance(0.2)
    assert list(found(client.replies()[0])) == [3]


def test_who_leaves_is_not_read_for(stage: Stage) -> None:
    client, other = stage.connect(), stage.connect()
    for one in (client, other):
        one.send(one.frame(ApiKey.FETCH, 12, all_partitions()))
    client.connection.connection_lost(None)
    stage.loop.run()
    assert len(other.replies()) == 1
    assert client.transport.written == b""


def test_none_is_read_while_untaken_replies_fill_their_budget(stage: Stage) -> None:
    clogged = stage.connect()
    clogged.transport.get_write_buffer_size = lambda: 100 << 20  # type: ignore[method-assign]
    clogged.connection.pause_writing()
    client = stage.connect()
    client.ask(ApiKey.FETCH, 12, all_partitions())
    assert waiting(client)
    assert len(stage.connect().call(ApiKey.FETCH, 12, fetch(("t", 0, 0))).responses) == 1, "short ones are"
    stage.connect().call(ApiKey.PRODUCE, 9, produce("t", batch()))
    stage.loop.advance(3.0)
    assert clogged.transport.aborted, "it took nothing"
    clogged.connection.connection_lost(None)
    stage.loop.run()
    assert len(client.replies()) == 1


class SteadyReader(Outlet):
    """Takes its replies, in twenty seconds, and always asks for more."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def unsent_bytes(self) -> int:
        return 2 * REPLY_BYTES_MAX - int(self._stage.loop.now * REPLY_BYTES_MAX / 10) % REPLY_BYTES_MAX

    unsent_in_memory = unsent_bytes


def test_clients_that_are_slow_for_ever_do_not_keep_it_waiting_for_ever(stage: Stage) -> None:
    put(stage, 0)
    stage.hub.reply_budget.clog(SteadyReader(stage), stage.loop.now)
    stage.hub.watch_budgets()
    clients = [stage.connect() for _ in range(3)]
    for client in clients:
        client.send(client.frame(ApiKey.FETCH, 12, all_partitions()))
    stage.loop.run()
    assert all(waiting(client) for client in clients), "there is no room"
    stage.loop.advance(BUDGETS_WATCHED_S)
    assert [bool(client.transport.written) for client in clients] == [True, False, False]
    stage.loop.advance(2 * BUDGETS_WATCHED_S)
    assert all(client.transport.written for client in clients)
