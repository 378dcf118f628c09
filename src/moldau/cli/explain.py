"""`moldau explain CODE`."""

from __future__ import annotations

import click

from moldau.cli.completing import error_codes
from moldau.cli.errors import CATALOGUE
from moldau.cli.output import FORMAT, print_document


@click.command(help="Explain an error code such as MD-1001.")
@click.argument("code", required=False, shell_complete=error_codes)
@FORMAT
def explain(code: str | None, format_: str) -> None:
    wanted = list(CATALOGUE) if code is None else [code.upper()]
    if wanted[0] not in CATALOGUE:
        raise click.UsageError(f"There is no error code '{code}'. `moldau explain` lists them all.")
    if format_ != "table":
        rows = [{"code": name, "title": CATALOGUE[name].title, "text": CATALOGUE[name].text} for name in wanted]
        print_document(rows if code is None else rows[0], format_)
        return
    for name in wanted:
        entry = CATALOGUE[name]
        click.echo(f"{name}  {entry.title}" if code is None else f"{name}: {entry.title}\n\n{entry.text}")
