"""From a decision's records to record batches: one, unless they are too large for the topic.

A decision is atomic as long as it fits into one batch, which all but sweeping ones (the expiry of thousands of offsets)
do. Those are split, as in Kafka, because each of their records stands for itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from moldau.records.batch import HEADER_BYTES, NO_PRODUCER_ID
from moldau.records.builder import BatchBuilder

KeyValue = tuple[bytes, bytes | None]

_RECORD_OVERHEAD_BYTES: Final = 32
"""At most: length, attributes, deltas, sizes and header count of one record."""


class RecordTooLarge(Exception):
    """One record alone is larger than a batch of its topic may be. Nothing was appended."""


def build_batches(
    pairs: Iterable[KeyValue],
    *,
    now_ms: int,
    batch_bytes_max: int,
    codec: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
) -> list[bytes]:
    """The batches that hold `pairs` in order; transactional ones when there is a producer id."""
    batches: list[bytes] = []
    builder = _new_builder(codec, producer_id, producer_epoch)
    size = HEADER_BYTES
    for key, value in pairs:
        adds = len(key) + (0 if value is None else len(value)) + _RECORD_OVERHEAD_BYTES
        if HEADER_BYTES + adds > batch_bytes_max:
            raise RecordTooLarge(f"a record of {adds} bytes does not fit into a batch of {batch_bytes_max}")
        if size + adds > batch_bytes_max:
            batches.append(builder.build())
            builder = _new_builder(codec, producer_id, producer_epoch)
            size = HEADER_BYTES
        builder.append(key, value, (), now_ms)
        size += adds
    batches.append(builder.build())
    return batches


def _new_builder(codec: int, producer_id: int, producer_epoch: int) -> BatchBuilder:
    return BatchBuilder(
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=producer_id != NO_PRODUCER_ID,
    )
