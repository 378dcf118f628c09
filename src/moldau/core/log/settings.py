"""What the log of one partition must know of its topic's configuration, resolved and typed.

Compiled: read on the hot path. Field names follow Kafka's topic-level keys.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

FOREVER: Final = 2**63 - 1
NO_LIMIT: Final = -1


class LogSettings:
    """Topic-level configuration after defaults, broker settings and topic overrides are merged. Treat as frozen."""

    def __init__(
        self,
        *,
        segment_bytes: int = 1 << 30,
        segment_ms: int = 7 * 24 * 3600 * 1000,
        segment_jitter_ms: int = 0,
        index_bytes_max: int = 10 << 20,
        index_interval_bytes: int = 4096,
        flush_messages: int = FOREVER,
        flush_ms: int = FOREVER,
        retention_bytes: int = NO_LIMIT,
        retention_ms: int = 7 * 24 * 3600 * 1000,
        message_bytes_max: int = 1_048_588,
        timestamp_log_append: bool = False,
        timestamp_before_max_ms: int = FOREVER,
        timestamp_after_max_ms: int = 3_600_000,
        compression_type: str = "producer",
        compact: bool = False,
        delete: bool = True,
        delete_retention_ms: int = 24 * 3600 * 1000,
        compaction_lag_min_ms: int = 0,
        compaction_lag_max_ms: int = FOREVER,
        cleanable_dirty_ratio_min: float = 0.5,
        file_delete_delay_ms: int = 60_000,
        preallocate: bool = False,
        insync_replicas_min: int = 1,
        unclean_leader_election: bool = False,
        held: bool = False,
    ) -> None:
        self.segment_bytes: i64 = segment_bytes
        self.segment_ms: i64 = segment_ms
        self.segment_jitter_ms: i64 = segment_jitter_ms
        self.index_bytes_max: i64 = index_bytes_max
        self.index_interval_bytes: i64 = index_interval_bytes
        self.flush_messages: i64 = flush_messages
        self.flush_ms: i64 = flush_ms
        self.retention_bytes: i64 = retention_bytes
        self.retention_ms: i64 = retention_ms
        self.message_bytes_max: i64 = message_bytes_max
        self.timestamp_log_append = timestamp_log_append
        self.timestamp_before_max_ms: i64 = timestamp_before_max_ms
        self.timestamp_after_max_ms: i64 = timestamp_after_max_ms
        self.compression_type = compression_type
        self.compact = compact
        self.delete = delete
        self.delete_retention_ms: i64 = delete_retention_ms
        self.compaction_lag_min_ms: i64 = compaction_lag_min_ms
        self.compaction_lag_max_ms: i64 = compaction_lag_max_ms
        self.cleanable_dirty_ratio_min = cleanable_dirty_ratio_min
        self.file_delete_delay_ms: i64 = file_delete_delay_ms
        self.preallocate = preallocate
        self.insync_replicas_min: i64 = insync_replicas_min
        self.unclean_leader_election = unclean_leader_election
        self.held = held
        """Neither retention nor compaction takes anything, whatever the rest says."""
