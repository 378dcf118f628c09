"""`moldau config ...`: what is set, where it comes from, what it means, and changing it while the broker runs."""

from __future__ import annotations

from typing import Any

import click

from moldau.cli.completing import resource_names, setting_keys, setting_pairs
from moldau.cli.output import FORMAT, Deeds, print_facts, print_rows
from moldau.cli.pairs import parse_settings
from moldau.cli.session import BOOTSTRAP, TIMEOUT, with_cluster
from moldau.client import admin
from moldau.client.cluster import Cluster

_KINDS = {"topic": admin.RESOURCE_TOPIC, "broker": admin.RESOURCE_BROKER}
KIND = click.argument("kind", type=click.Choice(list(_KINDS)))


@click.group(help="Show, change and explain settings.")
def config() -> None:
    pass


@config.command("get", help="Show the settings of a topic or a broker (a broker's name is its id).")
@KIND
@click.argument("name", shell_complete=resource_names)
@click.argument("keys", shell_complete=setting_keys, nargs=-1)
@click.option("-a", "--all", "everything", is_flag=True, help="Show defaults too, not only what was set.")
@FORMAT
@BOOTSTRAP
@TIMEOUT
def get(
    kind: str, name: str, keys: tuple[str, ...], everything: bool, format_: str, bootstrap: str, timeout_s: float
) -> None:
    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        rows = await admin.describe_configs(cluster, _KINDS[kind], name, list(keys) or None)
        return [
            {"key": row.name, "value": "(hidden)" if row.sensitive else row.value, "source": row.source}
            for row in rows
            if everything or keys or row.source != "default"
        ]

    rows = with_cluster(bootstrap, work, timeout_s=timeout_s)
    print_rows(rows, format_, empty="Everything is at its default. Add --all to see the defaults.")


@config.command(
    "set",
    help="Change settings of a topic or a broker: retention.ms=7d segment.bytes=64MiB. KEY= gives the empty value.",
)
@KIND
@click.argument("name", shell_complete=resource_names)
@click.argument("pairs", nargs=-1, required=True, metavar="KEY=VALUE...", shell_complete=setting_pairs)
@click.option("--dry-run", is_flag=True, help="Let the broker check the change without doing it.")
@FORMAT
@BOOTSTRAP
@TIMEOUT
def set_(
    kind: str, name: str, pairs: tuple[str, ...], dry_run: bool, format_: str, bootstrap: str, timeout_s: float
) -> None:
    changes: list[tuple[str, str, str | None]] = [("set", key, value) for key, value in parse_settings(pairs).items()]
    _alter(kind, name, changes, dry_run, format_, bootstrap, timeout_s)


@config.command(help="Remove settings, so that the default holds again.")
@KIND
@click.argument("name", shell_complete=resource_names)
@click.argument("keys", shell_complete=setting_keys, nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Let the broker check the change without doing it.")
@FORMAT
@BOOTSTRAP
@TIMEOUT
def unset(
    kind: str, name: str, keys: tuple[str, ...], dry_run: bool, format_: str, bootstrap: str, timeout_s: float
) -> None:
    changes: list[tuple[str, str, str | None]] = [("delete", key, None) for key in keys]
    _alter(kind, name, changes, dry_run, format_, bootstrap, timeout_s)


@config.command(help="Show what differs between two topics or two brokers.")
@KIND
@click.argument("one", shell_complete=resource_names)
@click.argument("other", shell_complete=resource_names)
@FORMAT
@BOOTSTRAP
@TIMEOUT
def diff(kind: str, one: str, other: str, format_: str, bootstrap: str, timeout_s: float) -> None:
    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        left = {row.name: row.value for row in await admin.describe_configs(cluster, _KINDS[kind], one)}
        right = {row.name: row.value for row in await admin.describe_configs(cluster, _KINDS[kind], other)}
        return [
            {"key": key, "one": left.get(key), "other": right.get(key)}
            for key in sorted({*left, *right})
            if left.get(key) != right.get(key)
        ]

    rows = with_cluster(bootstrap, work, timeout_s=timeout_s)
    print_rows(rows, format_, empty=f"{one} and {other} have the same settings.", heads={"one": one, "other": other})


@config.command(help="Explain a setting: meaning, default, bounds, scope, and whether it can change at run time.")
@click.argument("key", shell_complete=setting_keys)
@FORMAT
def explain(key: str, format_: str) -> None:
    from moldau.config.explain import explain as explanation_of

    try:
        facts = explanation_of(key)
    except KeyError as unknown:
        raise click.UsageError(str(unknown.args[0])) from None
    print_facts(facts, format_)


def _alter(
    kind: str,
    name: str,
    changes: list[tuple[str, str, str | None]],
    dry_run: bool,
    format_: str,
    bootstrap: str,
    timeout_s: float,
) -> None:
    deeds = Deeds(format_)

    async def work(cluster: Cluster) -> None:
        await admin.alter_configs(cluster, _KINDS[kind], name, changes, validate_only=dry_run)
        verb = "would be" if dry_run else "is"
        for operation, key, value in changes:
            now = "back at its default" if operation == "delete" else f"now {value!r}"
            deeds.tell(f"{key} {verb} {now}", key=key, value=value, done=not dry_run)

    with_cluster(bootstrap, work, timeout_s=timeout_s)
    deeds.close()
