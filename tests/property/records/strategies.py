"""Records, batches and damage, for the property tests of this room."""

from __future__ import annotations

from hypothesis import strategies as st

from moldau.records.builder import BatchBuilder
from moldau.records.reader import Record

payloads = st.one_of(st.none(), st.binary(max_size=40), st.integers(60, 300).map(lambda size: b"p" * size))
header_lists = st.lists(st.tuples(st.text(max_size=8), st.one_of(st.none(), st.binary(max_size=12))), max_size=3)
codecs = st.integers(0, 4)
timestamps = st.one_of(st.just(-1), st.integers(0, 2**45), st.integers(0, 2**61))


@st.composite
def record_lists(draw: st.DrawFn, min_size: int = 1) -> list[Record]:
    """Records at offsets 0, 1, 2, ..."""
    rows = draw(st.lists(st.tuples(timestamps, payloads, payloads, header_lists), min_size=min_size, max_size=12))
    return [Record(offset, *row) for offset, row in enumerate(rows)]


@st.composite
def client_batches(draw: st.DrawFn) -> bytes:
    """A batch as a producer sends it."""
    idempotent = draw(st.booleans())
    builder = BatchBuilder(
        codec=draw(codecs),
        producer_id=draw(st.integers(0, 2**63 - 1)) if idempotent else -1,
        producer_epoch=draw(st.integers(0, 2**15 - 1)) if idempotent else -1,
        base_sequence=draw(st.integers(0, 2**31 - 1)) if idempotent else -1,
        transactional=idempotent and draw(st.booleans()),
    )
    for record in draw(record_lists()):
        builder.append(record.key, record.value, record.headers, record.timestamp)
    return builder.build()


@st.composite
def damages(draw: st.DrawFn, data: bytes) -> bytes:
    """`data` with bytes changed, cut out, put in or cut off."""
    damaged = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        if not damaged:
            break
        place = draw(st.integers(0, len(damaged) - 1))
        kind = draw(st.sampled_from(["flip", "set", "cut", "insert", "end"]))
        if kind == "flip":
            damaged[place] ^= 1 << draw(st.integers(0, 7))
        elif kind == "set":
            damaged[place] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
        elif kind == "cut":
            del damaged[place : place + draw(st.integers(1, 5))]
        elif kind == "insert":
            damaged[place:place] = draw(st.binary(min_size=1, max_size=5))
        else:
            del damaged[place:]
    return bytes(damaged)
