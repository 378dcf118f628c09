"""Long answers a slice at a time, between which the loop serves others.

For APIs that answer each element of one array of the request by itself, in that order, in an array that ends the
response (`sliced` in `api_table.APIS`). The handler is called with a part of the array at a time and knows nothing of
it; what it answers is encoded, and the elements' bytes are joined. Each element is answered as of its own instant, as
if it had been asked for by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from moldau.model.checks import check
from moldau.server.context import RequestContext
from moldau.server.parking import Parked
from moldau.server.replies import Drop, Encoded, Failed
from moldau.wire.message import Message, field_names
from moldau.wire.primitives import Writer

ABOVE: Final = 32
"""Fewer elements are answered at once."""

SLICE_S: Final = 0.002
ELEMENTS_MAX: Final = 256
"""Of one slice, however quick they are."""

Handle = Callable[[Any, RequestContext], Any]
Encode = Callable[[Any, Writer, int], None]


async def answer(
    handle: Handle, encode: Encode, request: Message, field: str, context: RequestContext, *, flexible: bool
) -> Encoded | Drop | Failed:
    version = int(context.api_version)
    stopwatch: Callable[[], float] = getattr(context.services.clock, "stopwatch", _no_time)
    elements = getattr(request, field)
    pieces: list[bytes] = []
    position, size = 0, 1
    frame = _Frame(b"", flexible=flexible)
    while position < len(elements):
        begun = stopwatch()
        found = await _settled(handle(_part(request, field, elements[position : position + size]), context))
        if isinstance(found, Drop | Failed):
            return found
        if position == 0:
            frame = _Frame(_encoded(encode, type(found)(), version), flexible=flexible)
        pieces.append(frame.inside(_encoded(encode, found, version), len(elements[position : position + size])))
        position += size
        size = _next_size(size, stopwatch() - begun)
        await asyncio.sleep(0)
    return Encoded(frame.around(b"".join(pieces), len(elements)))


def _no_time() -> float:
    """In simulation nothing takes any."""
    return 0.0


def _next_size(size: int, took_s: float) -> int:
    if took_s > SLICE_S:
        return max(1, size // 2)
    return min(ELEMENTS_MAX, size * 2) if took_s < SLICE_S / 2 else size


def _part(request: Message, field: str, elements: list[Any]) -> Message:
    fields = {name: getattr(request, name) for name in field_names(request)}
    return type(request)(**{**fields, field: elements})


def _encoded(encode: Encode, response: Any, version: int) -> bytes:
    writer = Writer()
    encode(response, writer, version)
    return b"".join(writer.take())


async def _settled(result: Any) -> Any:
    """What a handler answers in the end, however it does."""
    if isinstance(result, Coroutine):
        result = await result
    if not isinstance(result, Parked):
        return result
    if result.done:
        return result.early
    later: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    result.deliver = later.set_result
    try:
        return await later
    finally:
        result.abandon()


class _Frame:
    """What stands around the elements of a response: its fields before them, their number, and the tags behind."""

    def __init__(self, empty: bytes, *, flexible: bool) -> None:
        self.flexible = flexible
        self.tail = b"\0" if flexible else b""
        nothing = self._length(0) + self.tail
        check(not empty or empty.endswith(nothing), "the array does not end the response", empty)
        self.head = empty[: len(empty) - len(nothing)]

    def inside(self, body: bytes, count: int) -> bytes:
        """The elements' bytes."""
        return body[len(self.head) + len(self._length(count)) : len(body) - len(self.tail)]

    def around(self, elements: bytes, count: int) -> bytes:
        return self.head + self._length(count) + elements + self.tail

    def _length(self, count: int) -> bytes:
        writer = Writer()
        if self.flexible:
            writer.compact_array_length(count)
        else:
            writer.array_length(count)
        return writer.take_bytes()
