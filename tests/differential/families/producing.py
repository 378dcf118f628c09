"""Produce: batches that are right, nearly right and wrong, by plain, idempotent and transactional producers."""

from __future__ import annotations

import struct
from typing import Any

from moldau.wire.apis import ApiKey
from moldau.wire.primitives import NIL_UUID
from tests.differential.families import common
from tests.differential.families.common import produce_request
from tests.differential.families.reading import PARTITIONS, TOPICS
from tests.differential.family import Family
from tests.differential.mutations import STRANGE_ID
from tests.differential.steps import LONG_AGO_MS, Batch, Ref

TWO = ((b"k", b"v"), (b"k2", None))
GZIP, SNAPPY, LZ4, ZSTD, UNKNOWN_CODEC = 1, 2, 3, 4, 5
CRC_AT, ATTRIBUTES_AT, LAST_DELTA_AT, COUNT_AT, MAGIC_AT, LENGTH_AT = 17, 21, 23, 57, 16, 8


def _flipped(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


def _patched(position: int, form: str, value: int) -> Any:
    """A batch that lies about itself, with a checksum that agrees."""

    def change(batch: bytes) -> bytes:
        from moldau.records.checksum import crc32c

        data = bytearray(batch)
        struct.pack_into(form, data, position, value)
        struct.pack_into(">I", data, CRC_AT, crc32c(bytes(data[ATTRIBUTES_AT:])))
        return bytes(data)

    return change


BATCHES = {
    "two records": Batch(TWO),
    "gzip": Batch(TWO, codec=GZIP),
    "snappy": Batch(TWO, codec=SNAPPY),
    "lz4": Batch(TWO, codec=LZ4),
    "zstd": Batch(TWO, codec=ZSTD),
    "flipped bit": Batch(TWO, change=_flipped),
    "last byte missing": Batch(TWO, change=lambda batch: batch[:-1]),
    "two batches": Batch(TWO, change=lambda batch: batch + batch),
    "nothing": Batch(TWO, change=lambda batch: b""),
    "a few bytes": Batch(TWO, change=lambda batch: batch[:11]),
    "magic 1": Batch(TWO, change=_patched(MAGIC_AT, ">b", 1)),
    "magic 3": Batch(TWO, change=_patched(MAGIC_AT, ">b", 3)),
    "length too small": Batch(TWO, change=_patched(LENGTH_AT, ">i", 10)),
    "length too large": Batch(TWO, change=_patched(LENGTH_AT, ">i", 10_000)),
    "count one too many": Batch(TWO, change=_patched(COUNT_AT, ">i", 3)),
    "count one too few": Batch(TWO, change=_patched(COUNT_AT, ">i", 1)),
    "count negative": Batch(TWO, change=_patched(COUNT_AT, ">i", -1)),
    "last delta too large": Batch(TWO, change=_patched(LAST_DELTA_AT, ">i", 9)),
    "last delta too small": Batch(TWO, change=_patched(LAST_DELTA_AT, ">i", 0)),
    "unknown codec": Batch(TWO, change=_patched(ATTRIBUTES_AT, ">h", UNKNOWN_CODEC)),
    "says gzip, is not": Batch(TWO, change=_patched(ATTRIBUTES_AT, ">h", GZIP)),
    "control": Batch(((b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00"),), control=True),
    "transactional, no id": Batch(TWO, transactional=True),
    "no timestamps": Batch(((b"k", b"v", -1),)),
    "negative timestamp": Batch(((b"k", b"v", -7),)),
    "from the future": Batch(((b"k", b"v", 9_000_000_000_000),)),
    "no key": Batch(((None, b"v"),)),
    "no value": Batch(((b"k", None),)),
    "headers": Batch(((b"k", b"v", LONG_AGO_MS, [("a", b"1"), ("a", None), ("", b"")]),)),
    "too large": Batch(((b"k", b"x" * 1_100_000),)),
    "large, compressed": Batch(((b"k", b"x" * 1_100_000),), codec=GZIP),
    "unknown producer": Batch(TWO, producer_id=123_456_789, producer_epoch=0, base_sequence=0),
    "unknown producer, later": Batch(TWO, producer_id=123_456_790, producer_epoch=0, base_sequence=7),
    "negative epoch": Batch(TWO, producer_id=123_456_791, producer_epoch=-1, base_sequence=0),
    "no sequence": Batch(TWO, producer_id=123_456_792, producer_epoch=0, base_sequence=-1),
}


NOT_ENCODED_AGAIN = ("negative timestamp", "negative epoch")
"""Kafka appends them as they are, but fails where it would have to write them in another codec."""

ACCEPTED_BY_KAFKA = {
    "byte too many": Batch(TWO, change=lambda batch: batch + b"\x00"),
    "log append time": Batch(TWO, change=_patched(ATTRIBUTES_AT, ">h", 8)),
}
"""Apart from the others, because what Kafka stores of them moves the offsets of what follows."""


def _own(sequence: int, *, plus: int = 0, transactional: bool = False) -> Batch:
    return Batch(
        TWO,
        producer_id=Ref("producer"),
        producer_epoch=Ref("epoch", plus),
        base_sequence=sequence,
        transactional=transactional,
    )


def _twice(request: dict[str, Any]) -> dict[str, Any]:
    (topic,) = request["topic_data"]
    return {**request, "topic_data": [{**topic, "partition_data": topic["partition_data"] * 2}]}


SEQUENCES = (_own(0), _own(0), _own(2), _own(2), _own(0), _own(9), _own(4), _own(1), _own(5), _own(6, plus=1))

FAMILIES = (
    Family(
        ApiKey.PRODUCE,
        produce_request("sent-~", 0, Batch(TWO)),
        setup=common.topic("sent-~", 2),
        pools={
            "transactional_id": ("", "nobody"),
            "acks": (-2, 1, 2, 32767),
            "timeout_ms": (-1, 0, 1),
            "name": TOPICS[:5],
            "topic_id": (NIL_UUID, STRANGE_ID),
            "index": PARTITIONS,
        },
        more={label: produce_request("sent-~", 0, batch) for label, batch in BATCHES.items()},
        skip=(
            "topic_data[0].partition_data[0].records=null",
            *("topic_data=twice", "topic_data[0].partition_data=twice"),  # below, among the odd ones
        ),
        cases_older=8,
    ),
    *(
        Family(
            ApiKey.PRODUCE,
            produce_request("own-~", 0, Batch(TWO)),
            setup=common.topic("own-~", **configs),
            more={
                label: produce_request("own-~", 0, batch)
                for label, batch in BATCHES.items()
                if "compression_type" not in configs or label not in NOT_ENCODED_AGAIN
            },
            tag=tag,
            cases_latest=0,
            cases_older=0,
            wrong_frames=False,
            versions=(7, 13),
        )
        for tag, configs in (
            ("compacted", {"cleanup_policy": "compact"}),
            ("stamped", {"message_timestamp_type": "LogAppendTime"}),
            ("zstd topic", {"compression_type": "zstd"}),
            ("gzip topic", {"compression_type": "gzip"}),
            ("recent", {"message_timestamp_before_max_ms": "60000", "message_timestamp_after_max_ms": "60000"}),
        )
    ),
    Family(
        ApiKey.PRODUCE,
        produce_request("odd-~", 0, Batch(TWO)),
        setup=common.topic("odd-~"),
        more={
            "partition twice": _twice(produce_request("odd-~", 0, Batch(TWO))),
            **{label: produce_request("odd-~", 0, batch) for label, batch in ACCEPTED_BY_KAFKA.items()},
        },
        tag="odd",
        each=True,
        cases_latest=0,
        cases_older=0,
        wrong_frames=False,
        versions=(3, 13),
    ),
    Family(
        ApiKey.PRODUCE,
        produce_request("idem-~", 0, _own(0)),
        setup=(*common.topic("idem-~"), *common.producer(None)),
        more=[produce_request("idem-~", 0, batch) for batch in SEQUENCES],
        tag="idempotent",
        cases_latest=0,
        cases_older=0,
        wrong_frames=False,
    ),
    Family(
        ApiKey.PRODUCE,
        produce_request("txn-~", 0, _own(0, transactional=True), "sender-~"),
        setup=(
            *common.topic("txn-~", 2),
            *common.producer("sender-~"),
            common.add_partitions("sender-~", "txn-~", 0),
        ),
        more=(
            produce_request("txn-~", 1, _own(0, transactional=True), "sender-~"),
            produce_request("txn-~", 0, _own(2, transactional=False), "sender-~"),
            produce_request("txn-~", 0, _own(2, transactional=True), None),
            produce_request("txn-~", 0, _own(2, transactional=True), "nobody-~"),
            produce_request("txn-~", 0, _own(2, plus=1, transactional=True), "sender-~"),
            produce_request("txn-~", 0, _own(2, plus=-1, transactional=True), "sender-~"),
            produce_request("txn-~", 0, _own(2, transactional=True), "sender-~"),
            produce_request("txn-~", 0, _own(2, transactional=True), "sender-~"),
        ),
        after=(),
        tag="transactional",
        cases_latest=0,
        cases_older=0,
        wrong_frames=False,
    ),
)
