"""What `moldau doctor` says about waiting: how quickly the broker answers now, and how long its loop was ever held."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from moldau.client.cluster import Cluster
from moldau.node import loop_figures
from moldau.wire.apis import ApiKey
from moldau.wire.messages.api_versions import ApiVersionsRequest

PROBES: Final = 100
SLOW_MS: Final = 50.0
HELD_MS: Final = 250.0
ASK: Final = ApiVersionsRequest(client_software_name="moldau-doctor", client_software_version="1")


async def answer_times_ms(cluster: Cluster) -> list[float]:
    """How long the cheapest request took, again and again, sorted."""
    broker = await cluster.any_broker()
    times = []
    for _ in range(PROBES):
        begin = time.perf_counter()
        await broker.request(ApiKey.API_VERSIONS, ASK, timeout_s=3)
        times.append((time.perf_counter() - begin) * 1000.0)
    return sorted(times)


def answers(times_ms: list[float]) -> tuple[bool, str]:
    """Whether it is well, and the sentence."""
    middle, worst = times_ms[len(times_ms) // 2], times_ms[-1]
    return worst < SLOW_MS, f"answers in {middle:.1f} ms, the slowest of {len(times_ms)} in {worst:.1f} ms"


def held(data_dir: Path) -> tuple[bool, str]:
    """The same about the past of the broker of this directory."""
    holds = loop_figures.read(data_dir)
    if not holds.over_10_ms:
        return True, "its event loop was never held for 10 ms"
    text = (
        f"its event loop was held for {holds.longest_ms:.0f} ms at most, by {holds.longest_by}; "
        f"{holds.over_10_ms} times for over 10 ms, {holds.over_50_ms} for over 50"
    )
    return holds.longest_ms < HELD_MS, text
