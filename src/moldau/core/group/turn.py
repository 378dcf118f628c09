"""One decision in the making: what it may read, and what it collects."""

from __future__ import annotations

from typing import Any

from moldau.core.coordination import Decision, Now
from moldau.core.group.classic import LiveGroup
from moldau.core.group.settings import GroupSettings
from moldau.core.group.soft import Soft, Timer
from moldau.core.group.state import Group, ShardState


class Turn:
    """Deciders read `state`, may write `soft`, and leave records and completions here."""

    __slots__ = ("completions", "effects", "now", "records", "settings", "soft", "state")

    def __init__(self, state: ShardState, soft: Soft, settings: GroupSettings, now: Now) -> None:
        self.state = state
        self.soft = soft
        self.settings = settings
        self.now = now
        self.records: list[Any] = []
        self.completions: dict[int, Any] = {}
        self.effects: list[Any] = []

    def decision(self, reply: Any, own_ticket: int | None = None) -> Decision:
        """The ticket of the command itself does not travel as a completion: its answer is the reply."""
        if own_ticket is not None:
            reply = self.completions.pop(own_ticket, reply)
        return Decision(tuple(self.records), reply, tuple(self.completions.items()), tuple(self.effects))

    def complete(self, ticket: int | None, reply: Any) -> None:
        if ticket is not None:
            self.completions[ticket] = reply

    def group(self, group_id: str) -> Group | None:
        return self.state.groups.get(group_id)

    def live(self, group_id: str) -> LiveGroup | None:
        """A classic group as it lives; at rest it is built from what is stored, and not remembered."""
        live = self.soft.classic.get(group_id)
        if live is None:
            group = self.group(group_id)
            if group is not None and group.consumer is None:
                return self.at_rest(group)
        return live

    def at_rest(self, group: Group) -> LiveGroup:
        if group.metadata is None:
            return LiveGroup(group.group_id, -1)
        return LiveGroup.from_stored(group.group_id, group.metadata)

    def schedule(self, timer: Timer, timeout_ms: int) -> None:
        self.soft.deadlines.schedule(timer, self.now.loop_ms + timeout_ms)

    def cancel(self, timer: Timer) -> None:
        self.soft.deadlines.cancel(timer)
