"""What the doctor says about waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from moldau.cli import doctor_loop
from moldau.node import loop_figures
from moldau.runtime.disk import RealDisk
from moldau.server.loop_watch import LoopWatch


def test_what_the_watch_saw_is_read_by_the_doctor(tmp_path: Path) -> None:
    (tmp_path / loop_figures.NAME).write_text('{"longest_ms": 900.0}')

    async def act() -> None:
        started: list[asyncio.Task[None]] = []

        def spawn(work: Coroutine[Any, Any, None], name: str) -> None:
            started.append(asyncio.create_task(work, name=name))

        watch = LoopWatch(asyncio.get_running_loop(), lambda: 0, lambda: None)
        loop_figures.keep(watch, RealDisk(), str(tmp_path), spawn)
        assert doctor_loop.held(tmp_path) == (True, "its event loop was never held for 10 ms"), "that was another node"
        watch.turn(0.012, "Fetch")
        watch.turn(0.31, "Produce")
        watch.sweep()
        await started[0]

    asyncio.run(act())
    well, text = doctor_loop.held(tmp_path)
    assert not well
    assert text == ("its event loop was held for 310 ms at most, by Produce; 2 times for over 10 ms, 1 for over 50")


def test_answers_are_told_with_the_slowest() -> None:
    assert doctor_loop.answers([0.2, 0.3, 4.0]) == (True, "answers in 0.3 ms, the slowest of 3 in 4.0 ms")
    assert not doctor_loop.answers([0.2, 0.3, 80.0])[0]
