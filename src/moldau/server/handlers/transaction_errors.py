"""What clients of older versions are told instead of codes they do not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moldau.model.errors import ErrorCode

ABORTABLE_SINCE_PRODUCE: Final = 11
CONCURRENT_SINCE_PRODUCE: Final = 12
ABORTABLE_SINCE_OFFSET_COMMIT: Final = 4

_NOT_VERIFIED_NOW: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""The coordinator could not say. A producer does not expect its codes from a partition, so it is told one that makes it
try again without looking for a new leader."""

_OFFSETS_NOT_APPENDED: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}


def fenced_for(code: ErrorCode, version: int, *, known_since: int) -> ErrorCode:
    """PRODUCER_FENCED came with KIP-588; before, a stale epoch was all there was."""
    if code is ErrorCode.PRODUCER_FENCED and version < known_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def of_partition(code: ErrorCode, version: int, *, abortable_since: int) -> ErrorCode:
    """A coordinator's verdict as a partition passes it on."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < abortable_since:
        return ErrorCode.INVALID_TXN_STATE
    return code


def of_produce(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and version >= CONCURRENT_SINCE_PRODUCE:
        return code
    if code in _NOT_VERIFIED_NOW:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return of_partition(code, version, abortable_since=ABORTABLE_SINCE_PRODUCE)


def of_offset_commit(code: ErrorCode, version: int) -> ErrorCode:
    code = of_partition(code, version, abortable_since=ABORTABLE_SINCE_OFFSET_COMMIT)
    code = _OFFSETS_NOT_APPENDED.get(code, code)
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < 2:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE  # such clients may crash on the other (KAFKA-7296)
    return code
