"""Commands that may have to wait carry their ticket where the runtime puts it."""

from __future__ import annotations

from moldau.core.group import commands


def test_a_ticket_is_always_the_first_field() -> None:
    kinds = [kind for kind in vars(commands).values() if "ticket" in getattr(kind, "_fields", ())]
    assert {kind.__name__ for kind in kinds} == {"JoinGroup", "SyncGroup"}
    assert all(kind._fields[0] == "ticket" for kind in kinds)
