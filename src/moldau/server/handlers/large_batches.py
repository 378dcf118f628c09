"""Batches that take long to check, checked in steps between which the loop serves others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Protocol

from moldau.broker.partition import Partition
from moldau.records.gradual import GradualCheck
from moldau.server.aside import Aside

REPACKED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of one request, waiting to be appended together. What comes beyond is compressed anew when it is appended."""


class Unchecked(Protocol):
    @property
    def check(self) -> GradualCheck: ...
    @property
    def partition(self) -> Partition: ...


class Checkable(Protocol):
    """A produce that waits for its batches to be checked."""

    @property
    def unchecked(self) -> Sequence[Unchecked]: ...

    def append_checked(self) -> Any:
        """Append at once, whatever the checks found, and answer."""


async def check_and_append(produce: Checkable, aside: Aside) -> Any:
    async with aside.places:
        await _check_all(produce.unchecked, aside)
        return produce.append_checked()


async def _check_all(unchecked: Sequence[Unchecked], aside: Aside) -> None:
    repacked_bytes = 0
    for one in unchecked:
        await check_gradually(one.check, aside)
        log = one.partition.log
        if one.check.problem is not None or repacked_bytes >= REPACKED_BYTES_MAX:
            continue
        if log.is_recompressed(one.check.header):
            await aside.run(partial(log.recompress_checked, one.check))
            repacked_bytes += int(one.check.header.size_bytes)


async def check_gradually(check: GradualCheck, aside: Aside) -> None:
    while not check.check_sum():
        await _others_turn()
    while True:
        if check.inflates and check.problem is None:
            await aside.run(check.inflate_some)
        else:
            await _others_turn()
        if check.walk_some():
            return


async def _others_turn() -> None:
    await asyncio.sleep(0)
