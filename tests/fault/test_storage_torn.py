"""The tail of a log cut or scrambled at every byte of its last three batches: recovery always ends at a whole batch."""

from __future__ import annotations

import pytest

from moldau.records.batch import iterate_headers
from moldau.storage.partition_log import PartitionLog
from moldau_sim.disk import SimulatedDisk
from tests.unit.storage.support import append, batch, new_log, read_all, reopen, sequenced

BATCHES = 8


def written(codec: int) -> tuple[PartitionLog, bytes]:
    log = new_log(SimulatedDisk(), "/data", index_interval_bytes=100)
    for number in range(BATCHES):
        append(log, sequenced(number - 1, 2, codec=codec) if number % 2 else batch(3, codec=codec))
    log.flush_appends()
    return log, log.disk.read(log.active.path(".log"))


def put(log: PartitionLog, content: bytes) -> None:
    file = log.disk.open(log.active.path(".log"))
    file.truncate(0)
    file.append(content)
    file.close()


@pytest.mark.parametrize("codec", [0, 3])
def test_a_log_cut_at_any_byte_keeps_the_whole_batches_before(codec: int) -> None:
    log, content = written(codec)
    spans = [(position, position + int(header.size_bytes), header) for position, header in iterate_headers(content)]
    for cut in range(spans[-3][0], len(content) + 1):
        put(log, content[:cut])
        fresh, report = reopen(log)
        whole = [span for span in spans if span[1] <= cut]
        assert fresh.end_offset == whole[-1][2].next_offset
        assert b"".join(data for data, _ in read_all(fresh)) == content[: whole[-1][1]]
        assert bool(report.problem) == (cut != whole[-1][1])
        assert append(fresh, batch()) == whole[-1][2].next_offset
        fresh.flush_appends()
        _, again = reopen(fresh)
        assert not again.problem, "a cut log is whole"


@pytest.mark.parametrize("mask", [0x01, 0xFF])
def test_a_log_scrambled_at_any_byte_ends_at_a_whole_batch(mask: int) -> None:
    log, content = written(0)
    spans = [(position, position + int(header.size_bytes), header) for position, header in iterate_headers(content)]
    for position in range(spans[-3][0], len(content)):
        scrambled = bytearray(content)
        scrambled[position] ^= mask
        put(log, bytes(scrambled))
        fresh, _ = reopen(log)
        hit = next(span for span in spans if span[0] <= position < span[1])
        kept = b"".join(data for data, _ in read_all(fresh))
        ends = [span[1] for span in spans]
        assert len(kept) in ends
        assert kept == bytes(scrambled[: len(kept)])
        assert len(kept) >= hit[0], "nothing before the damage is lost"
        inside = position - hit[0]
        if inside >= 16:
            assert len(kept) == hit[0], "what the checksum covers is never served damaged"


def test_a_tail_of_zeros_or_noise_is_cut() -> None:
    log, content = written(0)
    for tail in (bytes(1), bytes(60), bytes(61), bytes(5000), b"\xff" * 5000, bytes(range(256)) * 8):
        put(log, content + tail)
        fresh, report = reopen(log)
        assert report.bytes_cut == len(tail)
        assert b"".join(data for data, _ in read_all(fresh)) == content
