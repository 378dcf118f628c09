"""What `moldau group` prints, from what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from moldau.cli.group_seek import Move
from moldau.cli.output import counted
from moldau.client.groups import GroupView
from moldau.client.lag import PartitionLag, Verdict, query_committed_ms
from moldau.model.ids import TopicPartition

NO_COMMIT = "no commit"


@dataclass(frozen=True, slots=True)
class GroupReport:
    """One look at one group."""

    view: GroupView
    lags: dict[TopicPartition, PartitionLag]
    verdicts: dict[TopicPartition, Verdict]

    @property
    def verdict(self) -> Verdict:
        return max(self.verdicts.values(), default=Verdict.OK)

    @property
    def lag(self) -> int:
        return sum(row.records for row in self.lags.values())

    @property
    def seconds(self) -> float | None:
        """How long the oldest unread record has been waiting."""
        known = [row.seconds for row in self.lags.values() if row.seconds is not None]
        return max(known) if known else None

    def partitions(self) -> list[TopicPartition]:
        """Committed, assigned or subscribed to."""
        return sorted({**dict.fromkeys(self.lags), **dict.fromkeys(self.view.owners())})

    def document(self) -> dict[str, Any]:
        """Everything, for JSON and YAML."""
        owners = self.view.owners()
        return {
            "group": self.view.group_id,
            "state": self.view.state,
            "type": self.view.type,
            "assignor": self.view.protocol or None,
            "coordinator": self.view.coordinator,
            "epoch": self.view.epoch,
            "verdict": self.verdict.name,
            "lag": self.lag,
            "lag_s": self.seconds,
            "members": [
                {
                    "member": member.member_id,
                    "instance": member.instance_id,
                    "client": member.client_id,
                    "host": member.host.lstrip("/"),
                    "partitions": [str(partition) for partition in member.partitions],
                }
                for member in self.view.members
            ],
            "partitions": [self._partition(partition, owners) for partition in self.partitions()],
        }

    def _partition(self, partition: TopicPartition, owners: dict[TopicPartition, Any]) -> dict[str, Any]:
        row = self.lags.get(partition)
        owner = owners.get(partition)
        return {
            "topic": partition.topic,
            "partition": partition.partition,
            "committed": None if row is None else row.committed,
            "start": None if row is None else row.start,
            "end": None if row is None else row.end,
            "lag": None if row is None else row.records,
            "lag_s": None if row is None else row.seconds,
            "lost": 0 if row is None else row.lost,
            "verdict": None if row is None else self.verdicts[partition].name,
            "metadata": None if row is None else row.metadata or None,
            "member": None if owner is None else owner.member_id,
        }


def group_facts(report: GroupReport) -> dict[str, Any]:
    view = report.view
    facts: dict[str, Any] = {
        "group": view.group_id,
        "state": view.state,
        "type": f"{view.type}, assignor {view.protocol}" if view.protocol else view.type,
        "coordinator": f"broker {view.coordinator}",
        "members": _members(report),
        "lag": counted(report.lag, "record"),
        "oldest": waiting(report.seconds, report.lag),
        "verdict": VERDICT_WORDS[report.verdict],
    }
    if view.epoch is not None:
        facts["epoch"] = view.epoch
    lost = sum(row.lost for row in report.lags.values())
    if lost:
        facts["lost"] = f"{lost:,} offsets were removed by retention before they were read"
    return facts


def _members(report: GroupReport) -> str:
    """A Spark query never joins: it only tells the group how far it is."""
    commits = [query_committed_ms(row.metadata) for row in report.lags.values()]
    last_ms = max((when for when in commits if when is not None), default=None)
    if report.view.members or last_ms is None:
        return str(len(report.view.members))
    moment = datetime.fromtimestamp(last_ms / 1000, UTC)
    return f"none; a Spark query commits here, the last time at {moment:%Y-%m-%d %H:%M:%S} UTC"


def describe_rows(report: GroupReport) -> list[dict[str, Any]]:
    owners = report.view.owners()
    rows = []
    for partition in report.partitions():
        row = report.lags.get(partition)
        owner = owners.get(partition)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed": NO_COMMIT if row is None or row.committed is None else row.committed,
                "end": None if row is None else row.end,
                "lag": None if row is None else row.records,
                "behind": None if row is None else human_seconds(row.seconds),
                "trend": None if row is None else report.verdicts[partition].name,
                "client": None if owner is None else owner.client_id,
                "member": None if owner is None else owner.member_id,
            }
        )
    return rows


def member_rows(report: GroupReport) -> list[dict[str, Any]]:
    return [
        {
            "member": member.member_id,
            "instance": member.instance_id,
            "client": member.client_id,
            "host": member.host.lstrip("/"),
            "partitions": len(member.partitions),
            "assigned": [str(partition) for partition in member.partitions],
        }
        for member in report.view.members
    ]


def seek_rows(plan: Sequence[Move]) -> list[dict[str, Any]]:
    return [
        {
            "topic": move.partition.topic,
            "partition": move.partition.partition,
            "committed": move.committed,
            "new": move.offset,
            "change": None if move.committed is None else move.offset - move.committed,
            "lag_after": max(0, move.end - move.offset),
        }
        for move in plan
    ]


def waiting(seconds: float | None, lag: int) -> str:
    if lag == 0:
        return "nothing unread"
    return "not known" if seconds is None else f"the first unread record has waited {human_seconds(seconds)}"


def human_seconds(seconds: float | None) -> str:
    """3725.4 -> '1h 2m'."""
    if seconds is None:
        return "-"
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = int(seconds)
    for size, unit, next_size, next_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            return f"{whole // size}{unit} {whole % size // next_size}{next_unit}"
    return f"{whole}s"


VERDICT_WORDS = {
    Verdict.OK: "OK",
    Verdict.UNKNOWN: "there is a lag; add --watch 5s to see where it goes",
    Verdict.WARN: "WARN: reads, but falls behind",
    Verdict.STALL: "STALL: has members, but does not move",
    Verdict.STOP: "STOP: nobody reads, and records wait",
}
