"""`moldau explain CODE`."""

from __future__ import annotations

import click

from moldau.cli.errors import CATALOGUE


@click.command(help="Explain an error code such as MD-1001.")
@click.argument("code", required=False)
def explain(code: str | None) -> None:
    if code is None:
        for name, entry in CATALOGUE.items():
            click.echo(f"{name}  {entry.title}")
        return
    wanted = CATALOGUE.get(code.upper())
    if wanted is None:
        raise click.UsageError(f"There is no error code '{code}'. `moldau explain` lists them all.")
    click.echo(f"{code.upper()}: {wanted.title}\n\n{wanted.text}")
