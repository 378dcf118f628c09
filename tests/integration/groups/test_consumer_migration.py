"""Migration between the group protocols with cooperative members: what stays with a member is never interrupted."""

from __future__ import annotations

from collections.abc import Callable

from tests.integration.groups.conftest import Topics
from tests.integration.groups.members import Members, wait_until_shared

Unique = Callable[[], str]


def test_cooperative_members_give_up_only_what_others_get(
    topics: Topics, members: Members, a_topic: str, unique: Unique
) -> None:
    group = unique()
    every = [(a_topic, index) for index in range(4)]
    classic = {"assignor": "cooperative-sticky", "auto_commit": True}
    old = [members.start("confluent", group, [a_topic], **classic) for _ in range(2)]
    wait_until_shared(old, every)
    kept = {partition for member in old for partition in member.assignment}
    given_up = [len(member.of("lost")) for member in old]
    new = members.start("confluent", group, [a_topic], protocol="consumer", auto_commit=True)
    wait_until_shared([*old, new], every)
    lost = [
        tuple(row)
        for member, before in zip(old, given_up, strict=True)
        for event in member.of("lost")[before:]
        for row in event["partitions"]
    ]
    assert sorted(lost) == sorted(new.assignment)
    assert kept == set(every)
    for member in old:
        member.close()
    wait_until_shared([new], every)
    assert not new.of("lost")
