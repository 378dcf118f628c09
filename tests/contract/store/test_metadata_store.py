"""What every metadata store must do, whatever engine it stands on."""

from __future__ import annotations

import asyncio

import pytest

from moldau.model.failures import Fenced, StoreFailed

from .engines import Engine


def test_records_come_back_in_order_without_gaps(engine: Engine) -> None:
    async def scenario() -> None:
        store = await engine.open()
        fence = await store.campaign(1)
        assert await store.append([b"a", b"b"], fence=fence) == 2
        assert await store.append([b"c"], fence=fence) == 3
        assert await store.read(after=0) == [(1, b"a"), (2, b"b"), (3, b"c")]
        assert await store.read(after=1, records_max=1) == [(2, b"b")]
        assert await store.read(after=3) == []
        await store.close()

    engine.run(scenario)


def test_records_outlive_the_handle(engine: Engine) -> None:
    async def scenario() -> None:
        first = await engine.open()
        await first.append([b"kept"], fence=await first.campaign(1))
        await first.close()
        second = await engine.open()
        assert await second.read(after=0) == [(1, b"kept")]
        assert await second.append([b"more"], fence=await second.campaign(1)) == 2
        await second.close()

    engine.run(scenario)


def test_an_empty_append_changes_nothing_but_still_checks_the_fence(engine: Engine) -> None:
    async def scenario() -> None:
        store = await engine.open()
        fence = await store.campaign(1)
        await store.append([b"a"], fence=fence)
        assert await store.append([], fence=fence) == 1
        with pytest.raises(Fenced):
            await store.append([], fence=fence + 1)
        await store.close()

    engine.run(scenario)


def test_a_new_fence_outranks_the_old_one(engine: Engine) -> None:
    async def scenario() -> None:
        old, new = await engine.open(), await engine.open()
        old_fence = await old.campaign(1)
        await old.resign(old_fence)
        new_fence = await new.campaign(2)
        assert new_fence > old_fence
        with pytest.raises(Fenced):
            await old.append([b"late"], fence=old_fence)
        assert await new.read(after=0) == []
        assert await new.append([b"mine"], fence=new_fence) == 1
        await old.close()
        await new.close()

    engine.run(scenario)


def test_a_restarted_controller_wins_at_once_and_fences_its_former_self(engine: Engine) -> None:
    async def scenario() -> None:
        before, after = await engine.open(), await engine.open()
        await before.register(1, b"", lease_ms=60_000)
        old_fence = await before.campaign(1)
        assert await after.campaign(1) > old_fence
        with pytest.raises(Fenced):
            await before.append([b"ghost"], fence=old_fence)
        await before.close()
        await after.close()

    engine.run(scenario)


def test_a_campaign_waits_while_a_live_controller_holds_on(engine: Engine) -> None:
    async def scenario() -> None:
        holder, rival = await engine.open(), await engine.open()
        await holder.register(1, b"", lease_ms=600_000)
        fence = await holder.campaign(1)
        campaign = asyncio.get_running_loop().create_task(rival.campaign(2))
        assert await holder.append([b"still here"], fence=fence) == 1
        assert not campaign.done()
        await holder.resign(fence)
        assert await campaign > fence
        await holder.close()
        await rival.close()

    engine.run(scenario)


def test_waiting_ends_when_another_handle_appends(engine: Engine) -> None:
    async def scenario() -> None:
        writer, reader = await engine.open(), await engine.open()
        fence = await writer.campaign(1)
        waiting = asyncio.get_running_loop().create_task(reader.wait(after=0))
        await writer.append([b"a"], fence=fence)
        await waiting
        assert await reader.read(after=0) == [(1, b"a")]
        await reader.wait(after=0)
        await writer.close()
        await reader.close()

    engine.run(scenario)


def test_a_snapshot_replaces_the_records_it_covers(engine: Engine) -> None:
    async def scenario() -> None:
        store = await engine.open()
        assert await store.load_snapshot() == (0, [])
        fence = await store.campaign(1)
        await store.append([b"a", b"b", b"c"], fence=fence)
        await store.save_snapshot(2, [b"ab"])
        assert await store.load_snapshot() == (2, [b"ab"])
        assert await store.read(after=2) == [(3, b"c")]
        assert await store.append([b"d"], fence=fence) == 4
        await store.close()
        again = await engine.open()
        assert await again.load_snapshot() == (2, [b"ab"])
        assert await again.read(after=2) == [(3, b"c"), (4, b"d")]
        await again.close()

    engine.run(scenario)


def test_offsets_go_on_after_a_snapshot_of_everything(engine: Engine) -> None:
    async def scenario() -> None:
        store = await engine.open()
        await store.append([b"a", b"b"], fence=await store.campaign(1))
        await store.save_snapshot(2, [])
        await store.close()
        again = await engine.open()
        assert await again.append([b"c"], fence=await again.campaign(1)) == 3
        await again.close()

    engine.run(scenario)


def test_an_older_snapshot_never_replaces_a_newer_one(engine: Engine) -> None:
    async def scenario() -> None:
        store = await engine.open()
        await store.append([b"a", b"b"], fence=await store.campaign(1))
        await store.save_snapshot(2, [b"ab"])
        await store.save_snapshot(1, [b"a"])
        assert await store.load_snapshot() == (2, [b"ab"])
        await store.close()

    engine.run(scenario)


def test_a_snapshot_beyond_the_log_is_refused(engine: Engine) -> None:
    async def scenario() -> None:
        store = await engine.open()
        await store.append([b"a"], fence=await store.campaign(1))
        with pytest.raises(StoreFailed):
            await store.save_snapshot(2, [b"ab"])
        assert await store.load_snapshot() == (0, [])
        await store.close()

    engine.run(scenario)


def test_broker_epochs_only_rise(engine: Engine) -> None:
    async def scenario() -> None:
        store = await engine.open()
        first = await store.register(1, b"one", lease_ms=1000)
        second = await store.register(2, b"two", lease_ms=1000)
        again = await store.register(1, b"one again", lease_ms=1000)
        assert first < second < again
        found = await store.brokers()
        assert [(lease.node_id, lease.broker_epoch, lease.payload) for lease in found] == [
            (1, again, b"one again"),
            (2, second, b"two"),
        ]
        await store.close()

    engine.run(scenario)


def test_a_lease_ends_unless_it_is_renewed(engine: Engine) -> None:
    async def scenario() -> None:
        store = await engine.open()
        kept = await store.register(1, b"", lease_ms=1000)
        lost = await store.register(2, b"", lease_ms=1000)
        await engine.pass_time(700)
        await store.renew(1, kept, lease_ms=1000)
        await engine.pass_time(700)
        assert [lease.node_id for lease in await store.brokers()] == [1]
        with pytest.raises(Fenced):
            await store.renew(2, lost, lease_ms=1000)
        await store.close()

    engine.run(scenario)


def test_an_old_epoch_cannot_renew_or_unregister_its_successor(engine: Engine) -> None:
    async def scenario() -> None:
        store = await engine.open()
        old = await store.register(1, b"", lease_ms=1000)
        new = await store.register(1, b"", lease_ms=1000)
        with pytest.raises(Fenced):
            await store.renew(1, old, lease_ms=1000)
        await store.unregister(1, old)
        assert [lease.broker_epoch for lease in await store.brokers()] == [new]
        await store.unregister(1, new)
        assert await store.brokers() == []
        await store.close()

    engine.run(scenario)


def test_a_closed_store_says_so(engine: Engine) -> None:
    async def scenario() -> None:
        store = await engine.open()
        fence = await store.campaign(1)
        await store.close()
        with pytest.raises(StoreFailed):
            await store.append([b"a"], fence=fence)

    engine.run(scenario)
