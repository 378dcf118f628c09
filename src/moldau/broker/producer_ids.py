"""Producer ids out of blocks that the controller hands out: unique for ever, over crashes too, and one trip to the
metadata log per thousand ids (KIP-730)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from moldau.core.metadata.commands import AllocateProducerIds, ProducerIdBlock
from moldau.model.errors import Refused
from moldau.model.failures import StoreFailed


class ProducerIds:
    def __init__(self, submit: Callable[[AllocateProducerIds], Awaitable[object]], node_id: int, epoch: int) -> None:
        self._submit = submit
        self._command = AllocateProducerIds(node_id, epoch)
        self._next = 0
        self._end = 0
        self._one_at_a_time = asyncio.Lock()

    async def next_producer_id(self) -> int:
        """Raises `StoreFailed` when no block can be had; the caller answers COORDINATOR_NOT_AVAILABLE."""
        if self._next >= self._end:
            async with self._one_at_a_time:
                if self._next >= self._end:
                    await self._take_block()
        self._next += 1
        return self._next - 1

    async def _take_block(self) -> None:
        block = await self._submit(self._command)
        if isinstance(block, Refused):
            raise StoreFailed(f"no producer ids: {block.code.name} {block.detail}")
        assert isinstance(block, ProducerIdBlock)
        self._next, self._end = block.first, block.first + block.size
