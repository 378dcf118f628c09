"""Until when a client goes on trying, and how long it pauses in between."""

from __future__ import annotations

import asyncio
from typing import Final

from moldau.client.failures import AnswerTimedOut, BrokerRefused, NoBrokerAnswers
from moldau.model.errors import RETRIABLE
from moldau.model.failures import PeerGone

FIRST_PAUSE_S: Final = 0.005
LONGEST_PAUSE_S: Final = 0.5

TRANSPORT_FAILURES: Final = (PeerGone, NoBrokerAnswers, AnswerTimedOut)
"""The request may or may not have been carried out."""


class Patience:
    """A deadline shared by the steps of one undertaking. Pauses double from one failure to the next."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends_at = asyncio.get_running_loop().time() + seconds

    @property
    def left_s(self) -> float:
        return self._ends_at - asyncio.get_running_loop().time()

    @property
    def is_over(self) -> bool:
        return self.left_s <= 0

    def pauses(self) -> Pauses:
        return Pauses(self)


class Pauses:
    """One step's failures: `after(failure)` waits before the next attempt, or raises the failure when it is final or
    the patience is over."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._pause_s = FIRST_PAUSE_S

    async def after(self, failure: Exception) -> None:
        if isinstance(failure, BrokerRefused) and failure.code not in RETRIABLE:
            raise failure
        if self._patience.is_over:
            raise failure
        await asyncio.sleep(min(self._pause_s, max(0.0, self._patience.left_s)))
        self._pause_s = min(LONGEST_PAUSE_S, self._pause_s * 2)
