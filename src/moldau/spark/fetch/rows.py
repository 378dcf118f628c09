"""Fetched batches into Arrow record batches with exactly the columns that are wanted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from moldau.model.failures import CorruptBatch, UnsupportedCodec
from moldau.records.column_walk import ColumnWalk
from moldau.records.columns import binary_column, fixed_column, header_column, repeated_column
from moldau.spark.formats.decode import Decoded, decoder_for
from moldau.spark.types import (
    DROPMALFORMED,
    FAILFAST,
    HEADERS,
    ONLYMALFORMED,
    BadRecord,
    Format,
    OffsetRange,
    ReadFailed,
    ReadSettings,
    arrow_schema,
)

ROWS_MAX: Final = 64 << 10
BYTES_MAX: Final = 8 << 20
SMALL_ROWS: Final = 8 << 10
SMALL_BYTES: Final = 1 << 20
"""Batches below both are put together: each costs Spark something of its own."""

REPEATED_MAX: Final = 64
"""Columns of a single value that are kept: a task may read thousands of partitions."""

TIMESTAMP_US_MAX: Final = (2**63 - 1) // 1000 * 1000
"""The year 294247: the last millisecond that Spark's timestamps hold. What is said to be later is shown as this."""

_ERROR: Final = "Error"
_RAW: Final = "Raw"

log = logging.getLogger(__name__)


class Rows:
    """Takes what was fetched and gives record batches of a sensible size."""

    def __init__(self, settings: ReadSettings) -> None:
        self._settings = settings
        self._names = settings.output_columns
        self._schema = arrow_schema(settings)
        self._decoders = {
            side: decoder_for(how, self._type_of(side))
            for side, how in (("key", settings.key), ("value", settings.value))
            if self._uses(side)
        }
        self._repeated: dict[int | str, Any] = {}
        self._told_of_times = False
        self._small: list[Any] = []
        self._small_rows = 0
        self._small_bytes = 0

    def add(self, part: OffsetRange, position: int, data: bytes, aborted: list[tuple[int, int]]) -> Iterator[Any]:
        """Record batches of the records in `data` that belong to `part` and lie at `position` or later."""
        settings = self._settings
        walk = ColumnWalk(
            start_offset=position,
            end_offset=part.end,
            with_headers=HEADERS in self._names,
            with_keys="key" in self._decoders,
            with_values="value" in self._decoders,
            aborted=aborted,
            rows_max=ROWS_MAX,
            bytes_max=BYTES_MAX,
            check_crcs=settings.client.get("check.crcs", "true").lower() == "true",
        )
        taken = 0
        while True:
            reached = self._feed(walk, data, taken, part)
            if walk.count:
                yield from self._put_together(walk.size_bytes, self._columns(walk, part))
                walk.forget_rows()
            if reached in (taken, len(data)):
                return
            taken = reached

    def rest(self) -> Iterator[Any]:
        """What was kept back to be put together with more."""
        if self._small:
            yield self._small[0] if len(self._small) == 1 else pa.concat_batches(self._small)
            self._small, self._small_rows, self._small_bytes = [], 0, 0

    # -- inside ------------------------------------------------------------------------------------------------

    def _uses(self, side: str) -> bool:
        return any(name in self._names for name in (side, side + _ERROR, side + _RAW))

    def _type_of(self, side: str) -> Any:
        """The Arrow type a side decodes into; it is not in the schema when only its errors are wanted."""
        if side in self._names:
            return self._schema.field(side).type
        whole = ReadSettings(bootstrap="", key=self._settings.key, value=self._settings.value, columns=(side,))
        return arrow_schema(whole).field(side).type

    @staticmethod
    def _feed(walk: ColumnWalk, data: bytes, taken: int, part: OffsetRange) -> int:
        try:
            return walk.feed(data, taken)
        except (CorruptBatch, UnsupportedCodec) as failure:
            raise ReadFailed(
                f"topic '{part.topic}' partition {part.partition}: the batch at or after offset {walk.next_offset} "
                f"cannot be read: {failure}"
            ) from failure

    def _put_together(self, size_bytes: int, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if batch.num_rows == 0:  # all of it was left out
                continue
            if batch.num_rows >= SMALL_ROWS or size_bytes >= SMALL_BYTES:
                yield from self.rest()  # keeps the order of offsets
                yield batch
                continue
            self._small.append(batch)
            self._small_rows += batch.num_rows
            self._small_bytes += size_bytes
            if self._small_rows >= SMALL_ROWS or self._small_bytes >= SMALL_BYTES:
                yield from self.rest()

    def _columns(self, walk: ColumnWalk, part: OffsetRange) -> Iterator[Any]:
        count = walk.count
        raw: dict[str, Any] = {}
        for side, walked in (("key", walk.keys), ("value", walk.values)):
            if walked is not None:
                raw[side] = binary_column(walked, walk.buffers, count)
        makers: dict[str, Callable[[], Any]] = {
            "topic": lambda: self._repeat(part.topic, count),
            "partition": lambda: self._repeat(part.partition, count),
            "timestamp": lambda: fixed_column(pa.timestamp("us", tz="UTC"), walk.timestamps.getvalue(), count),
            "timestampType": lambda: fixed_column(pa.int32(), walk.timestamp_types.getvalue(), count),
            HEADERS: lambda: header_column(walk.headers, count, self._schema.field(HEADERS).type),  # type: ignore[arg-type]
        }
        offsets = fixed_column(pa.int64(), walk.offsets.getvalue(), count)
        columns = {name: makers[name]() for name in self._names if name in makers}
        columns["offset"] = offsets
        if "timestamp" in columns and not self._told_of_times:
            self._tell_of_times(columns["timestamp"], offsets, part)
        for start in range(0, count, ROWS_MAX):
            piece = {name: column.slice(start, ROWS_MAX) for name, column in (columns | raw).items()}
            yield self._assemble(piece, part)

    def _tell_of_times(self, times: Any, offsets: Any, part: OffsetRange) -> None:
        """Once for each task: a producer that counts in another unit mostly does so in all of its records."""
        numbers = times.cast(pa.int64())
        if pc.max(numbers).as_py() != TIMESTAMP_US_MAX:
            return
        self._told_of_times = True
        where = offsets[pc.index(numbers, TIMESTAMP_US_MAX).as_py()].as_py()
        log.warning(
            "topic '%s' partition %d offset %d has a timestamp that Spark cannot hold; it and its like are shown as "
            "the year 294247. Kafka's timestamps are milliseconds: its producer may count in nanoseconds",
            part.topic,
            part.partition,
            where,
        )

    def _assemble(self, piece: dict[str, Any], part: OffsetRange) -> Any:
        """Decode key and value of a piece and treat what does not decode as its mode says."""
        dropped: set[int] = set()
        alone: set[int] | None = None
        reported: dict[str, tuple[Any, Decoded]] = {}
        for side, decoder in self._decoders.items():
            how: Format = getattr(self._settings, side)
            raw = piece[side]
            decoded: Decoded = decoder(raw)
            piece[side] = decoded.column
            if decoded.errors and how.mode == FAILFAST:
                index, reason = min(decoded.errors.items())
                raise BadRecord(part.topic, part.partition, piece["offset"][index].as_py(), side, reason)
            if how.mode == DROPMALFORMED:
                dropped.update(decoded.errors)
            elif how.reports_errors:
                reported[side] = (raw, decoded)
            if how.mode == ONLYMALFORMED:
                alone = (alone or set()).union(decoded.errors)
        bad = {row for _, decoded in reported.values() for row in decoded.errors}
        for side, (raw, decoded) in reported.items():
            piece[side + _ERROR], piece[side + _RAW] = _error_columns(raw, decoded, bad)
        batch = pa.RecordBatch.from_arrays([piece[name] for name in self._names], schema=self._schema)
        if alone is not None:
            return batch.take(pa.array(sorted(alone - dropped), pa.int64()))
        if dropped:
            batch = batch.filter(pa.array([row not in dropped for row in range(batch.num_rows)]))
        return batch

    def _repeat(self, value: int | str, count: int) -> Any:
        """A column of one value, cut from a longer one that is made once."""
        known = self._repeated.get(value)
        if known is None or len(known) < count:
            if len(self._repeated) >= REPEATED_MAX:
                self._repeated.clear()
            known = repeated_column(value, max(1024, 1 << count.bit_length()))
            self._repeated[value] = known
        return known.slice(0, count)


def _error_columns(raw: Any, decoded: Decoded, bad: set[int]) -> tuple[Any, Any]:
    """Why this side did not decode, and its bytes in every bad row: a record is set aside as a whole."""
    count = len(raw)
    if not bad:
        return pa.nulls(count, pa.string()), pa.nulls(count, pa.binary())
    reasons = [decoded.errors.get(row) for row in range(count)]
    kept = [raw[row].as_py() if row in bad else None for row in range(count)]
    return pa.array(reasons, pa.string()), pa.array(kept, pa.binary())
