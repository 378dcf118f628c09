"""What a shell may complete: names of topics and groups of the cluster in question, settings, codes, profiles.

Whoever presses Tab waits: a cluster that does not answer within a second offers nothing, and nothing is ever told.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import click

from moldau.client.cluster import Cluster

PATIENCE_S: Final = 1.0


def topic_names(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    async def ask(cluster: Cluster) -> Iterable[str]:
        await cluster.refresh(None)
        hidden = not incomplete.startswith("_")
        return [name for name, view in cluster.topics.items() if not (hidden and view.is_reserved)]

    return _beginning(incomplete, _asked(context, ask))


def group_names(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from moldau.client.groups import list_groups

    async def ask(cluster: Cluster) -> Iterable[str]:
        return [row.group_id for row in await list_groups(cluster)]

    return _beginning(incomplete, _asked(context, ask))


def setting_keys(_context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from moldau.config.explain import all_keys

    return _beginning(incomplete, all_keys())


def setting_pairs(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [f"{key}=" for key in setting_keys(context, parameter, incomplete)]


def resource_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Of `config get topic NAME`."""
    return topic_names(context, parameter, incomplete) if context.params.get("kind") == "topic" else []


def error_codes(_context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from moldau.cli.errors import CATALOGUE

    return _beginning(incomplete.upper(), CATALOGUE)


def profile_names(_context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    from moldau.cli import profiles

    try:
        return _beginning(incomplete, profiles.read())
    except click.ClickException:
        return []


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))


def _asked(context: click.Context, ask: Callable[[Cluster], Awaitable[Iterable[str]]]) -> Iterable[str]:
    from moldau.cli.session import with_cluster

    try:
        return with_cluster(_address(context), ask, timeout_s=PATIENCE_S)
    except (click.ClickException, OSError):
        return []


def _address(context: click.Context) -> str:
    """What was typed on the line, or what would be taken without it."""
    from moldau.cli.local_broker import default_bootstrap

    return _typed_address() or str(context.params.get("bootstrap") or default_bootstrap())


def _typed_address() -> str | None:
    """From the whole line: click parses what stands before the cursor alone, and bash (COMP_WORDBREAKS) hands over
    `-b HOST:PORT` in pieces."""
    line = re.sub(r"\s*([:=])\s*", r"\1", os.environ.get("COMP_WORDS", ""))
    found = re.findall(r"\s(?:-b\s*|--(?:bootstrap-servers?|brokers)[=\s]\s*)([^\s-]\S*)", line)
    return found[-1] if found else None
