"""What a broker checks of a batch before it appends it: every record, structurally and against the topic. Compiled.

Refusals are values. Structure first: lengths, offset deltas 0, 1, 2, ..., the count, nothing left over. Then, per
record: a key where the topic is compacted, and a timestamp within the topic's bounds.

Hot: an uncompressed batch is walked where it lies. Indexing is fast on `bytes` only, so a big writable view is walked
through 64 KiB copies (which stay in cache) instead of one large copy.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from moldau.model.errors import ErrorCode
from moldau.model.failures import CorruptBatch, InflatedTooFar, UnsupportedCodec
from moldau.model.limits import DECOMPRESSED_BYTES_MAX
from moldau.records.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME_MASK,
    NO_TIMESTAMP,
    BatchHeader,
    stamp_log_append_time,
    stamp_max_timestamp,
)
from moldau.records.compression import decompress
from moldau.records.large_record import HEAD_BYTES_MAX, LargeRecord
from moldau.records.reader import TIMESTAMP_LIMIT
from moldau.records.varint import read_varint, read_varlong

WINDOW_BYTES: Final = 64 << 10
RECORD_ERRORS_MAX: Final = 10_000
"""Record errors named in one answer; the batch is refused as a whole anyway."""

_FOREVER: Final = 2**63 - 1
_RECORD_BYTES_MIN: Final = 7
_CORRUPT_MESSAGE: Final = int(ErrorCode.CORRUPT_MESSAGE)
_INVALID_RECORD: Final = int(ErrorCode.INVALID_RECORD)
_INVALID_TIMESTAMP: Final = int(ErrorCode.INVALID_TIMESTAMP)
_UNSUPPORTED_COMPRESSION: Final = int(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


class ValidationRules:
    """What the topic asks of its records. One per log, made again when its settings change."""

    def __init__(
        self,
        compact: bool,
        log_append_time: bool,
        timestamp_before_max_ms: i64,
        timestamp_after_max_ms: i64,
        decompressed_bytes_max: i64 = DECOMPRESSED_BYTES_MAX,
    ) -> None:
        self.compact = compact
        self.log_append_time = log_append_time
        self.timestamp_before_max_ms: i64 = timestamp_before_max_ms
        self.timestamp_after_max_ms: i64 = timestamp_after_max_ms
        self.decompressed_bytes_max: i64 = decompressed_bytes_max


class ValidationProblem:
    """Why a batch is refused. `record_errors` are (index in the batch, what is wrong), for Produce v8 and later."""

    def __init__(self, error: i64, detail: str, record_errors: list[tuple[int, str]] | None = None) -> None:
        self.error: i64 = error
        self.detail = detail
        self.record_errors = record_errors

    def __repr__(self) -> str:
        return f"ValidationProblem({ErrorCode(self.error).name}, {self.detail!r}, {self.record_errors!r})"


TAKES_LONG: Final = ValidationProblem(_INVALID_RECORD, "")
"""Not a verdict: see `validate_batch`."""


def validate_batch(
    records: bytes | memoryview,
    header: BatchHeader,
    rules: ValidationRules,
    now_ms: i64,
    origin_is_client: bool = True,
    inflated_bytes_max: i64 = _FOREVER,
) -> ValidationProblem | None:
    """Check one whole batch whose checksum is known to be right.

    Sets `header.observed_max_timestamp`; `settle_timestamps` brings the bytes in line with it. `TAKES_LONG` says that
    it inflates to more than `inflated_bytes_max`: no verdict yet, use a `GradualCheck`.
    """
    if i64(len(records)) != header.size_bytes:
        return ValidationProblem(_INVALID_RECORD, f"one batch of {header.size_bytes} bytes in {len(records)}")
    problem = header_problem(header, origin_is_client)
    if problem is not None:
        return problem
    walk = RecordCheck(header, rules, now_ms)
    try:
        if header.codec != 0:
            bytes_max: i64 = min(rules.decompressed_bytes_max, inflated_bytes_max)
            body = decompress(header.codec, records[HEADER_BYTES : header.size_bytes], bytes_max=bytes_max)
            walk.check_count(i64(len(body)))
            walk.finish(body, walk.run(body, 0, True))
        elif isinstance(records, bytes):
            walk.check_count(header.size_bytes - HEADER_BYTES)
            walk.finish(records, walk.run(records, HEADER_BYTES, True))
        else:
            walk.check_count(header.size_bytes - HEADER_BYTES)
            _walk_windows(walk, records, header.size_bytes)
    except (CorruptBatch, UnsupportedCodec, IndexError) as broken:
        if isinstance(broken, InflatedTooFar) and inflated_bytes_max < rules.decompressed_bytes_max:
            return TAKES_LONG
        return problem_of(broken, walk)
    header.observed_max_timestamp = walk.max_timestamp
    if walk.errors is not None:
        return walk.refusal()
    return None


def problem_of(broken: Exception, walk: RecordCheck) -> ValidationProblem:
    """What an exception of the walk says about the batch."""
    if isinstance(broken, UnsupportedCodec):
        return ValidationProblem(_UNSUPPORTED_COMPRESSION, str(broken))
    if isinstance(broken, IndexError):
        return ValidationProblem(_INVALID_RECORD, f"record {walk.index} runs beyond its own length")
    return ValidationProblem(_INVALID_RECORD, str(broken))


def settle_timestamps(
    records: bytes | memoryview, header: BatchHeader, rules: ValidationRules, now_ms: i64
) -> bytes | memoryview:
    """After validation: stamp LogAppendTime, or correct a max timestamp that the producer stated wrongly.

    Answers the same object when nothing changed or it was patched in place.
    """
    if rules.log_append_time:
        return stamp_log_append_time(records, header, now_ms)
    if header.observed_max_timestamp != header.max_timestamp:
        return stamp_max_timestamp(records, header, header.observed_max_timestamp)
    return records


def header_problem(header: BatchHeader, origin_is_client: bool) -> ValidationProblem | None:
    if header.base_timestamp >= TIMESTAMP_LIMIT or header.base_timestamp <= -TIMESTAMP_LIMIT:
        return ValidationProblem(_INVALID_TIMESTAMP, f"base timestamp {header.base_timestamp} is beyond every clock")
    if not origin_is_client:
        return None
    if header.record_count <= 0:
        return ValidationProblem(_INVALID_RECORD, f"batch announces {header.record_count} records")
    if header.last_offset_delta + 1 != header.record_count:
        return ValidationProblem(
            _INVALID_RECORD,
            f"batch announces {header.record_count} records over {header.last_offset_delta + 1} offsets",
        )
    if header.is_control:
        return ValidationProblem(_INVALID_RECORD, "clients are not allowed to write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        return ValidationProblem(
            _INVALID_RECORD, f"sequence number {header.base_sequence} with producer id {header.producer_id}"
        )
    if header.attributes & LOG_APPEND_TIME_MASK != 0:
        return ValidationProblem(_INVALID_TIMESTAMP, "producers must not set the timestamp type to LogAppendTime")
    return None


def _walk_windows(walk: RecordCheck, records: memoryview, size_bytes: i64) -> None:
    """Walk a view through bounded copies, which step over what lies inside large keys and values."""
    windows = Windows(walk)
    position: i64 = HEADER_BYTES
    while not windows.done:
        end: i64 = min(position + WINDOW_BYTES, size_bytes)
        position += windows.walk(bytes(records[position:end]), end == size_bytes)
        position += windows.take_skip(size_bytes - position)


class Windows:
    """A walk over windows that follow each other, each beginning where the one before was left."""

    def __init__(self, walk: RecordCheck) -> None:
        self.check = walk
        self.large: LargeRecord | None = None
        self.done = False

    def take_skip(self, there: i64) -> i64:
        """How much behind the last window nobody has to see, of `there` bytes that follow."""
        large = self.large
        if large is None or large.skip == 0:
            return 0
        skipped = min(large.skip, there)
        large.skip -= skipped
        return skipped

    def walk(self, window: bytes, final: bool) -> i64:
        """Check what lies in `window`, answer how much of it is done with. `final`: nothing follows it."""
        check = self.check
        position: i64 = 0
        while True:
            large = self.large
            if large is not None:
                position = large.feed(window, position, final)
                if not large.done:
                    if final:
                        raise CorruptBatch(f"record {check.index} runs beyond the end of its batch")
                    return position
                check.take(large)
                self.large = None
            before: i64 = position
            position = check.run(window, position, final)
            if final:
                check.finish(window, position)
                self.done = True
                return position
            if check.index == check.count and position < i64(len(window)):
                raise CorruptBatch(f"{i64(len(window)) - position} bytes or more follow the last record")
            if position > before or i64(len(window)) - position < HEAD_BYTES_MAX:
                return position
            self.large = LargeRecord(check.index, check.base_timestamp)


class RecordCheck:
    """Where the walk through one batch stands."""

    def __init__(self, header: BatchHeader, rules: ValidationRules, now_ms: i64) -> None:
        self.count: i64 = header.record_count
        self.index: i64 = 0
        self.base_timestamp: i64 = header.base_timestamp
        self.max_timestamp: i64 = NO_TIMESTAMP
        self.keys_required: bool = rules.compact
        self.oldest: i64 = -_FOREVER
        self.newest: i64 = _FOREVER
        if not rules.log_append_time:
            self.oldest = now_ms - rules.timestamp_before_max_ms
            if rules.timestamp_after_max_ms < _FOREVER - now_ms:
                self.newest = now_ms + rules.timestamp_after_max_ms
        self.errors: list[tuple[int, str]] | None = None
        self.timestamp_errors = False

    def check_count(self, body_bytes: i64) -> None:
        if self.count * _RECORD_BYTES_MIN > body_bytes:
            raise CorruptBatch(f"{self.count} records cannot fit in {body_bytes} bytes")

    def run(self, window: bytes, position: i64, final: bool) -> i64:
        """Check the records that lie whole in `window` from `position` on; answer where the next one starts.

        Every byte read lies inside a record that lies inside the window, or the record is broken: then either a check
        fails or the index error of a read past the end says so.
        """
        size: i64 = i64(len(window))
        count: i64 = self.count
        index: i64 = self.index
        base_timestamp: i64 = self.base_timestamp
        oldest: i64 = self.oldest
        newest: i64 = self.newest
        keys_required: bool = self.keys_required
        max_timestamp: i64 = self.max_timestamp
        while index < count:
            start: i64 = position
            if size - position < 5 and not final:
                break
            length: i64 = i64(window[position])
            if length < 128:
                length = (length >> 1) ^ -(length & 1)
                position += 1
            else:
                length, position = read_varint(window, position)
            end: i64 = position + length
            if length < 0 or end > size:
                if length < 0 or final:
                    raise CorruptBatch(f"record {index} announces {length} bytes where {size - position} are left")
                position = start
                break
            position += 1
            timestamp: i64 = i64(window[position])
            if timestamp < 128:
                timestamp = (timestamp >> 1) ^ -(timestamp & 1)
                position += 1
            else:
                timestamp, position = read_varlong(window, position)
            timestamp += base_timestamp
            delta: i64 = i64(window[position])
            if delta < 128:
                delta = (delta >> 1) ^ -(delta & 1)
                position += 1
            else:
                delta, position = read_varint(window, position)
            if delta != index:
                raise CorruptBatch(f"record {index} has offset delta {delta}")
            key_size: i64 = i64(window[position])
            if key_size < 128:
                key_size = (key_size >> 1) ^ -(key_size & 1)
                position += 1
            else:
                key_size, position = read_varint(window, position)
            if key_size > 0:
                position += key_size
            if key_size < -1 or position >= end:
                raise CorruptBatch(f"record {index} has a key of {key_size} bytes in {length}")
            value_size: i64 = i64(window[position])
            if value_size < 128:
                value_size = (value_size >> 1) ^ -(value_size & 1)
                position += 1
            else:
                value_size, position = read_varint(window, position)
            if value_size > 0:
                position += value_size
            if value_size < -1 or position >= end:
                raise CorruptBatch(f"record {index} has a value of {value_size} bytes in {length}")
            if window[position] == 0:
                position += 1
            else:
                position = check_headers(window, position, end, index)
            if position != end:
                raise CorruptBatch(f"record {index} is not as long as it announces")
            if timestamp > max_timestamp:
                max_timestamp = timestamp
            if (keys_required and key_size < 0) or timestamp < oldest or timestamp > newest:
                self.index = index
                self.judge(key_size, timestamp)
            index += 1
        self.index = index
        self.max_timestamp = max_timestamp
        return position

    def finish(self, window: bytes, position: i64) -> None:
        """After the last window: all of it must have been records."""
        if position != i64(len(window)):
            raise CorruptBatch(f"{i64(len(window)) - position} bytes follow the last record")

    def take(self, record: LargeRecord) -> None:
        """Count a record that was checked by itself."""
        self.max_timestamp = max(self.max_timestamp, record.timestamp)
        if (
            (self.keys_required and record.key_size < 0)
            or record.timestamp < self.oldest
            or record.timestamp > self.newest
        ):
            self.judge(record.key_size, record.timestamp)
        self.index += 1

    def judge(self, key_size: i64, timestamp: i64) -> None:
        """A record that may break a rule: note which. Called rarely."""
        message = ""
        if self.keys_required and key_size < 0:
            message = "Compacted topic cannot accept message without key"
        elif timestamp != NO_TIMESTAMP:
            message = f"Timestamp {timestamp} is out of range [{self.oldest}, {self.newest}]"
            self.timestamp_errors = True
        if not message:
            return
        if self.errors is None:
            self.errors = []
        if len(self.errors) < RECORD_ERRORS_MAX:
            self.errors.append((self.index, message))

    def refusal(self) -> ValidationProblem:
        if self.timestamp_errors:
            return ValidationProblem(
                _INVALID_TIMESTAMP, "One or more records have been rejected due to invalid timestamp", self.errors
            )
        return ValidationProblem(
            _INVALID_RECORD, "One or more records have been rejected: a compacted topic needs keys", self.errors
        )


def check_headers(data: bytes, position: i64, end: i64, index: i64) -> i64:
    """Step over a record's header count and headers; answer where they end."""
    count, position = read_varint(data, position)
    if count < 0 or count * 2 > end - position:
        raise CorruptBatch(f"record {index} announces {count} headers")
    while count > 0:
        key_size, position = read_varint(data, position)
        if key_size < 0 or key_size >= end - position:
            raise CorruptBatch(f"record {index} has a header key of {key_size} bytes")
        position += key_size
        value_size, position = read_varint(data, position)
        if value_size < -1 or value_size > end - position:
            raise CorruptBatch(f"record {index} has a header value of {value_size} bytes")
        if value_size > 0:
            position += value_size
        count -= 1
    return position
