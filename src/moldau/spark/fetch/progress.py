"""How far one offset range has been read, and what stands in its way."""

from __future__ import annotations

import time
from typing import Final

from moldau.model.ids import TopicPartition
from moldau.spark.types import OffsetRange

_WEIGHT_GUESS_BYTES: Final = 1024
_SLACK_BYTES: Final = 64 << 10
_SLACK: Final = 1.1
_PAUSES_S: Final = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.5)


class Progress:
    """Of one range. `position` is the first offset that was not received yet."""

    def __init__(self, wanted: OffsetRange) -> None:
        self.range = wanted
        self.partition = TopicPartition(wanted.topic, wanted.partition)
        self.position = wanted.start
        self.bytes_min = 0
        self.empty_answers = 0
        self.failed_at_s = 0.0
        self.retry_at_s = 0.0
        self.why = ""
        self._failing_since_s: float | None = None
        self._failures = 0

    @property
    def done(self) -> bool:
        return self.position >= self.range.end

    @property
    def waits(self) -> bool:
        """True when the broker should take its time: it had nothing to give a moment ago."""
        return self.empty_answers > 0

    def bytes_wanted(self, weight: float | None) -> int:
        """What the rest of the range should weigh when an offset weighs `weight`."""
        left = self.range.end - self.position
        return max(self.bytes_min, int(left * (weight or _WEIGHT_GUESS_BYTES) * _SLACK) + _SLACK_BYTES)

    def advance(self, position: int) -> None:
        self.position = position
        self.bytes_min = 0
        self.empty_answers = 0
        self.failed_at_s = self.retry_at_s = 0.0
        self.why = ""
        self._failing_since_s = None
        self._failures = 0

    def fail(self, why: str) -> None:
        """Something that may go away by itself: try again after a pause that grows."""
        now_s = time.monotonic()
        self.why = why
        self.failed_at_s = now_s
        self.retry_at_s = now_s + _PAUSES_S[min(self._failures, len(_PAUSES_S) - 1)]
        self._failures += 1
        if self._failing_since_s is None:
            self._failing_since_s = now_s

    def failing_for_s(self) -> float:
        return 0.0 if self._failing_since_s is None else time.monotonic() - self._failing_since_s
