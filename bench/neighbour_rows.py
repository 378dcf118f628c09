"""Rows that measure one client beside another that gives the broker much to do: nobody may be held up by others."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import Final

from bench import topics
from bench.loadgen import requests
from bench.loadgen.paced import neighbour
from bench.loadgen.run import load
from bench.peers.base import Peer
from bench.peers.moldau import Moldau
from bench.rows import Row, report_sample
from bench.samples import Sample

LARGE_MESSAGE_BYTES: Final = 9_000_000
VALUE_BYTES: Final = 1000
LOOP_FIGURES: Final = "moldau.loop.json"


@dataclass
class TinyBesideLarge(Row):
    """One small produce at a time, while somebody sends compressed batches `per_second` times a second."""

    inflated_bytes: int = 1_000_000
    codec: str = "zstd"
    per_second: float = 50.0
    rate_unit: str = "req/s"
    cpu_unit: str = "us/req"
    p99_judged: bool = True

    def __post_init__(self) -> None:
        self._large = b""

    def once(self, peer: Peer) -> Sample:
        if not self._large:
            self._large = requests.packed_batch(self.inflated_bytes, VALUE_BYTES, self.codec)
        # Neither topic may grow for long: the rows are about the loop, not about the disk.
        small = topics.create(peer, self.name, 1)
        large = topics.create(peer, self.name, 1, {"max.message.bytes": str(LARGE_MESSAGE_BYTES)})
        frame = requests.produce(small, 0, requests.batch([bytes(range(100))], int(time.time() * 1000)))
        with neighbour(peer, requests.produce(large, 0, self._large), self.per_second):
            report = load(peer, "produce", [frame], connections=1, in_flight=1, seconds=self.seconds)
        for topic in (small, large):
            topics.delete(peer, topic)
        return replace(report_sample(peer, report, "requests"), loop_held_ms=loop_held_ms(peer))


def loop_held_ms(peer: Peer) -> float | None:
    """What moldau has written about itself (`moldau doctor` reads the same)."""
    if not isinstance(peer, Moldau):
        return None
    try:
        return float(json.loads((peer.data_dir / LOOP_FIGURES).read_text())["longest_ms"])
    except FileNotFoundError:
        return 0.0  # never for 10 ms


def neighbour_rows() -> list[Row]:
    return [
        TinyBesideLarge("beside-zstd-1m", "produce 100 B beside 1 MB zstd batches"),
        TinyBesideLarge("beside-gzip-1m", "produce 100 B beside 1 MB gzip batches", codec="gzip"),
        TinyBesideLarge(
            "beside-zstd-8m", "produce 100 B beside 8 MB zstd batches", inflated_bytes=8_000_000, per_second=10.0
        ),
    ]
