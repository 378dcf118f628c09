"""The virtual-time loop: time jumps, order is fixed, and what would hang says so."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from moldau_sim.loop import Deadlock, Runaway, VirtualLoop
from moldau_sim.process import Process, ProcessDied


def test_time_jumps_to_the_next_timer() -> None:
    loop = VirtualLoop()

    async def nap() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    assert loop.run_until_complete(nap()) == 3600


def test_equal_deadlines_run_in_the_order_they_were_made() -> None:
    loop = VirtualLoop()
    order: list[int] = []

    async def main() -> None:
        for number in range(50):
            loop.call_at(1.0, order.append, number)
        await asyncio.sleep(2)

    loop.run_until_complete(main())
    assert order == list(range(50))


def test_a_cancelled_timer_never_runs() -> None:
    loop = VirtualLoop()
    ran: list[str] = []

    async def main() -> None:
        loop.call_later(1, ran.append, "kept")
        loop.call_later(1, ran.append, "cancelled").cancel()
        await asyncio.sleep(2)

    loop.run_until_complete(main())
    assert ran == ["kept"]


def test_waiting_for_what_never_comes_is_a_deadlock() -> None:
    loop = VirtualLoop()

    async def main() -> None:
        await loop.create_future()

    with pytest.raises(Deadlock):
        loop.run_until_complete(main())


def test_polling_without_waiting_is_a_runaway() -> None:
    loop = VirtualLoop(steps_max=1000)

    async def main() -> None:
        while True:  # noqa: ASYNC110 - the very thing that must be noticed
            await asyncio.sleep(0)

    with pytest.raises(Runaway):
        loop.run_until_complete(main())


def test_sets_of_tasks_are_walked_in_creation_order() -> None:
    loop = VirtualLoop()

    async def main() -> list[int]:
        tasks = [asyncio.ensure_future(asyncio.sleep(1, number)) for number in range(20)]
        done, _pending = await asyncio.wait(tasks)
        return [task.result() for task in done]

    def run() -> list[int]:
        return VirtualLoop().run_until_complete(main())

    assert run() == run()
    loop.close()


def test_executor_work_runs_inline_after_its_delay() -> None:
    loop = VirtualLoop()
    loop.executor_delay = lambda: 2.5

    async def main() -> tuple[int, float]:
        value = await loop.run_in_executor(None, lambda: 7)
        return value, loop.time()

    assert loop.run_until_complete(main()) == (7, 2.5)


def test_timeouts_work_on_virtual_time() -> None:
    loop = VirtualLoop()

    async def main() -> float:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(30):
                await loop.create_future()
        return loop.time()

    assert loop.run_until_complete(main()) == 30


def test_an_unhandled_exception_is_kept_as_a_failure() -> None:
    loop = VirtualLoop()

    async def main() -> None:
        loop.call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)

    loop.run_until_complete(main())
    assert isinstance(loop.failures[0]["exception"], ZeroDivisionError)


def test_a_dead_process_runs_nothing_more() -> None:
    loop = VirtualLoop()
    process = Process("victim")
    log: list[str] = []

    async def victim() -> None:
        try:
            while True:
                await asyncio.sleep(1)
                log.append("tick")
        finally:
            log.append("tidied up")

    async def main() -> None:
        process.run(loop.create_task, victim())
        await asyncio.sleep(2.5)
        process.die()
        await asyncio.sleep(10)

    loop.run_until_complete(main())
    assert log == ["tick", "tick"]
    assert len(process.tasks) == 1
    with pytest.raises(ProcessDied):
        process.check_alive()
