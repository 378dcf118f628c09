"""The leader's rule for one partition: who is in sync, and how far the high watermark may go.

Compiled, pure. The high watermark is the smallest end offset among the in-sync replicas. Only what was learned in the
current leader epoch counts (a follower's position is unknown until its first fetch in this epoch), because an
acknowledgement from an earlier epoch may speak of a tail that was truncated since (KIP-101). It never falls.

A node alone is the whole ISR, so its own end offset is the watermark: `alone` keeps that case to one comparison.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

UNKNOWN_OFFSET: Final = -1


class Progress:
    """What the leader knows of one follower in this epoch."""

    def __init__(self) -> None:
        self.end_offset: i64 = UNKNOWN_OFFSET
        self.caught_up_ms: i64 = UNKNOWN_OFFSET


class Leadership:
    """ISR and high watermark of one partition during one leader epoch."""

    def __init__(
        self, node_id: int, leader_epoch: int, replicas: tuple[int, ...], isr: tuple[int, ...], high_watermark: i64
    ) -> None:
        self.node_id = node_id
        self.leader_epoch: i64 = leader_epoch
        self.replicas = replicas
        self.isr = isr
        self.high_watermark: i64 = high_watermark
        self.local_end_offset: i64 = high_watermark
        self.alone: bool = len(isr) == 1
        self.followers: dict[int, Progress] = {}
        for replica in replicas:
            if replica != node_id:
                self.followers[replica] = Progress()

    def local_end(self, end_offset: i64) -> bool:
        """The leader's own acknowledgeable end moved. True when the high watermark rose."""
        self.local_end_offset = end_offset
        if self.alone:
            if end_offset > self.high_watermark:
                self.high_watermark = end_offset
                return True
            return False
        return self._raise_watermark()

    def follower_fetched(self, node_id: int, fetch_offset: i64, now_ms: i64) -> bool:
        """A follower asks for `fetch_offset`: it holds everything before. True when the high watermark rose."""
        progress = self.followers.get(node_id)
        if progress is None:
            return False
        if fetch_offset > progress.end_offset:
            progress.end_offset = fetch_offset
        if fetch_offset >= self.local_end_offset:
            progress.caught_up_ms = now_ms
        return self._raise_watermark()

    def isr_changed(self, isr: tuple[int, ...]) -> bool:
        """The controller stored a new ISR. True when the high watermark rose (a laggard left)."""
        self.isr = isr
        self.alone = len(isr) == 1
        return self._raise_watermark()

    def enough_in_sync(self, insync_replicas_min: i64) -> bool:
        """Whether acks=all may be accepted. The minimum never exceeds the replicas there are, as in Kafka 4."""
        needed: i64 = min(insync_replicas_min, i64(len(self.replicas)))
        return i64(len(self.isr)) >= needed

    def lagging(self, now_ms: i64, lag_ms_max: i64) -> list[int]:
        """In-sync followers that have not been level with the leader for too long, by node id."""
        late: list[int] = []
        for node_id in sorted(self.isr):
            progress = self.followers.get(node_id)
            if progress is None or progress.end_offset >= self.local_end_offset:
                continue
            if now_ms - progress.caught_up_ms > lag_ms_max:
                late.append(node_id)
        return late

    def caught_up(self) -> list[int]:
        """Followers outside the ISR that reached the high watermark, by node id: they may come back in."""
        return [
            node_id
            for node_id in sorted(self.followers)
            if node_id not in self.isr and self.followers[node_id].end_offset >= self.high_watermark
        ]

    def _raise_watermark(self) -> bool:
        lowest: i64 = self.local_end_offset
        for node_id in self.isr:
            progress = self.followers.get(node_id)
            if progress is None:
                continue
            if progress.end_offset < lowest:
                lowest = progress.end_offset
        if lowest > self.high_watermark:
            self.high_watermark = lowest
            return True
        return False
