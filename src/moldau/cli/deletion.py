"""How several things are deleted by name: look at all of them, tell or ask, remove one after the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from moldau.cli.consent import ask
from moldau.cli.left_out import LeftOut
from moldau.cli.output import Deeds
from moldau.cli.session import with_cluster
from moldau.client.cluster import Cluster


def delete_named(
    kind: str,
    names: Iterable[str],
    look: Callable[[Cluster, str], Awaitable[str]],
    remove: Callable[[Cluster, str], Awaitable[None]],
    *,
    yes: bool,
    dry_run: bool,
    format_: str,
    bootstrap: str,
    timeout_s: float,
) -> None:
    """`look` says what would be lost with a name, or raises when it must not go: then nothing is removed."""
    deeds, left = Deeds(format_), LeftOut("not deleted", names)

    async def look_at_all(cluster: Cluster) -> dict[str, str]:
        contents = {}
        for name in dict.fromkeys(names):
            left.begin(name)
            contents[name] = await look(cluster, name)
        return contents

    async def remove_all(cluster: Cluster) -> None:
        for name in found:
            left.begin(name)
            await remove(cluster, name)
            left.done(name)
            deeds.tell(f"deleted {name}", **{kind: name, "deleted": True})

    with deeds, left:
        found = with_cluster(bootstrap, look_at_all, timeout_s=timeout_s)
        if dry_run:
            for name, contents in found.items():
                deeds.tell(f"{name} would be deleted: {contents}", **{kind: name, "deleted": False})
            return
        ask(f"Delete {'; '.join(f'{name} ({contents})' for name, contents in found.items())}?", yes=yes)
        with_cluster(bootstrap, remove_all, timeout_s=timeout_s)
