"""`moldau profile ...`."""

from __future__ import annotations

import click

from moldau.cli import profiles
from moldau.cli.completing import profile_names
from moldau.cli.errors import PlainError
from moldau.cli.output import FORMAT, Deeds, print_rows
from moldau.cli.quantities import DURATION_TEXT
from moldau.client.cluster import parse_bootstrap


@click.group(help="Name clusters, so that --profile NAME stands for their address.")
def profile() -> None:
    pass


@profile.command("list", help="List profiles.")
@FORMAT
def list_(format_: str) -> None:
    rows = [
        {"profile": found.name, "bootstrap": found.bootstrap, "timeout": found.timeout}
        for found in profiles.read().values()
    ]
    print_rows(rows, format_, empty=f"No profiles in {profiles.path()}. Add one: moldau profile set NAME -b HOST:PORT")


@profile.command("set", help="Add a profile, or change one.")
@click.argument("name", shell_complete=profile_names)
@click.option("-b", "--bootstrap-server", "bootstrap", required=True, metavar="HOST:PORT,...", help="Its address.")
@click.option("--timeout", type=DURATION_TEXT, help="How long to wait for its answers, such as 30s.")
@FORMAT
def set_(name: str, bootstrap: str, timeout: str | None, format_: str) -> None:
    if not profiles.NAME.fullmatch(name):
        raise click.BadParameter(f"'{name}' is not a name of letters, digits, - and _", param_hint="NAME")
    try:
        parse_bootstrap(bootstrap)
    except ValueError as mistake:
        raise click.UsageError(str(mistake)) from None
    profiles.read()  # a file with mistakes is told, not written over
    profiles.write(profiles.Profile(name, bootstrap, timeout))
    deeds = Deeds(format_)
    deeds.tell(f"{name} is {bootstrap}, in {profiles.path()}", profile=name, bootstrap=bootstrap, timeout=timeout)
    deeds.close()


@profile.command(help="Delete a profile.")
@click.argument("name", shell_complete=profile_names)
@FORMAT
def delete(name: str, format_: str) -> None:
    if name not in profiles.read():
        raise PlainError("MD-2010", "unknown profile", facts=[("profile", name)], fixes=["moldau profile list"])
    profiles.remove(name)
    deeds = Deeds(format_)
    deeds.tell(f"deleted {name}", profile=name, deleted=True)
    deeds.close()
