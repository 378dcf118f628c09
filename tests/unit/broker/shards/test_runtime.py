from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from moldau.broker.shards.runtime import Producer, ShardState
from moldau.core.log.settings import LogSettings
from moldau.model.errors import ErrorCode, Refused
from moldau.records.builder import BatchBuilder, build_end_marker
from tests.unit.broker.shards.tally import Add, Await, Read, Release, Remind, ShardStage, on_virtual_time
from tests.unit.server.harness import NOW_MS


def code(reply: Any) -> ErrorCode:
    assert isinstance(reply, Refused)
    return reply.code


def test_a_reply_leaves_after_its_records_are_written(tmp_path: Path) -> None:
    async def body(on: ShardStage) -> None:
        shard = await on.loaded()
        replies: list[Any] = []
        shard.submit_to(Add("a"), replies.append)
        assert shard.core.counts == {"a": 1}  # type: ignore[attr-defined]
        assert on.partition.log.has_unflushed
        assert replies == []
        assert on.effects == []
        assert await shard.submit(Add("a")) == 2
        assert replies == [1]
        assert on.effects == ["a", "a"]
        assert not on.partition.log.has_unflushed

    on_virtual_time(tmp_path, body)


def test_a_read_waits_for_what_it_saw(tmp_path: Path) -> None:
    async def body(on: ShardStage) -> None:
        shard = await on.loaded()
        replies: list[Any] = []
        shard.submit_to(Read("a"), replies.append)
        assert replies == [0]  # nothing is in flight
        shard.submit_to(Add("a"), lambda reply: replies.append(("added", reply)))
        shard.submit_to(Read("a"), replies.append)
        assert replies == [0]
        await asyncio.sleep(0.001)
        assert replies == [0, ("added", 1), 1]

    on_virtual_time(tmp_path, body)


def test_replies_wait_for_the_high_watermark_and_give_up_in_time(tmp_path: Path) -> None:
    async def body(on: ShardStage) -> None:
        on.partition.become_leader(1, (1, 2), (1, 2))
        shard = await on.loaded(commit_timeout_ms=500)
        slow = shard.submit(Add("a"))
        assert code(await slow) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert asyncio.get_running_loop().time() >= 0.5
        behind = shard.submit(Read("a"))
        await asyncio.sleep(0.01)
        assert not behind.done()
        on.partition.become_leader(1, (1, 2), (1,))
        assert await behind == 1
        assert on.effects == ["a"]  # committed after all

    on_virtual_time(tmp_path, body)


def test_commands_that_wait_are_completed_by_later_ones(tmp_path: Path) -> None:
    async def body(on: ShardStage) -> None:
        shard = await on.loaded()
        first, second = shard.submit(Await()), shard.submit(Await())
        await asyncio.sleep(0.01)
        assert not first.done()
        assert await shard.submit(Release()) == "done"
        assert [first.result(), second.result()] == ["released", "released"]

    on_virtual_time(tmp_path, body)


def test_one_timer_serves_every_deadline(tmp_path: Path) -> None:
    async def body(on: ShardStage) -> None:
        shard = await on.loaded()
        for name, after_ms in (("late", 5000), ("soon", 1000), ("middle", 3000)):
            await shard.submit(Remind(name, after_ms))
        await asyncio.sleep(0.999)
        assert shard.core.counts == {}  # type: ignore[attr-defined]
        for expected in ({"soon": 1}, {"soon": 1, "middle": 1}, {"soon": 1, "middle": 1, "late": 1}):
            await asyncio.sleep(0.1)
            assert shard.core.counts == expected  # type: ignore[attr-defined]
            await asyncio.sleep(1.9)

    on_virtual_time(tmp_path, body)


def test_the_log_gives_the_state_back(tmp_path: Path) -> None:
    async def body(on: ShardStage) -> None:
        shard = await on.loaded()
        for number in range(50):
            await shard.submit(Add(f"n{number % 7}", 3))
        counts = shard.core.counts  # type: ignore[attr-defined]
        shard.close()
        again = on.shard()
        refused = await again.submit(Read("n1"))
        assert code(refused) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await again.load()
        assert again.state is ShardState.READY
        assert again.core.counts == counts  # type: ignore[attr-defined]
        assert again.core.loaded_at is not None  # type: ignore[attr-defined]

    on_virtual_time(tmp_path, body)


def test_records_of_unknown_kinds_are_skipped_and_kept(tmp_path: Path) -> None:
    async def body(on: ShardStage) -> None:
        builder = BatchBuilder()
        builder.append(b"unknown kind", b"x", (), NOW_MS)
        builder.append(b"known", b"x", (), NOW_MS)
        on.partition.append_own(builder.build(), NOW_MS)
        shard = await on.loaded()
        assert shard.core.counts == {"known": 1}  # type: ignore[attr-defined]
        assert on.partition.log.end_offset == 2

    on_virtual_time(tmp_path, body)


@pytest.mark.parametrize("committed", [True, False])
def test_transactional_records_wait_for_their_marker_live_and_on_replay(tmp_path: Path, committed: bool) -> None:
    async def body(on: ShardStage) -> None:
        shard = await on.loaded()
        assert await shard.submit(Add("a"), producer=Producer(77, 3)) == 1
        assert shard.core.counts == {}  # type: ignore[attr-defined]
        marker = build_end_marker(
            aborted=not committed, producer_id=77, producer_epoch=3, coordinator_epoch=0, timestamp=NOW_MS
        )
        assert on.partition.append_own(marker, NOW_MS).error == 0
        shard.marker_appended(77, 3, committed)
        expected = {"a": 1} if committed else {}
        assert shard.core.counts == expected  # type: ignore[attr-defined]
        assert await shard.submit(Read("a")) == expected.get("a", 0)
        shard.close()
        again = await on.loaded()
        assert again.core.counts == expected  # type: ignore[attr-defined]

    on_virtual_time(tmp_path, body)


def test_a_fenced_producer_is_refused_and_nothing_is_applied(tmp_path: Path) -> None:
    async def body(on: ShardStage) -> None:
        shard = await on.loaded()
        assert await shard.submit(Add("a"), producer=Producer(77, 3)) == 1
        refused = await shard.submit(Add("a"), producer=Producer(77, 2))
        assert code(refused) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert shard.state is ShardState.READY
        assert len(shard.core.taken_back) == 1  # type: ignore[attr-defined]
        assert shard.core.pending == {77: ["a"]}  # type: ignore[attr-defined]

    on_virtual_time(tmp_path, body)


def test_large_decisions_are_split_and_too_large_records_taken_back(tmp_path: Path) -> None:
    async def body(on: ShardStage) -> None:
        shard = await on.loaded()
        assert await shard.submit(Add("x" * 100, 50)) == 50
        assert on.partition.appends > 5
        refused = await shard.submit(Add("y" * 2000))
        assert code(refused) is ErrorCode.UNKNOWN_SERVER_ERROR
        assert shard.core.counts == {"x" * 100: 50}  # type: ignore[attr-defined]
        assert on.partition.log.end_offset == 50
        assert await shard.submit(Read("y" * 2000)) == 0

    on_virtual_time(tmp_path, body, settings=LogSettings(message_bytes_max=1000))


def test_resigning_answers_everyone(tmp_path: Path) -> None:
    async def body(on: ShardStage) -> None:
        on.partition.become_leader(1, (1, 2), (1, 2))
        shard = await on.loaded()
        waits, uncommitted = shard.submit(Await()), shard.submit(Add("a"))
        on.partition.become_follower(2, 2)
        assert code(await waits) is ErrorCode.NOT_COORDINATOR
        assert code(await uncommitted) is ErrorCode.NOT_COORDINATOR
        assert code(await shard.submit(Read("a"))) is ErrorCode.NOT_COORDINATOR
        assert on.dropped == [shard]
        assert on.effects == []
        assert not on.partition.waiters

    on_virtual_time(tmp_path, body)


def test_a_failed_disk_drops_the_shard_without_a_lie(tmp_path: Path) -> None:
    async def body(on: ShardStage) -> None:
        shard = await on.loaded()
        waits = shard.submit(Add("a"))
        on.stage.home.fail("pulled out")  # after the append, before the tick wrote it
        assert code(await waits) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert on.dropped == [shard]
        assert on.effects == []

    on_virtual_time(tmp_path, body)


def test_an_append_on_a_failed_disk_drops_the_shard(tmp_path: Path) -> None:
    async def body(on: ShardStage) -> None:
        shard = await on.loaded()
        on.stage.home.fail("pulled out")
        assert code(await shard.submit(Add("a"))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert shard.core.counts == {}  # type: ignore[attr-defined]
        assert on.dropped == [shard]

    on_virtual_time(tmp_path, body)


def test_queues_are_bounded(tmp_path: Path) -> None:
    async def body(on: ShardStage) -> None:
        on.partition.become_leader(1, (1, 2), (1, 2))
        shard = await on.loaded()
        shard.uncommitted_max, shard.waiting_max = 3, 2
        accepted = [shard.submit(Add("a")) for _ in range(3)]
        assert code(await shard.submit(Add("a"))) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert not any(future.done() for future in accepted)
        on.partition.become_leader(1, (1, 2), (1,))
        assert [await future for future in accepted] == [1, 2, 3]
        waiting = [shard.submit(Await()) for _ in range(2)]
        assert code(await shard.submit(Await())) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        shard.close()
        assert [code(await future) for future in waiting] == [ErrorCode.NOT_COORDINATOR] * 2

    on_virtual_time(tmp_path, body)


def test_loading_leaves_the_loop_to_others(tmp_path: Path) -> None:
    async def body(on: ShardStage) -> None:
        shard = await on.loaded()
        for _ in range(40):
            await shard.submit(Add("a", 200))
        shard.close()
        again = on.shard()
        loading = asyncio.ensure_future(again.load())
        turns = 0
        while not loading.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns >= 8
        assert again.core.counts == {"a": 8000}  # type: ignore[attr-defined]

    on_virtual_time(tmp_path, body)


def test_what_is_appended_while_loading_is_loaded_too(tmp_path: Path) -> None:
    async def body(on: ShardStage) -> None:
        shard = await on.loaded()
        for _ in range(10):
            await shard.submit(Add("a", 500))
        await shard.submit(Add("b"), producer=Producer(5, 0))
        shard.close()
        again = on.shard()
        loading = asyncio.ensure_future(again.load())
        await asyncio.sleep(0)
        marker = build_end_marker(aborted=False, producer_id=5, producer_epoch=0, coordinator_epoch=0, timestamp=NOW_MS)
        assert not loading.done()
        assert on.partition.append_own(marker, NOW_MS).error == 0
        again.marker_appended(5, 0, True)
        await loading
        assert again.core.counts == {"a": 5000, "b": 1}  # type: ignore[attr-defined]

    on_virtual_time(tmp_path, body)
