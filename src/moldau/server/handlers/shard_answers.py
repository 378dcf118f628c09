"""Answers that come from coordinator shards: one, or several gathered into one response.

A shard answers at once or from a later tick; either way the response keeps its place in the connection's order. How
long it may wait is the shard's business (`broker/shards/runtime.py`), so these answers have no deadline of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from moldau.broker.shards.runtime import Producer
from moldau.model.errors import Refused
from moldau.server.parking import Parked
from moldau.server.replies import Failed


class _ShardAnswer(Parked):
    def __init__(self, expected: int, respond: Callable[[list[Any]], Any]) -> None:
        super().__init__(0)
        self.replies: list[Any] = [None] * expected
        self.missing = expected
        self.respond = respond

    def take(self, place: int, reply: Any) -> None:
        self.replies[place] = reply
        self.missing -= 1
        if self.missing == 0:
            self.finish()

    def finish(self) -> None:
        try:
            response = self.respond(self.replies)
        except Exception as error:
            # A bug in one handler is that request's, not the shard's, whose tick this may be.
            response = Failed(error)
        self.complete(response)

    def wake(self) -> None:
        """Woken by replies only."""

    def on_deadline(self) -> None:
        """There is none."""


def ask_shard(shard: Any, command: Any, respond: Callable[[Any], Any], *, producer: Producer | None = None) -> Parked:
    """Send a command to a shard, or to the `Refused` that stands in its place; `respond` makes the response of the
    reply."""
    answer = _ShardAnswer(1, lambda replies: respond(replies[0]))
    if isinstance(shard, Refused):
        answer.take(0, shard)
    else:
        shard.submit_to(command, partial(answer.take, 0), producer=producer)
    return answer


def ask_later(ask: Callable[[Callable[[Any], None]], None], respond: Callable[[Any], Any]) -> Parked:
    """`ask` is given where to deliver the one reply, at once or later."""
    answer = _ShardAnswer(1, lambda replies: respond(replies[0]))
    ask(partial(answer.take, 0))
    return answer


def ask_shards(questions: Sequence[tuple[Any, Any]], respond: Callable[[list[Any]], Any]) -> Parked:
    """Send (shard or `Refused`, command) each; `respond` is given all replies, in that order."""
    answer = _ShardAnswer(len(questions), respond)
    if not questions:
        answer.finish()
    for place, (shard, command) in enumerate(questions):
        if isinstance(shard, Refused):
            answer.take(place, shard)
        else:
            shard.submit_to(command, partial(answer.take, place))
    return answer
