"""What became of an append. Compiled."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i16, i64


class AppendOutcome:
    """Appended (`error` 0), recognised as a duplicate (`error` 0, `duplicate`), or refused."""

    def __init__(
        self,
        error: i64,
        base_offset: i64,
        last_offset: i64,
        log_append_time_ms: i64,
        start_offset: i64,
        duplicate: bool,
        detail: str,
        record_errors: list[tuple[int, str]] | None,
    ) -> None:
        self.error: i16 = i16(error)
        self.base_offset: i64 = base_offset
        self.last_offset: i64 = last_offset
        self.log_append_time_ms: i64 = log_append_time_ms
        """-1 unless the topic uses LogAppendTime."""
        self.start_offset: i64 = start_offset
        self.duplicate = duplicate
        self.detail = detail
        self.record_errors = record_errors
        """(index of the record in its batch, what is wrong with it), for Produce v8 and later."""


def refused(
    error: i64, detail: str, start_offset: i64 = -1, record_errors: list[tuple[int, str]] | None = None
) -> AppendOutcome:
    return AppendOutcome(error, -1, -1, -1, start_offset, False, detail, record_errors)


LATER: Final = refused(-1, "")
"""Not an outcome: the batch takes long to check (`PartitionLog.begin_check`)."""
