from __future__ import annotations

import asyncio

import pytest

from moldau.runtime.tasks import TaskScope


def test_leaving_the_block_waits_for_every_task() -> None:
    async def play() -> list[str]:
        done: list[str] = []

        async def work(name: str, turns: int) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            done.append(name)

        async with TaskScope("s") as scope:
            scope.start(work("slow", 5), name="slow")
            scope.start(work("fast", 1), name="fast")
        return done

    assert asyncio.run(play()) == ["fast", "slow"]


def test_the_first_failure_cancels_the_others_in_creation_order_and_is_raised() -> None:
    async def play() -> list[str]:
        ended: list[str] = []

        async def wait(name: str) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(name)

        async def fail() -> None:
            await asyncio.sleep(0)
            raise ValueError("first")

        async def owner() -> None:
            async with TaskScope("s") as scope:
                for name in "abc":
                    scope.start(wait(name), name=name)
                scope.start(fail(), name="fail")

        with pytest.raises(ValueError, match="first"):
            await owner()
        return ended

    assert asyncio.run(play()) == ["a", "b", "c"]


def test_closing_cancels_in_creation_order_and_refuses_more() -> None:
    async def play() -> list[str]:
        ended: list[str] = []

        async def wait(name: str) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(name)

        scope = TaskScope("s")
        for name in "abc":
            scope.start(wait(name), name=name)
        await asyncio.sleep(0)
        await scope.close()
        assert len(scope) == 0
        with pytest.raises(RuntimeError, match="closed"):
            scope.start(wait("late"), name="late")
        return ended

    assert asyncio.run(play()) == ["a", "b", "c"]


def test_an_error_in_the_block_cancels_the_tasks() -> None:
    async def play() -> None:
        cancelled = asyncio.Event()

        async def wait() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        async def owner() -> None:
            async with TaskScope("s") as scope:
                scope.start(wait(), name="wait")
                await asyncio.sleep(0)
                raise KeyError("inside")

        with pytest.raises(KeyError):
            await owner()
        assert cancelled.is_set()

    asyncio.run(play())


def test_cancelling_the_owner_ends_the_tasks_first() -> None:
    async def play() -> None:
        ended: list[str] = []

        async def wait() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("child")

        async def owner() -> None:
            async with TaskScope("s") as scope:
                scope.start(wait(), name="wait")

        task = asyncio.create_task(owner())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == ["child"]

    asyncio.run(play())


def test_tasks_carry_the_scopes_name() -> None:
    async def play() -> str:
        async with TaskScope("requests") as scope:
            return scope.start(asyncio.sleep(0), name="Metadata").get_name()

    assert asyncio.run(play()) == "requests/Metadata"
