"""A stateful step: who looked into the cart and then neither bought nor came back to it within half an hour?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

HALF_AN_HOUR_MS = 30 * 60_000


class AbandonedCarts(StatefulProcessor):
    """Remembers a user's clicks on the cart and the checkout, and looks at each cart again after half an hour.

    Clicks come in any order. A timer fires when the watermark has passed it, so by then every click before it is here.
    """

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._clicks = handle.getMapState("clicks", "at_ms BIGINT", "page STRING")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            self._clicks.updateValue((row["at_ms"],), (row["page"],))
            self._handle.registerTimer(row["at_ms"] + HALF_AN_HOUR_MS)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        at_ms = expiredTimerInfo.getExpiryTimeInMs() - HALF_AN_HOUR_MS
        clicks = {click[0]: page[0] for click, page in self._clicks.iterator()}
        came_back = any(at_ms < other_ms <= at_ms + HALF_AN_HOUR_MS for other_ms in clicks)
        # Timers fire in order, so no cart that is still waiting needs this click.
        self._clicks.removeKey((at_ms,))
        if clicks[at_ms] == "/cart" and not came_back:
            yield Row(user=key[0], left_ms=at_ms)

    def close(self) -> None:
        pass
