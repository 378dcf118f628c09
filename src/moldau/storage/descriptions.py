"""What DescribeLogDirs tells of directories and logs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LogDescription:
    topic: str
    partition: int
    size_bytes: int
    is_future: bool = False


@dataclass(frozen=True, slots=True)
class DirectoryDescription:
    """One directory, for DescribeLogDirs."""

    path: str
    directory_id: bytes
    offline: bool
    reason: str
    total_bytes: int = -1
    free_bytes: int = -1
    logs: list[LogDescription] = field(default_factory=list)
